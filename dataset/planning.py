"""The plan of the dialogue scenarios: one cell per scenario to write, so that coverage is designed.

A cell names persona, pair slot (the persona's n-th pair), interaction, emotion, need, complexity, topic
and number of turns. Writers take cells as given, but may change emotion or topic where the two people
would never come to it; the audit measures what was written, not what was planned. Which cells are
written, and under which id, stands in ``plan_written.jsonl``.

Usage: ``python -m h2htalk_data.planning DATASET_CARD`` writes ``plan.jsonl`` (deterministic).
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from .catalog import CONFIGS
from .labels import TOPICS
from .records import Pair, Persona
from .sources import read_lines

PAIRS_PER_PERSONA: Final = 9
_LIGHT = (
    "admiration amusement awe contentment curiosity determination excitement gratitude hope joy nostalgia "
    "playfulness pride relief serenity surprise tenderness"
).split()
_MIXED = (
    "ambivalence boredom confusion disappointment disgust embarrassment envy exhaustion frustration "
    "homesickness insecurity jealousy longing restlessness worry"
).split()
_HEAVY = (
    "anger anxiety betrayal despair fear grief guilt helplessness hurt loneliness numbness overwhelm regret "
    "resentment sadness shame"
).split()

_DISTRESS = {*_HEAVY, "exhaustion", "homesickness", "insecurity", "longing", "worry", "disappointment"}

# Share of each interaction in percent, and the feelings that may come with it.
INTERACTIONS: Final[dict[str, tuple[float, Sequence[str]]]] = {
    "casual": (13, _LIGHT + _MIXED),
    "support": (12, _MIXED + _HEAVY),
    "play": (9, [*_LIGHT, "boredom", "restlessness", "embarrassment"]),
    "memory": (7, [*_LIGHT, "homesickness", "longing", "grief", "regret", "sadness"]),
    "planning": (6, [*_LIGHT, "worry", "restlessness", "insecurity", "frustration"]),
    "repair": (6, "anger guilt hurt regret resentment shame frustration embarrassment betrayal".split()),
    "celebration": (6, [*_LIGHT, "ambivalence", "numbness"]),
    "advice": (6, [*_MIXED, "anxiety", "fear", "anger", "determination", "curiosity"]),
    "check_in": (6, "loneliness exhaustion worry contentment boredom numbness relief sadness hope".split()),
    "confession": (5, "guilt shame embarrassment longing tenderness envy jealousy relief regret".split()),
    "learning": (5, "curiosity frustration pride embarrassment determination boredom awe insecurity".split()),
    "decision": (4.5, "ambivalence confusion fear hope determination worry guilt excitement".split()),
    "silence": (4, "numbness exhaustion grief serenity loneliness overwhelm sadness helplessness".split()),
    "boundary": (4, "jealousy longing insecurity anger resentment loneliness disappointment hurt".split()),
    "conflict": (4, "anger resentment betrayal frustration hurt disgust disappointment jealousy".split()),
    "farewell": (3.5, "sadness nostalgia tenderness hope gratitude grief relief homesickness".split()),
    "reunion": (3.5, "joy ambivalence relief surprise nostalgia embarrassment tenderness excitement".split()),
    "crisis": (0.5, "despair helplessness fear overwhelm".split()),
}
# DialogueEmotion is distress throughout.
DISTRESS: Final[dict[str, float]] = {
    "support": 22, "silence": 12, "confession": 12, "repair": 10, "conflict": 8, "farewell": 8, "crisis": 10,
    "decision": 6, "check_in": 6, "memory": 6,
}  # fmt: skip
TURNS: Final[dict[str, dict[int, float]]] = {
    "DialogueBase": {1: 20, 2: 6, 3: 32, 4: 5, 5: 20, 7: 11, 9: 4, 11: 2},
    "DialogueEmotion": {1: 10, 3: 30, 5: 30, 7: 20, 9: 8, 11: 2},
    "DialogueSchedule": {1: 24, 3: 40, 4: 6, 5: 20, 7: 10},
}
IMPLICIT: Final = {"DialogueBase": 0.45, "DialogueEmotion": 0.6, "DialogueSchedule": 0.4}
COMPLEXITY: Final[dict[int, float]] = {1: 30, 2: 45, 3: 25}


class Cell(NamedTuple):
    """One scenario to write. ``pair``: persona and slot, as ``noor.3``."""

    cell: str
    config: str
    pair: str
    interaction: str
    emotion: str
    need: str
    complexity: int
    topic: str
    turns: int


def spread(shares: Mapping[object, float], n: int, rng: random.Random) -> list[object]:
    """``n`` items in the given proportions (largest remainders), shuffled."""
    total = sum(shares.values())
    exact = {item: n * share / total for item, share in shares.items()}
    counts = {item: int(value) for item, value in exact.items()}
    rest = sorted(exact, key=lambda item: counts[item] - exact[item])
    for item in rest[: n - sum(counts.values())]:
        counts[item] += 1
    items = [item for item, count in counts.items() for _ in range(count)]
    rng.shuffle(items)
    return items


def cells(config: str, personas: Sequence[str], n: int, rng: random.Random) -> Iterator[Cell]:
    """``n`` cells of a dialogue config, every persona and topic used as evenly as can be."""
    shares = {name: share for name, (share, _) in INTERACTIONS.items()}
    if config == "DialogueEmotion":
        shares = dict(DISTRESS)
    interactions = spread(shares, n, rng)  # type: ignore[arg-type]
    people = spread(dict.fromkeys(personas, 1.0), n, rng)
    topics = spread(dict.fromkeys(TOPICS, 1.0), n, rng)
    turns = spread(TURNS[config], n, rng)  # type: ignore[arg-type]
    levels = spread(COMPLEXITY, n, rng)  # type: ignore[arg-type]
    needs = spread({"implicit": IMPLICIT[config], "explicit": 1 - IMPLICIT[config]}, n, rng)
    used: dict[str, int] = {}
    slots: dict[str, int] = {}
    for number in range(n):
        interaction, persona = str(interactions[number]), str(people[number])
        feelings = INTERACTIONS[interaction][1]
        if config == "DialogueEmotion":
            feelings = [name for name in feelings if name in _DISTRESS] or _HEAVY
        emotion = min(rng.sample(list(feelings), len(feelings)), key=lambda name: used.get(name, 0))
        used[emotion] = used.get(emotion, 0) + 1
        slots[persona] = slots.get(persona, rng.randrange(PAIRS_PER_PERSONA)) + 1
        yield Cell(
            f"{config}-p{number + 1:04d}",
            config,
            f"{persona}.{slots[persona] % PAIRS_PER_PERSONA + 1}",
            interaction,
            emotion,
            str(needs[number]),
            int(str(levels[number])),
            str(topics[number]),
            int(str(turns[number])),
        )


def plan(personas: Sequence[str], *, seed: int = 0) -> list[Cell]:
    """All cells of the three dialogue configs."""
    rng = random.Random(seed)
    dialogue = [task for task in CONFIGS.values() if task.dimension == "Dialogue"]
    return [cell for task in dialogue for cell in cells(task.name, sorted(personas), task.size, rng)]


def main() -> None:
    """Write ``plan.jsonl`` into the dataset card."""
    card = Path(sys.argv[1])
    problems: list[str] = []
    personas = [record.persona_id for _, record in read_lines(card / "personas.jsonl", Persona, problems)]
    list(read_lines(card / "pairs.jsonl", Pair, problems))
    if problems:
        sys.exit("\n".join(problems))
    text = "".join(json.dumps(cell._asdict()) + "\n" for cell in plan(personas))
    (card / "plan.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

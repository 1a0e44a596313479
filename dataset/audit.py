"""The figures that the data must reach, each with its bound, its verdict and its worst offenders.

Bounds hold for configs of at least ``FULL`` records. Every figure is a small function over the rows of
one config; ``audit`` runs them all and ``problems`` lists what is broken.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from h2htalk_metric.lexical import iter_scores, mean_scores
from h2htalk_metric.tokenizer_registry import get, resolve

from .checks import words
from .floors import last_input, ranked_constants
from .labels import EMOTIONS, INTERACTIONS, NO_KEY_INFORMATION, TOPICS

FULL: Final = 70
WORST: Final = 10
Row = dict[str, Any]
# Their format repeats by design, so some bounds are wider or do not apply.
_FORMAL: Final = frozenset({"RecollectionSynthesis", "ItineraryMiddle"})


@dataclass(frozen=True)
class Figure:
    """A measured figure. ``ok`` is None where the bound does not apply; ``worst``: offenders, worst first."""

    config: str
    name: str
    value: float
    bound: float
    at_most: bool
    ok: bool | None
    worst: list[str] = field(default_factory=list)


def _tokens(text: str) -> list[str]:
    return [word.casefold() for word in words(text)]


def _grams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _answered(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["reference"] != NO_KEY_INFORMATION]


def _repeated(items: Iterable[tuple[Any, str]]) -> tuple[float, list[str]]:
    """Share of distinct keys, and the ids behind keys that repeat."""
    groups: dict[Any, list[str]] = defaultdict(list)
    for key, identity in items:
        groups[key].append(identity)
    total = sum(map(len, groups.values()))
    same = sorted((ids for ids in groups.values() if len(ids) > 1), key=len, reverse=True)
    return (len(groups) / total if total else 1.0), [" = ".join(ids[:5]) for ids in same]


def distinct_references(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Share of distinct references, case-folded, of those with key information."""
    return _repeated((row["reference"].casefold(), row["id"]) for row in _answered(rows))


def distinct_inputs(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Share of distinct inputs."""
    return _repeated((str(row["messages"][1:]), row["id"]) for row in rows)


def opening(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Share of the most common first three tokens of references; numbers and times are format."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in _answered(rows):
        tokens = [token for token in _tokens(row["reference"]) if not token.isdigit()]
        groups[tuple(tokens[:3])].append(row["id"])
    common = sorted(groups.items(), key=lambda item: -len(item[1]))
    worst = [f"{' '.join(key)}: {len(ids)} ({', '.join(ids[:4])})" for key, ids in common if len(ids) > 1]
    return len(common[0][1]) / len(rows), worst


def five_grams(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Share of 5-gram occurrences whose 5-gram stands in at least 1 % of the records and at least 4."""
    by_row = [Counter(_grams(_tokens(row["reference"]), 5)) for row in _answered(rows)]
    spread = Counter(gram for grams in by_row for gram in grams)
    floor = max(4, 0.01 * len(rows))
    common = {gram for gram, n in spread.items() if n >= floor}
    total = sum(sum(grams.values()) for grams in by_row)
    hits = sum(n for grams in by_row for gram, n in grams.items() if gram in common)
    worst = [f"{' '.join(gram)}: {spread[gram]}" for gram in sorted(common, key=lambda gram: -spread[gram])]
    return (hits / total if total else 0.0), worst


def near_duplicates(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Share of records whose reference shares at least 0.6 of its 3-shingles (Jaccard) with another's."""
    kept = _answered(rows)
    shingles = [set(_grams(_tokens(row["reference"]), 3)) for row in kept]
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, grams in enumerate(shingles):
        for gram in grams:
            index[gram].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    for numbers in index.values():
        # A shingle of very many records is format, and on its own cannot make a pair.
        if len(numbers) <= 200:
            shared.update((a, b) for i, a in enumerate(numbers) for b in numbers[i + 1 :])
    pairs = []
    for (a, b), common in shared.items():
        jaccard = common / (len(shingles[a]) + len(shingles[b]) - common)
        if jaccard >= 0.6:
            pairs.append((jaccard, a, b))
    pairs.sort(reverse=True)
    worst = [f"{kept[a]['id']} ~ {kept[b]['id']}: {jaccard:.2f}" for jaccard, a, b in pairs]
    return len({n for _, a, b in pairs for n in (a, b)}) / len(rows), worst


def compression(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """zlib compression ratio of all references together."""
    text = "\n".join(row["reference"] for row in rows).encode()
    return len(text) / len(zlib.compress(text, 9)), []


def constant_answer(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Lexical S of the best constant answer."""
    ranked = ranked_constants([row["reference"] for row in rows], rows[0]["language"])
    return ranked[0][1], [f"{score:.3f} {answer}" for answer, score in ranked]


def echo_answer(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Lexical S of repeating the last user turn or the input."""
    tokenizer = get(resolve(rows[0]["language"]))
    scores = list(iter_scores(((last_input(row), row["reference"]) for row in rows), tokenizer))
    mean, _ = mean_scores(scores)
    ranked = sorted(zip(scores, rows, strict=True), key=lambda pair: -pair[0].mean)
    return (mean.mean if mean else 0.0), [f"{row['id']}: {score.mean:.2f}" for score, row in ranked]


def no_information(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Share of records whose reference is the no-key-information line."""
    silent = [row["id"] for row in rows if row["reference"] == NO_KEY_INFORMATION]
    return len(silent) / len(rows), silent


def _largest(name: str) -> Callable[[Sequence[Row]], tuple[float, list[str]]]:
    def figure(rows: Sequence[Row]) -> tuple[float, list[str]]:
        counts = Counter(row[name] for row in rows).most_common()
        return counts[0][1] / len(rows), [f"{label}: {n}" for label, n in counts]

    figure.__doc__ = f"Share of the most common {name}."
    return figure


def implicit(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Share of records whose need is implicit."""
    return sum(row["need"] == "implicit" for row in rows) / len(rows), []


def long_histories(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """Share of histories with five or more turns."""
    return sum(len(row["history"]) >= 5 for row in rows) / len(rows), []


Measure = tuple[
    str, Callable[[Sequence[Row]], tuple[float, list[str]]], bool, Callable[[str], "float | None"]
]


def _bound(usual: float | None, **special: float | None) -> Callable[[str], float | None]:
    return lambda config: special.get(config, usual)


def _formal(usual: float, formal: float | None) -> Callable[[str], float | None]:
    return lambda config: formal if config in _FORMAL else usual


MEASURES: Final[tuple[Measure, ...]] = (
    ("distinct references", distinct_references, False, _bound(0.995)),
    ("distinct inputs", distinct_inputs, False, _bound(1.0)),
    ("most common opening", opening, True, _bound(0.04, ItineraryMiddle=None)),
    ("common 5-grams", five_grams, True, _formal(0.03, 0.12)),
    ("near-duplicate references", near_duplicates, True, _formal(0.003, None)),
    ("compression ratio", compression, True, _formal(3.2, 4.5)),
    (
        "constant answer, lexical S",
        constant_answer,
        True,
        _bound(0.15, RecollectionSynthesis=0.30, ItineraryMiddle=0.20),
    ),
    ("echo, lexical S", echo_answer, True, _bound(0.20, RecollectionRefinement=0.45)),
    ("no key information", no_information, True, _bound(None, RecollectionSynthesis=0.12)),
    ("largest persona", _largest("persona_id"), True, _bound(0.04)),
    ("largest emotion", _largest("emotion"), True, _bound(0.25)),
    ("largest topic", _largest("topic"), True, _bound(0.25)),
    ("largest interaction", _largest("interaction"), True, _bound(0.25)),
    ("implicit need", implicit, False, _bound(None, DialogueBase=1 / 3, DialogueEmotion=0.5)),
    (
        "five turns or more",
        long_histories,
        False,
        _bound(None, DialogueBase=0.25, DialogueEmotion=0.25, DialogueSchedule=0.25),
    ),
)


def audit(rows: dict[str, list[Row]]) -> list[Figure]:
    """Every figure of every config that has rows."""
    figures = []
    for config, config_rows in rows.items():
        if not config_rows:
            continue
        for name, measure, at_most, bound_for in MEASURES:
            bound = bound_for(config)
            if bound is None:
                continue
            value, worst = measure(config_rows)
            met = value <= bound if at_most else value >= bound
            ok = met if len(config_rows) >= FULL else None
            figures.append(Figure(config, name, value, bound, at_most, ok, worst[:WORST]))
    return figures


def coverage(rows: dict[str, list[Row]]) -> list[Figure]:
    """Figures over the whole set: pairs, and how many labels of each kind occur."""
    every = [row for config_rows in rows.values() for row in config_rows]
    pairs = Counter(row["cluster"] for row in every).most_common()
    worst = [f"{cluster}: {n}" for cluster, n in pairs[:WORST]]
    figures = [Figure("all", "scenarios of one pair", pairs[0][1], 14, True, pairs[0][1] <= 14, worst)]
    for name, labels, least in (
        ("emotion", EMOTIONS, 24),
        ("topic", TOPICS, 60),
        ("interaction", INTERACTIONS, len(INTERACTIONS)),
    ):
        found = {row[name] for row in every}
        missing = [label for label in labels if label not in found]
        figures.append(
            Figure("all", f"{name} labels", len(found), least, False, len(found) >= least, missing[:WORST])
        )
    return figures


def problems(figures: Iterable[Figure]) -> list[Figure]:
    """The figures that miss a bound that applies."""
    return [figure for figure in figures if figure.ok is False]


def lines(figures: Iterable[Figure], worst: int) -> Iterable[str]:
    """The figures as text: value, bound, verdict, and the first ``worst`` offenders."""
    for figure in figures:
        verdict = {True: "ok", False: "MISSED", None: f"under {FULL} records"}[figure.ok]
        sign = "≤" if figure.at_most else "≥"
        yield f"{figure.config:26} {figure.name:27} {figure.value:8.3f} {sign} {figure.bound:<7.3f} {verdict}"
        for offender in figure.worst[:worst]:
            yield f"{'':28}{offender}"

"""The columns of the leaderboard's one Parquet file: what ``collect.py`` writes and the page reads.

Flat names: ``<scope>.<measure>`` with ``.low``, ``.high`` and ``.n`` beside it, where a scope is ``overall``,
a dimension or a config. A table may hold further columns; a tab that needs them says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VERSION: Final = "1"

DIMENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "Dialogue": ("DialogueBase", "DialogueEmotion", "DialogueSchedule"),
    "Recollection": ("RecollectionSynthesis", "RecollectionRefinement", "RecollectionInitialization"),
    "Itinerary": (
        "ItineraryBasic",
        "ItineraryMiddle",
        "ItineraryAdvanced",
        "ItineraryResponse",
        "ItineraryInitialization",
    ),
}
CONFIGS: Final = tuple(name for names in DIMENSIONS.values() for name in names)
SCOPES: Final = ("overall", *DIMENSIONS, *CONFIGS)
MEASURES: Final = {"task": "Task score", "s": "S only", "lexical": "Lexical part of S"}
GROUPS: Final = ("<1B", "1-8B", "8-31B", "32B+", "unknown")
KINDS: Final = ("result", "floor", "reported")
PARTS: Final = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_1", "rouge_l", "ss")
SAMPLES: Final = 2

TEXTS: Final = (
    "kind", "model_id", "revision", "group", "language", "time", "not_comparable_because", "signature",
    "signature_hash", "judge", "fingerprint", "prompt_version", "authored_by", "command", "sap", "failures",
    "beaten_by_constant", "harness", "target_price", "judge_price",
)  # fmt: skip
TRUTHS: Final = ("complete", "comparable", "embedded", "self_judged", "evidence")
COUNTS: Final = (
    "truncated", "target_prompt_tokens", "target_completion_tokens", "judge_prompt_tokens",
    "judge_completion_tokens",
)  # fmt: skip
NUMBERS: Final = ("target_usd", "judge_usd", "human_flags", "judge_flags", "checks", "temperature", "top_p")
CONFIG_COUNTS: Final = ("n_judged",)
CONFIG_NUMBERS: Final = ("checks", "all_passed", "human_flags", "judge_flags", *PARTS)


def sample_columns() -> Iterator[str]:
    """Sample answers: the only long texts, so a reader may leave them for later."""
    for config in CONFIGS:
        for number in range(1, SAMPLES + 1):
            yield f"{config}.sample_{number}_id"
            yield f"{config}.sample_{number}"


def columns() -> dict[str, str]:
    """Every column with its kind: ``text``, ``truth``, ``count`` or ``number``."""
    found = dict.fromkeys(TEXTS, "text")
    found |= (
        dict.fromkeys(TRUTHS, "truth") | dict.fromkeys(COUNTS, "count") | dict.fromkeys(NUMBERS, "number")
    )
    for scope in SCOPES:
        # Scenarios that were to be answered, and those of the dataset: they differ for a sample.
        found |= {f"{scope}.expected": "count", f"{scope}.size": "count"}
        for measure in MEASURES:
            found |= {f"{scope}.{measure}{end}": "number" for end in ("", ".low", ".high")}
            found[f"{scope}.{measure}.n"] = "count"
    for config in CONFIGS:
        found |= {f"{config}.{name}": "count" for name in CONFIG_COUNTS}
        found |= {f"{config}.{name}": "number" for name in CONFIG_NUMBERS}
    return found | dict.fromkeys(sample_columns(), "text")

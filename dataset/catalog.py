"""The eleven configs: their counts, dimensions and output contracts.

Counts and dimensions are those of the paper's Table 1. A contract is the part of a task's output
format that a program can verify; it applies to every record of the config, beside the record's own
checks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from h2htalk_metric.aggregate import CONFIGS as metric_configs  # noqa: N811

from .checks import Check


class Config(NamedTuple):
    """One task of the benchmark: its dimension, its number of scenarios and its output contract."""

    name: str
    dimension: str
    size: int
    contract: tuple[Check, ...]


def _contract(**checks: object) -> tuple[Check, ...]:
    return tuple(Check.model_validate({"kind": kind, "value": value}) for kind, value in checks.items())


_CONTRACTS: Final[dict[str, tuple[Check, ...]]] = {
    "DialogueBase": _contract(has_parenthetical=[], max_sentences=3, max_words=70),
    "DialogueEmotion": _contract(has_parenthetical=[], max_sentences=4, max_words=90),
    "DialogueSchedule": _contract(has_parenthetical=[], max_sentences=3, max_words=70),
    "RecollectionSynthesis": _contract(memory_lines=[1, 4]),
    "RecollectionRefinement": _contract(first_person=[], max_sentences=2, max_words=40),
    "RecollectionInitialization": _contract(max_sentences=4, max_words=80),
    "ItineraryBasic": _contract(one_paragraph=[], max_words=130),
    "ItineraryMiddle": _contract(
        time_lines=[], max_activities=5, chronological=[], sleep_last_after="20:00", max_asides=1
    ),
    "ItineraryAdvanced": _contract(numbered_time_lines=[3, 8], chronological=[]),
    "ItineraryResponse": _contract(first_person=[], max_sentences=1, max_words=45),
    "ItineraryInitialization": _contract(first_person=[], max_sentences=4, max_words=80),
}

# Names, order, dimensions and counts have one home: the metric, which must stand alone on the Hub.
CONFIGS: Final[dict[str, Config]] = {
    name: Config(name, task.dimension, task.size, _CONTRACTS[name]) for name, task in metric_configs.items()
}

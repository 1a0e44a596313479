"""One scored record, and what a group of them has in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from .aggregate import JUDGED
from .lexical import LexicalScores


@dataclass(frozen=True, slots=True)
class Record:
    """All scores of one record. None means that there is no such score, never 0.

    Attributes:
        index: Position in the input.
        id: Name of the record, if given.
        config: Task, if given.
        cluster: What the record shares with others, if given.
        lexical: The six lexical parts, each in [0, 1].
        ss: Semantic similarity in [0, 1]; None without an embedder.
        s: S in [0, 1]; None without an embedder.
        judge_score: Rubric score in [0, 5]; None if unscored.
        j: J in [0, 5]; None without judge score or without S.
        human_flag: J is below tau.
        judge_flag: The rubric score is below tau.
    """

    index: int
    id: str | None
    config: str | None
    cluster: str | None
    lexical: LexicalScores
    ss: float | None
    s: float | None
    judge_score: float | None
    j: float | None
    human_flag: bool | None
    judge_flag: bool | None

    @property
    def s_100(self) -> float | None:
        """S on the scale of the published tables."""
        return None if self.s is None else 100.0 * self.s

    @property
    def j_100(self) -> float | None:
        """J on the scale of the published tables."""
        return None if self.j is None else 20.0 * self.j

    @property
    def lexical_100(self) -> float:
        """The mean of the six lexical parts, times 100."""
        return 100.0 * self.lexical.mean

    @property
    def task_100(self) -> float | None:
        """The task score of the record's config: 20 J for the judged levels, 100 S for the others."""
        return self.j_100 if self.config in JUDGED else self.s_100

    def as_dict(self) -> dict[str, Any]:
        """Return the record for JSON: flat, plain types."""
        return {
            "index": self.index,
            "id": self.id,
            "config": self.config,
            "cluster": self.cluster,
            "s": self.s,
            "s_lexical": self.lexical.mean,
            **self.lexical._asdict(),
            "ss": self.ss,
            "judge_score": self.judge_score,
            "j": self.j,
            "human_flag": self.human_flag,
            "judge_flag": self.judge_flag,
            "task_100": self.task_100 if self.config is not None else None,
        }


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are there, or None if there are none."""
    present = [value for value in values if value is not None]
    return fsum(present) / len(present) if present else None


def summarise(records: Sequence[Record]) -> dict[str, float | int | None]:
    """Return the flat means of a group of records.

    Returns:
        `s`, `s_100`, `s_lexical`, the seven parts, `j` in [0, 5], `j_100`, both flag rates, `n`, and
        `n_judged`: how many records have a judge score (`j` and the flag rates are over those).
    """
    s = mean([record.s for record in records])
    j = mean([record.j for record in records])
    summary: dict[str, float | int | None] = {
        "s": s,
        "s_100": None if s is None else 100.0 * s,
        "s_lexical": mean([record.lexical.mean for record in records]),
    }
    for position, part in enumerate(LexicalScores._fields):
        summary[part] = mean([record.lexical[position] for record in records])
    summary |= {
        "ss": mean([record.ss for record in records]),
        "j": j,
        "j_100": None if j is None else 20.0 * j,
        "human_flag_rate": mean([record.human_flag for record in records]),
        "judge_flag_rate": mean([record.judge_flag for record in records]),
        "n": len(records),
        "n_judged": sum(record.judge_score is not None for record in records),
    }
    return summary

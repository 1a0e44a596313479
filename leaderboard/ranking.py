"""Who may be ranked with whom, and what the intervals let be said about ranks."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from data import Row, Slice, instrument

TOP: Final = 3


class Rank(NamedTuple):
    """A rank by score, and the best and the worst that the intervals allow."""

    rank: int
    best: int
    worst: int


def rankable(row: Row, measure: str) -> bool:
    """Whether a row may have a rank: a complete, comparable result with an overall score."""
    return bool(
        row["kind"] == "result"
        and row["complete"]
        and row["comparable"]
        and row[f"overall.{measure}"] is not None
    )


def status(row: Row, measure: str) -> str:
    """Why a row has no rank; ``ranked`` if it has one."""
    if row["kind"] == "floor":
        return "floor: a trivial system"
    if row["kind"] == "reported":
        return "reported, authors' data, not comparable"
    reasons = []
    if not row["comparable"]:
        reasons.append(f"not comparable: {row['not_comparable_because']}")
    if not row["complete"]:
        reasons.append("incomplete")
    if row["comparable"] and row["complete"] and row[f"overall.{measure}"] is None:
        reasons.append("no judge" if measure == "task" and not row["judge"] else "no overall score")
    return "; ".join(reasons) or "ranked"


def in_slice(rows: Sequence[Row], chosen: Slice) -> list[Row]:
    """The results of one instrument, and the floors of its dataset and signature."""
    found = []
    for row in rows:
        mine = instrument(row, chosen.measure)
        if row["kind"] == "floor":
            mine = mine._replace(judge=chosen.judge)
        if row["kind"] != "reported" and mine == chosen:
            found.append(row)
    return found


def bounds(row: Row, name: str) -> tuple[float, float]:
    """A score's interval; everything is possible where it is not known."""
    low, high = row[f"{name}.low"], row[f"{name}.high"]
    return (-math.inf if low is None else low, math.inf if high is None else high)


def ranks(rows: Sequence[Row], measure: str) -> dict[int, Rank]:
    """Row number -> rank by the overall score among the rankable of ``rows``; equal scores share a rank.

    The best rank counts only models whose whole interval lies above this one's, the worst all that are not
    wholly below it.
    """
    name = f"overall.{measure}"
    ranked = [row for row in rows if rankable(row, measure)]
    intervals = {row["row"]: bounds(row, name) for row in ranked}
    count = len(ranked)
    lows, highs = (sorted(item[end] for item in intervals.values()) for end in (0, 1))
    values = sorted(row[name] for row in ranked)
    found = {}
    for row in ranked:
        low, high = intervals[row["row"]]
        above = count - bisect.bisect_right(lows, high)
        below = bisect.bisect_left(highs, low)
        place = 1 + count - bisect.bisect_right(values, row[name])
        found[row["row"]] = Rank(place, 1 + above, count - below)
    return found


def leaders(rows: Sequence[Row], name: str, measure: str) -> dict[int, int]:
    """Row number -> 1, 2 or 3 for the three best rankable rows of a column; ties share a place."""
    scored = [(row[name], row["row"]) for row in rows if rankable(row, measure) and row[name] is not None]
    values = sorted(value for value, _ in scored)
    places = {number: 1 + len(values) - bisect.bisect_right(values, value) for value, number in scored}
    return {number: place for number, place in places.items() if place <= TOP}


def options(rows: Sequence[Row], chosen: Slice) -> tuple[Slice, dict[str, list[str]]]:
    """What can be chosen, each field given those before it, and ``chosen`` moved to something that exists.

    The most frequent value stands first, so an impossible choice falls back to the largest ranking.
    """
    left = [instrument(row, chosen.measure) for row in rows if row["kind"] == "result"]
    values: dict[str, list[str]] = {}
    for field in Slice._fields[1:]:
        counts = Counter(getattr(item, field) for item in left)
        values[field] = [value for value, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
        current = getattr(chosen, field)
        if current not in counts:
            current = values[field][0] if values[field] else ""
            chosen = chosen._replace(**{field: current})
        left = [item for item in left if getattr(item, field) == current]
    return chosen, values

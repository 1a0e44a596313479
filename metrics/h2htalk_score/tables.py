"""What `score` adds when configs or clusters are given: the table in three views, and the intervals."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from .aggregate import CONFIGS, OFFICIAL_SIZES, aggregate, config_cell
from .records import Record, summarise

VIEWS: dict[str, Callable[[Record], float | None]] = {
    "task": lambda record: record.task_100,
    "s_only": lambda record: record.s_100,
    "lexical": lambda record: record.lexical_100,
}
"""Three ways to fill the table, on 0 to 100: task scores (20 J or 100 S), S everywhere, lexical parts."""


def weights_name(sizes: Mapping[str, int]) -> str:
    """Return how the signature names the weights of the overall score: `table1`, or a hash of the sizes."""
    if dict(sizes) == OFFICIAL_SIZES:
        return "table1"
    text = ",".join(f"{name}={sizes[name]}" for name in CONFIGS if name in sizes)
    return f"sizes-{hashlib.sha256(text.encode('ascii')).hexdigest()[:8]}"


def build_tables(
    records: Sequence[Record], sizes: Mapping[str, int], expected: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return `configs`, `dimensions` and `overall` by task score, and the latter two for the other views.

    Args:
        records: Scored records with their configs.
        sizes: Weights of the overall score.
        expected: Records each config should have a score for, and which configs must show even without one;
            `sizes` and the configs of the records by default.

    Raises:
        ValueError: A scored config has no size, or has more scores than it should.
    """
    due = sizes if expected is None else expected
    groups = _by_config(records, expected or ())
    for name in groups:
        if name not in sizes or name not in due:
            raise ValueError(f"{'dataset_sizes' if name not in sizes else 'expected'}: no number for {name}")
    views: dict[str, Any] = {}
    for view, value in VIEWS.items():
        cells = {name: config_cell([value(r) for r in group], due[name]) for name, group in groups.items()}
        table = aggregate(cells, sizes)
        views[view] = {
            "configs": {name: cell.as_dict() for name, cell in table.configs.items()},
            "dimensions": {name: cell.as_dict() for name, cell in table.dimensions.items()},
            "overall": table.overall.as_dict(),
        }
    task = views.pop("task")
    configs: dict[str, Any] = {}
    for name, group in groups.items():
        configs[name] = {
            **summarise(group),
            "expected": due[name],
            "coverage": len(group) / due[name],
            "task": task["configs"][name],
        }
        if group and group[0].cluster is not None:
            configs[name]["intervals"] = build_intervals(group, task=True)
    return {"configs": configs, "dimensions": task["dimensions"], "overall": task["overall"], **views}


def _by_config(records: Sequence[Record], required: Container[str]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {name: [] for name in CONFIGS}
    for record in records:
        if record.config is not None:
            groups[record.config].append(record)
    return {name: group for name, group in groups.items() if group or name in required}


def build_intervals(records: Sequence[Record], task: bool = False) -> dict[str, dict[str, Any] | None]:
    """Return 95 % intervals of the means, records of one cluster counted as dependent.

    Args:
        records: Scored records with their clusters.
        task: Include the task score (the records are of one config).

    Returns:
        `s_100`, `lexical_100`, `j_100` (and `task_100`), each with mean, low, high, se, n, n_clusters and
        note (why there are no bounds, or what limits them), or None if no record has that score.
    """
    from .uncertainty import mean_interval

    wanted = {"s_100": VIEWS["s_only"], "lexical_100": VIEWS["lexical"], "j_100": _j_100}
    if task:
        wanted["task_100"] = VIEWS["task"]
    intervals: dict[str, dict[str, Any] | None] = {}
    for name, value in wanted.items():
        present = [(v, record.cluster) for record in records if (v := value(record)) is not None]
        if not present:
            intervals[name] = None
            continue
        interval = mean_interval([v for v, _ in present], [str(cluster) for _, cluster in present])
        intervals[name] = {
            "mean": interval.mean,
            "low": interval.low,
            "high": interval.high,
            "se": interval.se,
            "n": interval.n,
            "n_clusters": interval.n_clusters,
            "note": interval.note,
        }
    return intervals


def _j_100(record: Record) -> float | None:
    return record.j_100

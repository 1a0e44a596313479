"""The Table-2 shaped view of results: eleven configs, three averages, overall, n and coverage per cell."""

from __future__ import annotations

from typing import Any, NamedTuple

from h2htalk_metric.aggregate import DIMENSIONS, JUDGED


class Line(NamedTuple):
    """One row of the table. Scores on 0-100, J and flags only for the levels I-III, rates in [0, 1]."""

    label: str
    kind: str
    task: float | None
    interval: tuple[float, float] | None
    s: float | None
    lexical: float | None
    j: float | None
    human_flags: float | None
    judge_flags: float | None
    checks: float | None
    n: int
    expected: int
    judged: int | None


def _interval(cell: dict[str, Any], name: str) -> tuple[float, float] | None:
    found = (cell.get("intervals") or {}).get(name)
    if not found or found["low"] is None or found["high"] is None:
        return None
    return found["low"], found["high"]


def _config_line(name: str, results: dict[str, Any]) -> Line:
    cell = results["scores"]["configs"][name]
    checks = results["checks"].get(name)
    return Line(
        name,
        "config",
        cell["task"]["value"],
        _interval(cell, "task_100"),
        cell["s_100"],
        None if cell["s_lexical"] is None else 100 * cell["s_lexical"],
        cell["j_100"],
        cell["human_flag_rate"],
        cell["judge_flag_rate"],
        checks["checks"] if checks else None,
        cell["n"],
        cell["expected"],
        cell["n_judged"] if name in JUDGED else None,
    )


def _average_line(label: str, kind: str, name: str | None, scores: dict[str, Any]) -> Line:
    def cell(view: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = view["overall"] if name is None else view["dimensions"][name]
        return found

    task = cell(scores)
    records = [
        config
        for config_name, config in scores["configs"].items()
        if name is None or config_name in DIMENSIONS[name]
    ]
    return Line(
        label,
        kind,
        task["value"],
        None,
        cell(scores["s_only"])["value"],
        cell(scores["lexical"])["value"],
        None,
        None,
        None,
        None,
        sum(config["n"] for config in records),
        sum(config["expected"] for config in records),
        None,
    )


def lines(results: dict[str, Any]) -> list[Line]:
    """Rows of the table, dimension by dimension with its average below, overall last."""
    scores = results["scores"]
    rows: list[Line] = []
    for dimension, names in DIMENSIONS.items():
        present = [name for name in names if name in scores["configs"]]
        rows += [_config_line(name, results) for name in present]
        if present:
            rows.append(_average_line(f"{dimension} average", "average", dimension, scores))
    rows.append(_average_line("Overall", "overall", None, scores))
    return rows


def number(value: float | None) -> str:
    """A score with two decimals; a dash where there is none, which is not zero."""
    return "–" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    """A rate as a percentage; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.0f} %"


def heading(results: dict[str, Any]) -> str:
    """What the score column holds: task scores, S alone, or lexical parts alone."""
    return {"task": "score", "s": "S", "lexical": "S lexical"}[main_view(results)]


def main_view(results: dict[str, Any]) -> str:
    """Which view is complete enough to lead: ``task`` if judged, else ``s``, else ``lexical``."""
    scores = results["scores"]
    if scores["s"] is None:
        return "lexical"
    judged_run = [name for name in JUDGED if name in scores["configs"]]
    if judged_run and all(scores["configs"][name]["n_judged"] == 0 for name in judged_run):
        return "s"
    return "task"


def main_value(line: Line, view: str) -> float | None:
    """The score that leads in ``view``."""
    return {"task": line.task, "s": line.s, "lexical": line.lexical}[view]

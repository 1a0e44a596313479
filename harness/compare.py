"""Compare two scored runs: paired differences by config, Holm-adjusted, with the detectable effect.

Both runs must have been scored under the same signature on the same dataset: a difference of two
instruments is no difference of two models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from h2htalk_metric.uncertainty import PairedDifference, compare, minimum_detectable_effect

from .errors import SettingsError, StoreError
from .report import load
from .score import SCORES

# Every setting that makes two sets of scores measurements by the same instrument.
SAME: Final = ("signature", "dataset fingerprint", "prompt version", "judge signature")


def _instrument(results: dict[str, Any]) -> tuple[Any, ...]:
    judge = results["judge"]
    return (
        results["signature"],
        results["dataset"]["fingerprint"],
        results["dataset"]["prompt_version"],
        judge["signature"] if judge else None,
    )


def _value(row: dict[str, Any], view: str) -> float | None:
    if view == "task":
        task: float | None = row["task_100"]
        return task
    if view == "s":
        return None if row["s"] is None else 100 * row["s"]
    lexical: float = row["s_lexical"]
    return 100 * lexical


def _examples(folder: Path, view: str) -> dict[str, list[tuple[str, str, float | None]]]:
    import pyarrow.parquet as pq

    path = folder / SCORES
    if not path.is_file():
        raise StoreError(f"{folder}: no {SCORES}; run `h2htalk score {folder}` first")
    found: dict[str, list[tuple[str, str, float | None]]] = {}
    for row in pq.read_table(path).to_pylist():
        found.setdefault(row["config"], []).append((row["id"], row["cluster"], _value(row, view)))
    return found


def common_view(first: dict[str, Any], second: dict[str, Any]) -> str:
    """The best score that both runs have: ``task``, else ``s``, else ``lexical``."""
    if first["scores"]["s"] is None or second["scores"]["s"] is None:
        return "lexical"
    return "task" if first["judge"] and second["judge"] else "s"


def compare_runs(
    first: Path, second: Path, *, view: str | None = None
) -> tuple[str, dict[str, PairedDifference], dict[str, float | None]]:
    """Differences first − second by config, on 0-100, and each config's minimum detectable effect.

    Args:
        view: ``task``, ``s`` or ``lexical``; by default the best that both runs have.

    Raises:
        StoreError: a run has not been scored.
        SettingsError: the runs were scored by different instruments; says in what they differ.
    """
    results = load(first), load(second)
    differing = [
        f"{name}: {a!r} and {b!r}"
        for name, a, b in zip(SAME, _instrument(results[0]), _instrument(results[1]), strict=True)
        if a != b
    ]
    if differing:
        raise SettingsError(f"{first} and {second} cannot be compared: {'; '.join(differing)}")
    view = view or common_view(*results)
    a, b = _examples(first, view), _examples(second, view)
    differences = compare(a, b)
    effects: dict[str, float | None] = {}
    for config in differences:
        theirs = {identity: (cluster, value) for identity, cluster, value in b.get(config, [])}
        pairs = [
            (value - other, cluster)
            for identity, cluster, value in a.get(config, [])
            if value is not None and (other := theirs.get(identity, (None, None))[1]) is not None
        ]
        clusters = [cluster for _, cluster in pairs]
        effects[config] = (
            minimum_detectable_effect([gap for gap, _ in pairs], clusters=clusters)
            if len(set(clusters)) > 1
            else None
        )
    return view, differences, effects

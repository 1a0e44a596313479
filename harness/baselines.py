"""Floors and the ceiling: trivial systems scored like any model, by the same metric and signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from h2htalk_data.floors import SYSTEMS
from h2htalk_metric.core import score

FLOORS: Final = tuple(name for name in SYSTEMS if name != "reference")


def by_config(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows grouped by config, in order."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["config"], []).append(row)
    return groups


def baselines(
    rows: Sequence[Mapping[str, Any]],
    *,
    embedder: Any,
    sizes: Mapping[str, int],
    systems: Sequence[str] = tuple(SYSTEMS),
) -> dict[str, dict[str, Any]]:
    """Score the trivial systems on ``rows``.

    Args:
        embedder: as for the metric; None gives lexical scores only.
        sizes: rows of every config in the dataset (weights of the overall score).

    Returns:
        For every system ``configs`` (config -> ``s`` and ``lexical`` on 0-100, ``s`` None without an
        embedder) and ``overall`` of both, None unless all configs have rows.
    """
    groups = by_config(rows)
    found: dict[str, dict[str, Any]] = {}
    for name in systems:
        predictions = [text for group in groups.values() for text in SYSTEMS[name](group)]
        ordered = [row for group in groups.values() for row in group]
        scores = score(
            predictions,
            [row["reference"] for row in ordered],
            configs=[row["config"] for row in ordered],
            ids=[row["id"] for row in ordered],
            language=ordered[0]["language"] if ordered else "en",
            embedder=embedder,
            dataset_sizes=sizes,
            expected={config: len(group) for config, group in groups.items()},
        )
        found[name] = {
            "configs": {
                config: {"s": cell["s_100"], "lexical": 100 * cell["s_lexical"]}
                for config, cell in scores["configs"].items()
            },
            "overall": {
                "s": scores["s_only"]["overall"]["value"],
                "lexical": scores["lexical"]["overall"]["value"],
            },
        }
    return found


def beaten_by_constant(configs: Mapping[str, Mapping[str, Any]], floors: Mapping[str, Any]) -> list[str]:
    """Configs in which the best constant answer scores no less than the model, by S or its lexical part.

    Args:
        configs: the metric's summaries by config. floors: what ``baselines`` returned.
    """
    beaten = []
    for config, cell in configs.items():
        floor = floors["constant"]["configs"].get(config)
        if floor is None or not cell["n"]:
            continue
        s, theirs = cell["s_100"], floor["s"]
        if s is None or theirs is None:
            s, theirs = 100 * cell["s_lexical"], floor["lexical"]
        if theirs >= s:
            beaten.append(config)
    return beaten

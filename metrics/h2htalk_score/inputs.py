"""The boundary: lists as users pass them, checked once, with errors that name the list and the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .aggregate import JUDGED, check_config
from .judged import check_judge_scores
from .lexical import check_reference, record_name


@dataclass(frozen=True, slots=True)
class Inputs:
    """Checked inputs of one scoring; all lists have the same length."""

    predictions: list[str]
    references: list[str]
    configs: list[str] | None
    judge_scores: list[float | None]
    clusters: list[str] | None
    ids: list[str] | None

    def __len__(self) -> int:
        return len(self.predictions)


def check_texts(
    name: str, texts: Sequence[object], ids: Sequence[str] | None = None, start: int = 0
) -> list[str]:
    """Return the texts as a list.

    Args:
        name: `prediction` or `reference`, for messages.
        texts: The texts.
        ids: Names of the records.
        start: Index of the first text, when a batch goes on from earlier ones.

    Raises:
        ValueError: `texts` is one string instead of a list of strings, or an item is not a string (None is
            not an empty answer: a failed generation has no score and is left out).
    """
    if isinstance(texts, str):
        raise ValueError(f"{name}s must be a list of strings, not one string")
    checked: list[str] = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            hint = "; a failed generation has no score: leave the record out" if text is None else ""
            where = record_name(index, ids) if ids is not None else record_name(start + index)
            raise ValueError(f"{where}: the {name} is {type(text).__name__}, not a string{hint}")
        checked.append(text)
    return checked


def _checked_list(name: str, values: Sequence[object] | None, n: int) -> list[object] | None:
    if values is None:
        return None
    if isinstance(values, str):
        raise ValueError(f"{name} must be a list with one item a record, not one string")
    if len(values) != n:
        raise ValueError(f"{name} has {len(values)} items, but there are {n} predictions")
    return list(values)


def check_inputs(
    predictions: Sequence[str],
    references: Sequence[str],
    configs: Sequence[str] | None = None,
    judge_scores: Sequence[float | None] | None = None,
    clusters: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
) -> Inputs:
    """Check everything that can be checked before any text is scored.

    Raises:
        ValueError: Lengths differ, a text is not a string, a reference is empty, a config is unknown, a judge
            score is not in [0, 5] or stands on a config that has no J, or a cluster or id is missing.
    """
    n = len(predictions)
    id_list = _checked_list("ids", ids, n)
    names = None if id_list is None else [str(item) for item in id_list]
    checked_predictions = check_texts("prediction", predictions, names)
    if len(references) != n and not isinstance(references, str):
        raise ValueError(f"references has {len(references)} items, but there are {n} predictions")
    checked_references = check_texts("reference", references, names)
    for index, reference in enumerate(checked_references):
        check_reference(reference, index, names)
    config_list = _checked_list("configs", configs, n)
    checked_configs = (
        None
        if config_list is None
        else [check_config(config, record_name(index, names)) for index, config in enumerate(config_list)]
    )
    cluster_list = _checked_list("clusters", clusters, n)
    for index, cluster in enumerate(cluster_list or ()):
        if cluster is None:
            raise ValueError(f"{record_name(index, names)}: the cluster is None")
    if judge_scores is None:
        scores: list[float | None] = [None] * n
    else:
        _checked_list("judge_scores", judge_scores, n)
        scores = check_judge_scores(judge_scores, names)
    for index, score in enumerate(scores):
        if checked_configs is not None and score is not None and checked_configs[index] not in JUDGED:
            raise ValueError(
                f"{record_name(index, names)}: a judge score on {checked_configs[index]}, but J is defined "
                f"for {', '.join(JUDGED)} only"
            )
    clusters_out = None if cluster_list is None else [str(cluster) for cluster in cluster_list]
    return Inputs(checked_predictions, checked_references, checked_configs, scores, clusters_out, names)

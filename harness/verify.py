"""Verify a published result: recompute from its evidence what can be, and name the first difference.

Without the embedder everything lexical, every count, check, judge mean and aggregate is recomputed, and S and
J must follow from their published parts; with it all of S and J is recomputed too. What nobody can recompute
is whether the answers are really the model's.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from h2htalk_metric.aggregate import JUDGED
from h2htalk_metric.signature import parse as signature_items

from .data import Dataset
from .errors import HarnessError, StoreError
from .result import Published, parse, problems
from .score import check_rates
from .store import read_json

TOLERANCE: Final = 1e-9
MAX_EVIDENCE: Final = 512 << 20
# Vectors differ in their last digits from machine to machine.
EMBEDDING_TOLERANCE: Final = 1e-4
_EMBEDDING_KEYS: Final = frozenset({"emb", "pool", "dtype", "backend", "max_len", "ss", "agg"})
_PARTS: Final = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_1", "rouge_l")


class RejectedError(HarnessError):
    """A result that does not hold; the message is the first difference."""

    exit_code = 8


class Verified(NamedTuple):
    """What was recomputed, for the line that a user reads."""

    published: Published
    recomputed: tuple[str, ...]


def read(path: Path) -> Published:
    """The result file at ``path``.

    Raises:
        RejectedError: not JSON, or not according to the schema.
    """
    try:
        value = read_json(path)
    except StoreError as error:
        raise RejectedError(str(error)) from error
    if value is None:
        raise RejectedError(f"{path}: file not found")
    try:
        return parse(value)
    except ValidationError as error:
        raise RejectedError(f"{path}: {next(problems(error))}") from error


def _evidence(path: Path, published: Published) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if published.evidence is None:
        raise RejectedError(f"{path}: was published without its answers and cannot be verified")
    file = path.with_suffix(".parquet")
    if not file.is_file():
        raise RejectedError(f"{file}: the evidence is missing")
    if hashlib.sha256(file.read_bytes()).hexdigest() != published.evidence.sha256:
        raise RejectedError(f"{file}: is not the file that the result names (sha256 differs)")
    from .publish import PARQUET_COLUMNS, evidence_types

    types = evidence_types()
    try:
        with pq.ParquetFile(file) as opened:
            groups = [opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups)]
            if sum(group.total_byte_size for group in groups) > MAX_EVIDENCE:
                raise RejectedError(f"{file}: unpacks to more than {MAX_EVIDENCE >> 20} MB")
            wrong = [name for name, kind in types.items() if opened.schema_arrow.field(name).type != kind]
            if wrong:
                raise RejectedError(f"{file}: column {wrong[0]} is of another type")
            table = opened.read(columns=list(PARQUET_COLUMNS))
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise RejectedError(f"{file}: {(str(error).splitlines() or ['unreadable'])[0]}") from error
    rows: list[dict[str, Any]] = table.to_pylist()
    if len(rows) != published.evidence.rows:
        raise RejectedError(f"{file}: {len(rows)} answers, the result says {published.evidence.rows}")
    return rows


def _differences(mine: Any, theirs: Any, tolerance: float, name: str = "") -> Iterator[str]:
    """Where ``theirs`` departs from ``mine``; only what stands in ``mine`` is compared."""
    if isinstance(mine, Mapping):
        if not isinstance(theirs, Mapping):
            yield f"{name}: {theirs!r}, recomputed an object"
            return
        for key, value in mine.items():
            yield from _differences(value, theirs.get(key), tolerance, f"{name}.{key}" if name else str(key))
    elif isinstance(mine, float) and isinstance(theirs, (int, float)) and not isinstance(theirs, bool):
        if abs(mine - theirs) > tolerance * max(1.0, abs(mine)):
            yield f"{name}: {theirs!r}, recomputed {mine!r}"
    elif mine != theirs and not (isinstance(mine, (list, tuple)) and list(mine) == list(theirs or ())):
        yield f"{name}: {theirs!r}, recomputed {mine!r}"


def _lexical(found: dict[str, Any]) -> dict[str, Any]:
    """Of freshly computed scores, what does not need the embedder."""
    names = (*_PARTS, "s_lexical", "n")
    kept: dict[str, Any] = {name: found[name] for name in names}
    kept["configs"] = {
        config: {
            **{name: cell[name] for name in (*names, "expected", "coverage")},
            "intervals": {"lexical_100": cell["intervals"]["lexical_100"]},
        }
        for config, cell in found["configs"].items()
    }
    kept["lexical"] = found["lexical"]
    kept["intervals"] = {"lexical_100": found["intervals"]["lexical_100"]}
    return kept


def _follows(published: Published, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Differences between S and J as published and as their own parts give them."""
    scores = published.results.scores
    alpha, scale = 0.6, 5.0
    verdicts: dict[str, list[float]] = {}
    for row in rows:
        if row["judge_score"] is not None and row["config"] in JUDGED:
            verdicts.setdefault(row["config"], []).append(row["judge_score"])
    for config, cell in scores.configs.items():
        where = f"scores.configs.{config}"
        parts = [getattr(cell, name) for name in (*_PARTS, "ss")]
        if None not in parts and cell.s is not None:
            yield from _differences(sum(parts) / len(parts), cell.s, 1e-6, f"{where}.s")
        if cell.s is not None and cell.s_100 is not None:
            yield from _differences(100 * cell.s, cell.s_100, 1e-6, f"{where}.s_100")
        judged = verdicts.get(config, [])
        yield from _differences(len(judged), cell.n_judged, 0, f"{where}.n_judged")
        if cell.j is not None and judged:
            if cell.s is not None and len(judged) == cell.n:
                expected = alpha * scale * cell.s + (1 - alpha) * sum(judged) / len(judged)
                yield from _differences(expected, cell.j, 1e-6, f"{where}.j")
            yield from _differences(100 * cell.j / scale, cell.j_100, 1e-6, f"{where}.j_100")
        value = cell.j_100 if config in JUDGED else cell.s_100
        yield from _differences(value, cell.task.value, 1e-6, f"{where}.task.value")


def _averages(published: Published) -> Iterator[str]:
    """Differences between the averages as published and as the config cells give them."""
    from h2htalk_metric.aggregate import Cell, aggregate

    results = published.results
    scores = results.scores
    tasks = {config: cell.task for config, cell in scores.configs.items()}
    for name, cells, dimensions, overall in (
        ("scores", tasks, scores.dimensions, scores.overall),
        ("scores.s_only", scores.s_only.configs, scores.s_only.dimensions, scores.s_only.overall),
        ("scores.lexical", scores.lexical.configs, scores.lexical.dimensions, scores.lexical.overall),
    ):
        table = aggregate(
            {config: Cell(cell.value, cell.n, cell.expected) for config, cell in cells.items()},
            results.dataset.sizes,
        )
        for dimension, mine in table.dimensions.items():
            theirs = dimensions[dimension].model_dump() if dimension in dimensions else None
            yield from _differences(mine.as_dict(), theirs, 1e-9, f"{name}.dimensions.{dimension}")
        yield from _differences(table.overall.as_dict(), overall.model_dump(), 1e-9, f"{name}.overall")


def verify(path: Path, dataset: Dataset, *, embedder: Any = None) -> Verified:
    """Check the result file at ``path`` against its evidence and the dataset.

    Args:
        dataset: all rows of the dataset that the result names. embedder: to recompute S and J too.

    Raises:
        RejectedError: with the first difference.
    """
    from h2htalk_metric.core import score

    published = read(path)
    results = published.results
    if results.dataset.fingerprint != dataset.fingerprint:
        raise RejectedError(
            f"{path}: was run on dataset {results.dataset.fingerprint}, this one is {dataset.fingerprint}"
        )
    digest = hashlib.sha256(results.signature.encode()).hexdigest()
    if not digest.startswith(results.signature_hash):
        raise RejectedError(f"{path}: results.signature_hash is not the signature's")
    answers = _evidence(path, published)
    known = {row["id"]: row for row in dataset.rows}
    strangers = [row["id"] for row in answers if row["id"] not in known]
    twice = [identity for identity, n in Counter(row["id"] for row in answers).items() if n > 1]
    for wrong, what in ((strangers, "is not in the dataset"), (twice, "stands twice")):
        if wrong:
            raise RejectedError(f"{path.with_suffix('.parquet')}: {str(wrong[0])[:80]!r} {what}")
    rows = [known[row["id"]] for row in answers]
    judged = {row["id"]: row["judge_score"] for row in answers}
    found = score(
        [row["text"] for row in answers],
        [row["reference"] for row in rows],
        configs=[row["config"] for row in rows],
        ids=[row["id"] for row in rows],
        clusters=[row["cluster"] for row in rows],
        judge_scores=[judged[row["id"]] if row["config"] in JUDGED else None for row in rows],
        language=rows[0]["language"] if rows else "en",
        embedder=embedder,
        dataset_sizes=results.dataset.sizes,
        expected=results.dataset.selected,
    )
    mine, theirs_items = signature_items(found["signature"]), signature_items(results.signature)
    same = {key: value for key, value in mine.items() if embedder is not None or key not in _EMBEDDING_KEYS}
    published_scores = results.scores.model_dump()
    if embedder is not None:
        found = {name: value for name, value in found.items() if name in published_scores}
        scores, tolerance = found, EMBEDDING_TOLERANCE
    else:
        scores, tolerance = _lexical(found), TOLERANCE
    texts = {row["id"]: {"text": row["text"]} for row in answers}
    checks = check_rates(dataset, texts)
    theirs = {config: rate.model_dump() for config, rate in results.checks.items()}
    for difference in (
        *_differences(same, theirs_items, 0, "results.signature"),
        *_differences(dict(dataset.sizes), dict(results.dataset.sizes), 0, "results.dataset.sizes"),
        *_differences(scores, published_scores, tolerance, "scores"),
        *_follows(published, answers),
        *_averages(published),
        *_differences(checks, theirs, TOLERANCE, "checks"),
    ):
        raise RejectedError(f"{path}: {difference}")
    recomputed = (
        "BLEU",
        "ROUGE",
        "counts",
        "checks",
        "averages",
        *(("S", "J") if embedder is not None else ()),
    )
    return Verified(published, recomputed)

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

from .data import Dataset, load
from .errors import HarnessError, StoreError
from .result import Published, parse, problems
from .score import check_rates
from .store import read_json

TOLERANCE: Final = 1e-9
MAX_EVIDENCE: Final = 512 << 20
# Vectors differ in their last digits from machine to machine.
EMBEDDING_TOLERANCE: Final = 1e-4
ALPHA, S_SCALE = 0.6, 5.0
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


def _parts(published: Published) -> Iterator[str]:
    """Differences between S as published and as its own parts give it; nothing may be left out."""
    results = published.results
    embedded = signature_items(results.signature).get("emb", "none") != "none"
    for config, cell in results.scores.configs.items():
        where = f"scores.configs.{config}"
        parts = [getattr(cell, name) for name in (*_PARTS, "ss")]
        if cell.n and embedded != (None not in parts):
            yield f"{where}.ss: {cell.ss!r} with signature emb {'given' if embedded else 'none'}"
        expected = sum(parts) / len(parts) if None not in parts else None
        yield from _differences(expected, cell.s, 1e-6, f"{where}.s")
        hundred = None if expected is None else 100 * expected
        yield from _differences(hundred, cell.s_100, 1e-6, f"{where}.s_100")
        yield from _differences(hundred, results.scores.s_only.configs[config].value, 1e-6,
                                f"scores.s_only.configs.{config}.value")  # fmt: skip
    for name, count in (("s", "n"), ("j", "n_judged")):
        cells = [(getattr(cell, name), getattr(cell, count)) for cell in results.scores.configs.values()]
        known = [(value, n) for value, n in cells if value is not None and n]
        mean = sum(value * n for value, n in known) / sum(n for _, n in known) if known else None
        yield from _differences(mean, getattr(results.scores, name), 1e-6, f"scores.{name}")


def _judged(published: Published, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Differences between J and the task score as published and as S and the verdicts give them.

    J is over the judged answers, whose S is known only if all are judged; else it can only be bounded.
    """
    verdicts: dict[str, list[float]] = {}
    for row in rows:
        if row["judge_score"] is not None and row["config"] in JUDGED:
            verdicts.setdefault(row["config"], []).append(row["judge_score"])
    for config, cell in published.results.scores.configs.items():
        where = f"scores.configs.{config}"
        scores = verdicts.get(config, [])
        yield from _differences(len(scores), cell.n_judged, 0, f"{where}.n_judged")
        if not scores or cell.s is None:
            yield from _differences(None, cell.j, 0, f"{where}.j")
        elif cell.j is not None:
            least = (1 - ALPHA) * sum(scores) / len(scores)
            if len(scores) == cell.n:
                yield from _differences(least + ALPHA * S_SCALE * cell.s, cell.j, 1e-6, f"{where}.j")
            elif not -1e-6 <= cell.j - least <= ALPHA * S_SCALE + 1e-6:
                yield f"{where}.j: {cell.j!r}, the verdicts allow no such value (at least {least:.4f})"
        hundred = None if cell.j is None else 100 * cell.j / S_SCALE
        yield from _differences(hundred, cell.j_100, 1e-6, f"{where}.j_100")
        judged = config in JUDGED
        task = {"value": cell.j_100 if judged else cell.s_100, "n": cell.n_judged if judged else cell.n}
        if task["value"] is not None:
            yield from _differences(task, cell.task.model_dump(), 1e-6, f"{where}.task")


def _claims(published: Published, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Differences between what the result says of itself and what its settings say."""
    results = published.results
    judge = results.judge
    comparable = (
        signature_items(results.signature).get("emb", "").startswith("BAAI/bge-m3@")
        and not results.model.embedded
        and results.settings.sample is None
        and not (judge and (judge.model.embedded or judge.self_judged))
    )
    yield from _differences(comparable, results.comparable, 0, "results.comparable")
    cut = sum(row["finish_reason"] == "length" for row in rows)
    yield from _differences(cut, results.truncated, 0, "results.truncated")
    if judge is not None:
        named = f"judge:{judge.model.model.replace(':', '_').replace('|', '_')}"
        for part in (named, f"rubric:{judge.rubric}"):
            if part not in judge.signature:
                yield f"results.judge.signature: lacks {part}"


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
    settings = results.settings
    drawn = load(dataset.source, settings.configs, sample=settings.sample, seed=settings.sample_seed or 0)
    selected = {config: len(indexes) for config, indexes in drawn.chosen.items()}
    known = {row["id"]: row for row in drawn.rows}
    strangers = [row["id"] for row in answers if row["id"] not in known]
    twice = [identity for identity, n in Counter(row["id"] for row in answers).items() if n > 1]
    for wrong, what in (
        (strangers, "is not among the scenarios that were to be answered"),
        (twice, "stands twice"),
    ):
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
        *_differences(selected, dict(results.dataset.selected), 0, "results.dataset.selected"),
        *_differences(dict(dataset.sizes), dict(results.dataset.sizes), 0, "results.dataset.sizes"),
        *_differences(scores, published_scores, tolerance, "scores"),
        *_parts(published),
        *_judged(published, answers),
        *_claims(published, answers),
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

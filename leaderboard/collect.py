"""Collect result files into the one Parquet table that the leaderboard shows.

``python collect.py FOLDER OUT.parquet``. Runs in the repository and in the results dataset's CI; the page
itself never reads a result file. A file that does not keep to the schema is named and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from columns import CONFIGS, DIMENSIONS, MEASURES, PARTS, SAMPLES, VERSION, columns
from pydantic import ValidationError

from h2htalk_harness.baselines import FLOORS
from h2htalk_harness.model_card import command_of
from h2htalk_harness.result import TIME, Average, Cost, Interval, Published, Results, Scores, View, problems
from h2htalk_metric.aggregate import JUDGED
from h2htalk_metric.signature import parse as signature_items

MAX_JSON: Final = 2 << 20
MAX_EVIDENCE: Final = 64 << 20
SAMPLE_CHARS: Final = 1500
REPORTED: Final = Path(__file__).with_name("published_table2.json")
_SIZE: Final = re.compile(
    r"(?<![A-Za-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d+)?)([BM])(?![A-Za-z0-9])", re.IGNORECASE
)
_ARROW: Final = {"text": pa.string(), "truth": pa.bool_(), "count": pa.int64(), "number": pa.float64()}
SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in columns().items()])

_INSTRUMENT: Final = ("signature", "signature_hash", "fingerprint", "prompt_version")
_INTERVALS: Final[dict[str, Literal["task_100", "s_100", "lexical_100"]]] = {
    "task": "task_100",
    "s": "s_100",
    "lexical": "lexical_100",
}

Row = dict[str, Any]


class Found(NamedTuple):
    """One result with where it was read; ``evidence`` is its Parquet file, if it is the one that it names."""

    path: Path
    model_id: str
    time: str
    complete: bool
    results: Results
    evidence: Path | None


class RefusedError(ValueError):
    """A file that must not be shown; the message says why."""


def size_group(name: str) -> str:
    """The size group that a model's name tells (``Org/Name-7B``), else ``unknown``.

    Of several sizes the largest counts: ``30B-A3B`` has 30 billion parameters of which 3 work at a time.
    """
    sizes = []
    for times, digits, unit in _SIZE.findall(name):
        value = float(digits) * (int(times) if times else 1)
        # "1M" in a name is a context length, not a model of a million parameters.
        if unit in "Mm" and value < 10:
            continue
        sizes.append(value / 1000 if unit in "Mm" else value)
    if not sizes:
        return "unknown"
    size = max(sizes)
    return "<1B" if size < 1 else "1-8B" if size < 8 else "8-31B" if size < 32 else "32B+"


def _evidence(path: Path, published: Published) -> Path | None:
    file = path.with_suffix(".parquet")
    if published.evidence is None or file.is_symlink() or not file.is_file():
        return None
    if file.stat().st_size > MAX_EVIDENCE:
        return None
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return file if digest == published.evidence.sha256 else None


def read(path: Path, root: Path) -> Found:
    """A result file, or ``results.json`` of a run folder.

    Raises:
        RefusedError: it is not what it should be, or not where it should be.
    """
    if path.is_symlink() or path.stat().st_size > MAX_JSON:
        raise RefusedError("not a plain file of at most 2 MB")
    raw = path.read_bytes()
    try:
        if path.name == "results.json":
            results = Results.model_validate_json(raw)
            time = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).strftime(TIME)
            found = Found(path, results.model.model, time, results.complete, results, None)
        else:
            published = Published.model_validate_json(raw)
            # The place names model and signature too; a file elsewhere could pose as another's.
            if path.relative_to(root).parts[-5:] != published.path.parts:
                raise RefusedError(f"belongs at {published.path}")
            found = Found(path, published.model_id, published.time, published.complete, published.results,
                          _evidence(path, published))  # fmt: skip
    except ValidationError as error:
        raise RefusedError(next(problems(error))) from error
    if hashlib.sha256(found.results.signature.encode()).hexdigest()[:12] != found.results.signature_hash:
        raise RefusedError("signature_hash: is not the hash of the signature")
    return found


def files(folder: Path) -> Iterator[Path]:
    """Result files and run folders' ``results.json`` below ``folder``, in order."""
    for path in sorted(folder.rglob("*.json")):
        inside = path.relative_to(folder).parts
        if path.name == "results.json" or "results" in (folder.name, *inside[:-1]):
            yield path


def latest(found: list[Found]) -> list[Found]:
    """The latest result of each model and instrument, by model.

    A sample or a run without a judge is another thing than the full, judged one and does not replace it.
    """
    newest: dict[tuple[object, ...], Found] = {}
    for item in sorted(found, key=lambda item: (item.time, item.path)):
        results = item.results
        judge = results.judge.signature if results.judge else None
        sap = results.settings.sap.digest if results.settings.sap else None
        key = (item.model_id, results.model.revision, results.signature_hash, results.dataset.fingerprint)
        newest[(key, judge, sap, results.complete)] = item
    return sorted(newest.values(), key=lambda item: (item.model_id, item.results.signature_hash, item.time))


def _bounds(row: Row, scope: str, measure: str, weights: Mapping[str, float]) -> None:
    """An interval of a weighted mean of configs: the mean of their bounds.

    Configs share pairs of people, so their errors are dependent; no dependence makes the mean's error larger
    than the mean of the errors. The interval is wide rather than wrong.
    """
    total = sum(weights.values())
    for end in ("low", "high"):
        found = [(weight, row.get(f"{name}.{measure}.{end}")) for name, weight in weights.items()]
        parts = [weight * value for weight, value in found if value is not None]
        if total and len(parts) == len(found):
            row[f"{scope}.{measure}.{end}"] = sum(parts) / total


def _average(row: Row, scope: str, measure: str, average: Average) -> None:
    row[f"{scope}.{measure}"] = average.value
    row[f"{scope}.{measure}.n"] = average.n
    row[f"{scope}.expected"] = average.expected


def _interval(row: Row, scope: str, measure: str, interval: Interval | None) -> None:
    if interval and interval.low is not None and interval.high is not None:
        row[f"{scope}.{measure}.low"], row[f"{scope}.{measure}.high"] = interval.low, interval.high


def _sizes(row: Row, sizes: Mapping[str, int]) -> None:
    row |= {f"{config}.size": sizes.get(config, 0) for config in CONFIGS}
    for dimension, names in DIMENSIONS.items():
        row[f"{dimension}.size"] = sum(sizes.get(name, 0) for name in names)
    row["overall.size"] = sum(sizes.values())


def _scores(row: Row, results: Results) -> None:
    scores = results.scores
    _sizes(row, results.dataset.sizes)
    for config, cell in scores.configs.items():
        _average(row, config, "task", cell.task)
        for measure, plain in (("s", scores.s_only), ("lexical", scores.lexical)):
            if config in plain.configs:
                _average(row, config, measure, plain.configs[config])
        for measure, name in _INTERVALS.items():
            _interval(row, config, measure, cell.intervals.get(name))
        row[f"{config}.n_judged"] = cell.n_judged
        row[f"{config}.human_flags"] = cell.human_flag_rate
        row[f"{config}.judge_flags"] = cell.judge_flag_rate
        row |= {f"{config}.{part}": getattr(cell, part) for part in PARTS}
    views: dict[str, Scores | View] = {"task": scores, "s": scores.s_only, "lexical": scores.lexical}
    for measure, view in views.items():
        for dimension, average in view.dimensions.items():
            _average(row, dimension, measure, average)
            _bounds(row, dimension, measure, dict.fromkeys(DIMENSIONS[dimension], 1.0))
        _average(row, "overall", measure, view.overall)
        if view.overall.value is not None:
            _bounds(row, "overall", measure, {name: results.dataset.sizes.get(name, 0) for name in CONFIGS})
    # Over a whole dataset the overall score is a plain mean, whose own interval knows the clusters.
    for measure, name in _INTERVALS.items():
        interval = scores.intervals.get(name)
        value = row[f"overall.{measure}"]
        if interval and value is not None and abs(interval.mean - value) < 1e-6:
            _interval(row, "overall", measure, interval)
    for config, checks in results.checks.items():
        row[f"{config}.checks"], row[f"{config}.all_passed"] = checks.checks, checks.all_passed
    rates = [c.checks for c in results.checks.values() if c.checks is not None]
    row["checks"] = sum(rates) / len(rates) if rates else None
    row["human_flags"], row["judge_flags"] = scores.human_flag_rate, scores.judge_flag_rate


def _cost(row: Row, role: str, cost: Cost | None) -> None:
    if cost is None:
        return
    row[f"{role}_prompt_tokens"] = cost.prompt_tokens
    row[f"{role}_completion_tokens"] = cost.completion_tokens
    row[f"{role}_usd"] = cost.usd
    if cost.price:
        price = cost.price
        row[f"{role}_price"] = f"{price.input:g}/{price.output:g} USD per M tokens, {price.as_of}"


def _samples(row: Row, evidence: Path) -> None:
    """Up to two answers per config, the first by id: picked by nobody."""
    try:
        table = pq.read_table(evidence, columns=["id", "config", "text"])
        answers = table.to_pylist()
    except (pa.ArrowException, OSError):
        return
    seen = dict.fromkeys(CONFIGS, 0)
    for answer in sorted(answers, key=lambda item: str(item["id"])):
        config, text = answer["config"], answer["text"]
        if config not in seen or seen[config] == SAMPLES or not isinstance(text, str):
            continue
        seen[config] += 1
        cut = text if len(text) <= SAMPLE_CHARS else f"{text[:SAMPLE_CHARS]} …"
        row[f"{config}.sample_{seen[config]}_id"] = str(answer["id"])[:80]
        row[f"{config}.sample_{seen[config]}"] = cut


def _language(results: Results) -> str:
    try:
        return signature_items(results.signature).get("lang", "en")
    except ValueError:
        return "en"


def _instrument(results: Results) -> Row:
    """What two rows of one ranking must share."""
    return {
        "language": _language(results),
        "signature": results.signature,
        "signature_hash": results.signature_hash,
        "fingerprint": results.dataset.fingerprint,
        "prompt_version": results.dataset.prompt_version,
        "authored_by": results.dataset.authored_by,
    }


def result_row(found: Found) -> Row:
    """A result as one flat row."""
    results = found.results
    failed = {"no answer": results.failures.target, "no judgment": results.failures.judge,
              "unscored": results.failures.judge_unscored}  # fmt: skip
    row: Row = {
        "kind": "result",
        "model_id": found.model_id,
        "revision": results.model.revision or "",
        "group": size_group(found.model_id),
        "time": found.time,
        "complete": found.complete,
        "comparable": results.comparable,
        "not_comparable_because": "; ".join(results.not_comparable_because),
        "embedded": results.model.embedded,
        "judge": results.judge.signature if results.judge else "",
        "self_judged": bool(results.judge and results.judge.self_judged),
        "command": command_of(results),
        "sap": ", ".join(results.settings.sap.principles) if results.settings.sap else "",
        "temperature": results.settings.sampling.temperature,
        "top_p": results.settings.sampling.top_p,
        "harness": results.harness or "",
        "truncated": results.truncated,
        "failures": "; ".join(
            f"{label}: {', '.join(f'{kind} {n}' for kind, n in kinds.items())}"
            for label, kinds in failed.items()
            if kinds
        ),
        "beaten_by_constant": ", ".join(results.beaten_by_constant),
        "evidence": found.evidence is not None,
        **_instrument(results),
    }
    _scores(row, results)
    _cost(row, "target", results.cost.target)
    _cost(row, "judge", results.cost.judge)
    if found.evidence:
        _samples(row, found.evidence)
    return row


def floor_rows(found: list[Found]) -> Iterator[Row]:
    """The trivial systems, once per dataset and signature.

    They are the same in every honest result; complete ones come first, and of those the oldest, so that
    nobody who submits later can move them.
    """
    chosen: dict[tuple[str, str, str], Results] = {}
    for item in sorted(found, key=lambda item: (not item.complete, item.time, item.path)):
        results = item.results
        key = (results.dataset.fingerprint, results.dataset.prompt_version, results.signature_hash)
        chosen.setdefault(key, results)
    for results in chosen.values():
        for name in FLOORS:
            if name not in results.floors:
                continue
            floor = results.floors[name]
            row: Row = {"kind": "floor", "model_id": name, "revision": "", "group": "", "time": "",
                        "judge": "", "complete": True, "comparable": False,
                        **_instrument(results)}  # fmt: skip
            for config, cell in floor.configs.items():
                row[f"{config}.expected"] = results.dataset.selected.get(config)
                row[f"{config}.s"], row[f"{config}.lexical"] = cell.s, cell.lexical
                # Nobody judged a floor, so the levels I-III have no task score.
                row[f"{config}.task"] = None if config in JUDGED else cell.s
            for dimension, names in DIMENSIONS.items():
                for measure in MEASURES:
                    found_here = (row.get(f"{config}.{measure}") for config in names)
                    values = [value for value in found_here if value is not None]
                    if len(values) == len(names):
                        row[f"{dimension}.{measure}"] = sum(values) / len(values)
            row["overall.s"], row["overall.lexical"] = floor.overall.s, floor.overall.lexical
            row["overall.expected"] = sum(results.dataset.selected.values())
            _sizes(row, results.dataset.sizes)
            yield row


def reported_rows() -> Iterator[Row]:
    """The rows of the paper's Table 2: other scenarios, so other numbers."""
    table = json.loads(REPORTED.read_text(encoding="utf-8"))
    averages = {"Dialogue": "dialogue_avg", "Recollection": "recollection_avg", "Itinerary": "itinerary_avg",
                "overall": "overall"}  # fmt: skip
    for source in table["rows"]:
        row: Row = dict.fromkeys(("revision", "language", "time", "judge", *_INSTRUMENT), "")
        row |= {"kind": "reported", "model_id": source["model"], "group": source["size_class"],
                "complete": False, "comparable": False,
                "not_comparable_because": "reported, authors' data, not comparable"}  # fmt: skip
        row |= {f"{config}.task": source[config] for config in CONFIGS}
        yield row | {f"{scope}.task": source[name] for scope, name in averages.items()}


def collect_with_problems(folder: Path) -> tuple[pa.Table, list[str]]:
    """The table, and a line for every file that was left out."""
    found: list[Found] = []
    refused: list[str] = []
    for path in files(folder):
        try:
            found.append(read(path, folder.parent if folder.name == "results" else folder))
        except (RefusedError, OSError) as error:
            name = path.relative_to(folder).as_posix().encode("ascii", "backslashreplace").decode()[:200]
            reason = str(error).encode("ascii", "backslashreplace").decode()[:300]
            refused.append(f"{name}: {reason}")
    kept = latest(found)
    rows = [*map(result_row, kept), *floor_rows(kept), *reported_rows()]
    full = [{name: row.get(name) for name in SCHEMA.names} for row in rows]
    table = pa.Table.from_pylist(full, schema=SCHEMA)
    return table.replace_schema_metadata({"h2htalk_leaderboard": VERSION}), refused


def collect(folder: Path) -> pa.Table:
    """All results below ``folder`` as one table, with the floors and the paper's rows."""
    return collect_with_problems(folder)[0]


def main() -> int:
    """The command line; exit code 0 although files were left out, since the rest is to be shown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"{arguments.folder}: no such folder")
    table, refused = collect_with_problems(arguments.folder)
    pq.write_table(table, arguments.out, compression="zstd")
    for line in refused:
        print(f"left out: {line}", file=sys.stderr)  # noqa: T201
    shown = sum(kind == "result" for kind in table["kind"].to_pylist())
    print(f"{arguments.out}: {shown} results, {len(refused)} files left out")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

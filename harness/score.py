"""Score: what a run folder holds, against the dataset's references, into results.

Writes ``scores.parquet`` (one row per scenario with all parts) and ``results.json`` (the table and
everything that a reader needs to know which numbers may be compared). Nothing in ``results.json``
depends on when or in how many sittings the run was done.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from h2htalk_data.checks import Check, run
from h2htalk_metric.aggregate import JUDGED

from .baselines import FLOORS, baselines, beaten_by_constant
from .cost import Price
from .data import Dataset
from .errors import SettingsError, StoreError
from .judge import signature as judge_signature
from .provenance import version
from .store import (
    ERRORS,
    GENERATIONS,
    JUDGE_MANIFEST,
    JUDGMENTS,
    MANIFEST,
    read_json,
    read_rows,
    write_json,
)

RESULTS: Final = "results.json"
SCORES: Final = "scores.parquet"
SCHEMA_VERSION: Final = 1


def unique(path: Path) -> dict[str, dict[str, Any]]:
    """Rows of a JSONL file by id.

    Raises:
        StoreError: an id stands twice; a doubled row must not be averaged in.
    """
    rows: dict[str, dict[str, Any]] = {}
    for row in read_rows(path):
        if row["id"] in rows:
            raise StoreError(f"{path}: {row['id']} stands twice")
        rows[row["id"]] = row
    return rows


def run_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder.

    Raises:
        StoreError: there is none.
    """
    manifest = read_json(folder / MANIFEST)
    if manifest is None:
        raise StoreError(f"{folder}: not a run folder (no {MANIFEST})")
    return manifest


def same_dataset(manifest: dict[str, Any], dataset: Dataset, folder: Path) -> None:
    """Check that ``dataset`` is the one the run was made on.

    Raises:
        SettingsError: it is not, so its references would be the wrong ones.
    """
    theirs = manifest["settings"]["dataset"]["fingerprint"]
    if theirs != dataset.fingerprint:
        raise SettingsError(
            f"{folder}: was run on dataset {theirs}, but {dataset.source} is {dataset.fingerprint}"
        )


def check_rates(dataset: Dataset, generations: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per config: share of checks that answers pass, share of answers that pass all, by kind too."""
    rates: dict[str, dict[str, Any]] = {}
    by_config: dict[str, list[tuple[str, list[bool], list[str]]]] = {}
    for row in dataset.rows:
        generation = generations.get(row["id"])
        if generation is None:
            continue
        checks = [Check.model_validate(check) for check in row["checks"]]
        passed = [run(check, generation["text"]) for check in checks]
        by_config.setdefault(row["config"], []).append((row["id"], passed, [c.kind for c in checks]))
    for config, answers in by_config.items():
        kinds: dict[str, list[bool]] = {}
        for _, passed, names in answers:
            for name, ok in zip(names, passed, strict=True):
                kinds.setdefault(name, []).append(ok)
        every = [ok for _, passed, _ in answers for ok in passed]
        rates[config] = {
            "n": len(answers),
            "checks": sum(every) / len(every) if every else None,
            "all_passed": sum(all(passed) for _, passed, _ in answers) / len(answers),
            "by_kind": {name: sum(oks) / len(oks) for name, oks in sorted(kinds.items())},
        }
    return rates


def failures(folder: Path, generations: dict[str, Any], judgments: dict[str, Any]) -> dict[str, Any]:
    """Failures that still stand, by role and kind: the last one of each item without a row."""
    last: dict[tuple[str, str], str] = {}
    for row in read_rows(folder / ERRORS):
        last[row["role"], row["id"]] = row["kind"]
    standing: dict[str, Counter[str]] = {"target": Counter(), "judge": Counter()}
    for (role, identity), kind in last.items():
        if identity not in (generations if role == "target" else judgments):
            standing[role][kind] += 1
    unscored = Counter(row["unscored"] for row in judgments.values() if row["score"] is None)
    return {
        "target": dict(sorted(standing["target"].items())),
        "judge": dict(sorted(standing["judge"].items())),
        "judge_unscored": dict(sorted(unscored.items())),
    }


def _tokens(rows: dict[str, dict[str, Any]]) -> dict[str, int | None]:
    """Token sums; None if a server left any of them out, since what is not reported is not zero."""
    sums: dict[str, int | None] = {}
    for name in ("prompt_tokens", "completion_tokens"):
        values = [row.get(name) for row in rows.values()]
        known = [value for value in values if value is not None]
        sums[name] = sum(known) if values and len(known) == len(values) else None
    return sums


def _costs(manifest: dict[str, Any], role: str, tokens: dict[str, int | None]) -> dict[str, Any]:
    """Tokens of a role and what they cost; ``usd`` is None without a price or without all counts."""
    listed = manifest.get("prices", {}).get(role)
    prompt, completion = tokens["prompt_tokens"], tokens["completion_tokens"]
    usd = None
    if listed and prompt is not None and completion is not None:
        usd = round(Price(**listed).of(prompt, completion), 4)
    return {**tokens, "usd": usd, "price": listed}


def warnings_for(
    manifest: dict[str, Any], judge: dict[str, Any] | None, embedder_comparable: bool
) -> list[str]:
    """Why these scores may not be compared with those of other runs; empty if they may."""
    found = []
    if manifest["settings"]["model"].get("embedded"):
        found.append("the model is the embedded default, a 135M model meant to show the machinery")
    if not embedder_comparable:
        found.append("semantic similarity is not BGE-M3's")
    if judge and judge["settings"]["model"].get("embedded"):
        found.append("the judge is the embedded default model")
    if judge and judge["settings"].get("self_judged"):
        found.append("the model judged itself")
    if manifest["settings"].get("sample") is not None:
        found.append(f"only {manifest['settings']['sample']} scenarios per config were run")
    return found


def score_run(folder: Path, dataset: Dataset, *, embedder: Any) -> dict[str, Any]:
    """Score a run folder; writes ``scores.parquet`` and ``results.json`` and returns the latter.

    Args:
        dataset: the rows that the run was to answer, from the same built dataset.
        embedder: model for SS as `load_embedder` gives it; None scores the lexical parts only.

    Raises:
        StoreError: not a run folder, or rows that the dataset does not know.
        SettingsError: another dataset.
    """
    from h2htalk_metric.core import score

    manifest = run_manifest(folder)
    same_dataset(manifest, dataset, folder)
    judge = read_json(folder / JUDGE_MANIFEST)
    generations, judgments = unique(folder / GENERATIONS), unique(folder / JUDGMENTS)
    known = {row["id"] for row in dataset.rows}
    strangers = [identity for identity in generations if identity not in known]
    if strangers:
        raise StoreError(f"{folder / GENERATIONS}: {strangers[0]} is not in the dataset")
    rows = [row for row in dataset.rows if row["id"] in generations]
    expected = Counter(row["config"] for row in dataset.rows)
    snapshots = sorted({row["served"] for row in judgments.values() if row["served"]})
    judge_line = judge_signature(judge["settings"], snapshots) if judge else None
    found = score(
        [generations[row["id"]]["text"] for row in rows],
        [row["reference"] for row in rows],
        configs=[row["config"] for row in rows],
        ids=[row["id"] for row in rows],
        clusters=[row["cluster"] for row in rows],
        judge_scores=[
            judgments[row["id"]]["score"] if row["id"] in judgments and row["config"] in JUDGED else None
            for row in rows
        ],
        language=dataset.rows[0]["language"] if dataset.rows else "en",
        embedder=embedder,
        per_example=True,
        dataset_sizes=dataset.sizes,
        expected=expected,
    )
    examples = found.pop("per_example")
    floors = baselines(dataset.rows, embedder=embedder, sizes=dataset.sizes, systems=FLOORS)
    warnings = warnings_for(manifest, judge, bool(found.pop("comparable")))
    results = {
        "schema_version": SCHEMA_VERSION,
        "harness": version(),
        "comparable": not warnings,
        "not_comparable_because": warnings,
        "model": manifest["settings"]["model"],
        "settings": manifest["settings"],
        "dataset": {
            "fingerprint": dataset.fingerprint,
            "prompt_version": dataset.prompt_version,
            "sizes": dataset.sizes,
            "selected": dict(expected),
            "authored_by": "language models; no human votes yet",
        },
        "signature": found.pop("signature"),
        "signature_hash": found.pop("signature_hash"),
        "judge": {"signature": judge_line, **judge["settings"]} if judge else None,
        "scores": found,
        "floors": floors,
        "beaten_by_constant": beaten_by_constant(found["configs"], floors),
        "checks": check_rates(dataset, generations),
        "failures": failures(folder, generations, judgments),
        "truncated": sum(row["finish_reason"] == "length" for row in generations.values()),
        "cost": {
            "target": _costs(manifest, "target", _tokens(generations)),
            "judge": _costs(judge, "judge", _tokens(judgments)) if judge else None,
        },
    }
    _write_scores(folder / SCORES, examples)
    write_json(folder / RESULTS, results)
    return results


def load_embedder(name: str | None, cache_dir: Path | None) -> Any:
    """The similarity model by name or folder; None for lexical scores only.

    Raises:
        ImportError, OSError: its packages or its files cannot be had.
    """
    if name is None:
        return None
    from h2htalk_metric.embedding import Embedder

    return Embedder.load(name, cache_dir=cache_dir)


def _write_scores(path: Path, examples: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    temporary = path.with_name(f".{path.name}.new")
    pq.write_table(pa.Table.from_pylist(examples), temporary, compression="zstd")
    temporary.replace(path)

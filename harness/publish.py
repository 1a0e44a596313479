"""To the Hub: the built dataset, the metric Space, the leaderboard Space, and runs with their evidence.

Everything is made locally first, whole, and sent as one commit: a publication is there or it is not, and
doing it again sends only what differs. Nothing that looks like a token leaves the machine.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .errors import HarnessError, SettingsError, StoreError
from .model_card import eval_results
from .result import TIME, Evidence, Published, Results, problems, read_results
from .secrets_scan import secrets
from .store import GENERATIONS, JUDGMENTS, read_rows

if TYPE_CHECKING:
    from huggingface_hub import HfApi

DATASET: Final = "h2htalk"
METRIC: Final = "h2htalk_score"
RESULTS_REPO: Final = "h2htalk-results"
LEADERBOARD: Final = "h2htalk-leaderboard"
TABLE: Final = "leaderboard.parquet"
PARQUET_COLUMNS: Final = (
    "id", "config", "text", "raw", "finish_reason", "prompt_tokens", "completion_tokens", "judge_score",
    "judge_reason", "judge_unscored", "judge_raw",
)  # fmt: skip


class PublishError(HarnessError):
    """The Hub refuses, or what was to be published may not be."""

    exit_code = 7


@dataclass(frozen=True)
class Receipt:
    """What was sent: the repository, the commit or pull request, and what lies in it."""

    repo: str
    url: str
    files: list[str]


def api() -> HfApi:
    """A client of the Hub at ``HF_ENDPOINT``, with the user's own token.

    Raises:
        PublishError: there is no token.
    """
    from huggingface_hub import HfApi, get_token

    if get_token() is None:
        raise PublishError("no Hub token: `hf auth login`, or set HF_TOKEN")
    return HfApi()


def send(
    hub: HfApi,
    folder: Path,
    repo: str,
    kind: str,
    message: str,
    *,
    pull_request: bool = False,
    sdk: str | None = None,
    replace: bool = False,
) -> Receipt:
    """Send a folder as one commit, or as a pull request; the repository is made if it is not there.

    Args:
        kind: ``dataset``, ``space`` or ``model``. replace: files of the repository that the folder lacks go.

    Raises:
        PublishError: a secret was found, or the Hub refuses.
    """
    # HTTPError is the base of the HTTP client's own errors, under the name that every hub version has for it.
    from huggingface_hub.errors import HFValidationError, HTTPError  # type: ignore[attr-defined]

    if found := secrets(folder):
        raise PublishError(f"not published, this looks secret: {'; '.join(found[:5])}")
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    try:
        if not pull_request:
            hub.create_repo(repo, repo_type=kind, exist_ok=True, space_sdk=sdk)
        commit = hub.upload_folder(
            repo_id=repo,
            repo_type=kind,
            folder_path=folder,
            commit_message=message,
            create_pr=pull_request,
            delete_patterns="*" if replace else None,
        )
    except (HTTPError, HFValidationError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise PublishError(f"{repo}: {first}") from error
    return Receipt(repo, str(commit.pr_url or commit.commit_url), files)


def dataset(hub: HfApi, built: Path, org: str, *, pull_request: bool = False) -> Receipt:
    """Publish the built dataset folder as ``ORG/h2htalk``.

    Raises:
        SettingsError: not a built dataset. PublishError: see ``send``.
    """
    manifest = built / "fingerprint.json"
    if not manifest.is_file():
        raise SettingsError(f"{built}: not a built dataset; run `h2htalk build`")
    fingerprint = json.loads(manifest.read_text(encoding="utf-8"))["fingerprint"]
    message = f"Dataset {fingerprint}"
    return send(hub, built, f"{org}/{DATASET}", "dataset", message, pull_request=pull_request, replace=True)


def metric(hub: HfApi, built: Path, org: str, *, pull_request: bool = False) -> Receipt:
    """Publish the built metric folder as the Space ``ORG/h2htalk_score``."""
    if not (built / f"{METRIC}.py").is_file():
        raise SettingsError(f"{built}: not a built metric; run `h2htalk build`")
    repo = f"{org}/{METRIC}"
    return send(hub, built, repo, "space", "Metric", pull_request=pull_request, sdk="gradio", replace=True)


def leaderboard(hub: HfApi, source: Path, org: str, *, pull_request: bool = False) -> Receipt:
    """Publish the leaderboard's source as the Space ``ORG/h2htalk-leaderboard`` that reads ORG's results."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / LEADERBOARD
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".mypy_cache", "collect.py")
        shutil.copytree(source, folder, ignore=ignored)
        (folder / "results_repo.txt").write_text(f"{org}/{RESULTS_REPO}\n", encoding="utf-8")
        return send(
            hub,
            folder,
            f"{org}/{LEADERBOARD}",
            "space",
            "Leaderboard",
            pull_request=pull_request,
            sdk="gradio",
            replace=True,
        )


def table(hub: HfApi, source: Path, org: str) -> Receipt:
    """Make the leaderboard's Parquet file from the results dataset and put it there.

    Raises:
        PublishError: the results dataset is not there, or a step fails.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    repo = f"{org}/{RESULTS_REPO}"
    with tempfile.TemporaryDirectory() as root:
        results, out = Path(root) / "results", Path(root) / "out"
        out.mkdir()
        try:
            snapshot_download(repo, repo_type="dataset", local_dir=results)
        except (HTTPError, OSError) as error:
            raise PublishError(f"{repo}: {str(error).strip().splitlines()[0]}") from error
        command = [sys.executable, str(source / "collect.py"), str(results), str(out / TABLE)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise PublishError(f"{repo}: the results cannot be collected: {done.stderr.strip()[-200:]}")
        return send(hub, out, repo, "dataset", "Leaderboard table")


def evidence_types() -> dict[str, Any]:
    """The evidence's columns with their Arrow types."""
    import pyarrow as pa

    special = {"prompt_tokens": pa.int64(), "completion_tokens": pa.int64(), "judge_score": pa.float64(),
               "judge_raw": pa.list_(pa.string())}  # fmt: skip
    return {name: special.get(name, pa.string()) for name in PARQUET_COLUMNS}


def evidence(run: Path, path: Path) -> Evidence:
    """Write every generation and judgment of a run as Parquet; its digest and number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    judgments = {row["id"]: row for row in read_rows(run / JUDGMENTS)}
    rows = []
    for row in read_rows(run / GENERATIONS):
        verdict = judgments.get(row["id"], {})
        judged = {f"judge_{name}": verdict.get(name) for name in ("score", "reason", "unscored", "raw")}
        rows.append({name: (row | judged).get(name) for name in PARQUET_COLUMNS})
    schema = pa.schema(list(evidence_types().items()))
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: str(row["id"])), schema=schema)
    pq.write_table(table, path, compression="zstd")
    return Evidence(sha256=hashlib.sha256(path.read_bytes()).hexdigest(), rows=len(rows))


def checked(run: Path) -> Results:
    """The results of a scored run.

    Raises:
        StoreError: not scored, or results that do not keep to the schema.
    """
    from pydantic import ValidationError

    try:
        return read_results(run)
    except FileNotFoundError as error:
        raise StoreError(f"{run}: not scored yet; `h2htalk score {run}`") from error
    except ValidationError as error:
        raise StoreError(f"{run / 'results.json'}: {next(problems(error))}") from error


def prepare(
    run: Path, folder: Path, model_id: str | None, *, incomplete: bool = False, with_evidence: bool = True
) -> Published:
    """Write a run's result file and its evidence below ``folder`` as they belong in the results dataset.

    Args:
        model_id: the model's Hub id; by default the one that its server reported.
        incomplete: publish although scenarios are missing; the file says so.

    Raises:
        StoreError: not a scored run. SettingsError: no Hub id, or coverage is incomplete.
    """
    from pydantic import ValidationError

    results = checked(run)
    name = model_id or results.model.model
    if not results.complete and not incomplete:
        answered = sum(cell.n for cell in results.scores.configs.values())
        raise SettingsError(
            f"{run}: {answered} of {sum(results.dataset.sizes.values())} scenarios have an answer; an "
            "incomplete result is published with --incomplete only, and marked"
        )
    fields: dict[str, Any] = {
        "kind": "h2htalk-result",
        "model_id": name,
        "time": datetime.now(timezone.utc).strftime(TIME),
        "complete": results.complete,
        "evidence": None,
        "results": results,
    }
    try:
        published = Published.model_validate(fields)
    except ValidationError as error:
        hint = "name the model's Hub id with --model-id ORG/NAME"
        raise SettingsError(f"{next(problems(error))}; {hint}") from error
    path = folder / published.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if with_evidence:
        found = evidence(run, path.with_suffix(".parquet"))
        published = published.model_copy(update={"evidence": found})
    path.write_text(published.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return published


def run(
    hub: HfApi,
    folder: Path,
    org: str,
    model_id: str | None = None,
    *,
    incomplete: bool = False,
    with_evidence: bool = True,
    pull_request: bool = False,
) -> Receipt:
    """Publish a run in the results dataset ``ORG/h2htalk-results``.

    A run that is there already (the same results and evidence) is not published again.
    """
    repo = f"{org}/{RESULTS_REPO}"
    with tempfile.TemporaryDirectory() as root:
        published = prepare(folder, Path(root), model_id, incomplete=incomplete, with_evidence=with_evidence)
        if (there := _already(hub, repo, published)) is not None:
            return Receipt(repo, there, [])
        message = f"{published.model_id}, {published.results.signature_hash}"
        return send(hub, Path(root), repo, "dataset", message, pull_request=pull_request)


def _already(hub: HfApi, repo: str, published: Published) -> str | None:
    """Where the same results stand in the repository, if they do."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        EntryNotFoundError,
        HTTPError,
        RepositoryNotFoundError,
    )

    folder = str(published.path.parent)
    try:
        names = [
            item.path
            for item in hub.list_repo_tree(repo, folder, repo_type="dataset")
            if item.path.endswith(".json")
        ]
        for name in names:
            text = Path(hf_hub_download(repo, name, repo_type="dataset")).read_text(encoding="utf-8")
            other = json.loads(text)
            same = {"time": published.time}
            if {**other, **same} == json.loads(published.model_dump_json()):
                return f"{hub.endpoint}/datasets/{repo}/blob/main/{name}"
    except (EntryNotFoundError, RepositoryNotFoundError):
        return None
    except (HTTPError, OSError) as error:
        raise PublishError(f"{repo}: {(str(error).splitlines() or [type(error).__name__])[0]}") from error
    return None


def propose(hub: HfApi, folder: Path, org: str, model_id: str | None, url: str) -> Receipt:
    """Propose a run's scores to the model's own repository, as a pull request.

    Raises:
        SettingsError: the result is not comparable or not complete. PublishError: see ``send``.
    """
    with tempfile.TemporaryDirectory() as root:
        published = prepare(folder, Path(root) / "result", model_id, incomplete=True, with_evidence=False)
        results = published.results
        if not results.comparable or not published.complete:
            reasons = [*results.not_comparable_because, *([] if published.complete else ["incomplete"])]
            raise SettingsError(f"not proposed to {published.model_id}: {'; '.join(reasons)}")
        path = Path(root) / "model" / ".eval_results" / "h2htalk.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(eval_results(published, f"{org}/{DATASET}", url), encoding="utf-8")
        message = "H2HTalk results"
        return send(hub, Path(root) / "model", published.model_id, "model", message, pull_request=True)

"""Generate: every scenario through the target model, each exactly once, into a run folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

from .backends.base import Sampling
from .client import Answer, Client, FailedError
from .cost import Meter
from .data import Dataset, Part
from .errors import redact
from .models import Connected
from .progress import Progress
from .provenance import environment, now
from .sap import Module, apply
from .shards import ShardPool
from .store import ERRORS, GENERATIONS, MANIFEST, RunFolder, read_rows, write_json
from .thinking import strip
from .work import each

_COLUMNS = ("id", "config", "messages")


@dataclass(frozen=True)
class Plan:
    """What a run is: everything that changes its results."""

    dataset: Dataset
    configs: Sequence[str]
    sample: int | None
    sample_seed: int
    sampling: Sampling
    sap: Module | None
    part: Part | None = None

    def settings(self, model: dict[str, Any]) -> dict[str, Any]:
        """The settings that a run folder is bound to."""
        return {
            "model": model,
            "dataset": {
                "fingerprint": self.dataset.fingerprint,
                "prompt_version": self.dataset.prompt_version,
            },
            "configs": list(self.configs),
            "sample": self.sample,
            "sample_seed": self.sample_seed if self.sample is not None else None,
            "part": str(self.part) if self.part else None,
            "sampling": self.sampling.payload(),
            "sap": {"principles": list(self.sap.principles), "digest": self.sap.digest} if self.sap else None,
        }


@dataclass
class Counts:
    """How a session went. ``done``: rows written now; ``before``: rows found; ``failed``: error rows."""

    total: int
    before: int = 0
    done: int = 0
    failed: int = 0

    @property
    def failure_share(self) -> float:
        """Scenarios without an answer, of all."""
        return (self.total - self.before - self.done) / self.total if self.total else 0.0


def error_row(role: str, identity: str, error: FailedError) -> dict[str, Any]:
    """A failure as it is recorded: typed, with no score and no text."""
    return {
        "id": identity,
        "role": role,
        "kind": error.last.kind,
        "status": error.last.status,
        "message": redact(error.last.message),
        "attempts": error.attempts,
        "shard": redact(error.shard),
        "at": now(),
    }


def served(model: str) -> str:
    """A server's model name without the folder it was loaded from."""
    return PurePath(model).name if model.startswith("/") else model


def generation_row(row: dict[str, Any], answer: Answer) -> dict[str, Any] | None:
    """The row of a finished generation; None if its thinking was never closed or nothing is left."""
    completion = answer.completion
    stripped = strip(completion.text)
    if stripped.unfinished or not stripped.text:
        return None
    return {
        "id": row["id"],
        "config": row["config"],
        "text": stripped.text,
        "raw": completion.text if stripped.text != completion.text else None,
        "finish_reason": completion.finish_reason,
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens,
        "served": served(completion.model),
        "shard": redact(answer.shard),
        "attempts": answer.attempts,
        "seconds": answer.seconds,
    }


async def _one(
    client: Client,
    meter: Meter,
    folder: RunFolder,
    plan: Plan,
    row: dict[str, Any],
    counts: Counts,
    progress: Progress,
) -> None:
    try:
        answer = await client.ask(apply(plan.sap, row["messages"]), plan.sampling, meter)
    except FailedError as error:
        folder.append(ERRORS, error_row("target", row["id"], error))
        counts.failed += 1
        progress.advance(failed=True)
        return
    made = generation_row(row, answer)
    if made is None:
        folder.append(
            ERRORS,
            {
                "id": row["id"],
                "role": "target",
                "kind": "unfinished_thinking",
                "status": 200,
                "message": f"nothing outside the thinking (finish_reason {answer.completion.finish_reason})",
                "raw": answer.completion.text,
                "prompt_tokens": answer.completion.prompt_tokens,
                "completion_tokens": answer.completion.completion_tokens,
                "attempts": answer.attempts,
                "shard": redact(answer.shard),
                "at": now(),
            },
        )
        counts.failed += 1
    else:
        folder.append(GENERATIONS, made)
        counts.done += 1
    progress.advance(failed=made is None)


def ended(connected: Connected, counts: Counts, began: float) -> dict[str, Any]:
    """What a manifest keeps of a session: counts, who answered, and how each shard did.

    Args:
        began: ``time.monotonic()`` before the first request; start-up and scoring are not in ``seconds``.
    """
    return {
        "ended": now(),
        "seconds": round(time.monotonic() - began, 3),
        "done": counts.done,
        "failed": counts.failed,
        "shards": [identity._asdict() for identity in connected.identities],
        "pool": [shard.summary() | {"url": redact(shard.url)} for shard in connected.client.pool.shards],
    }


async def generate(
    plan: Plan,
    connected: Connected,
    folder: RunFolder,
    meter: Meter,
    progress_for: Callable[[str, int, int, ShardPool], Any],
) -> Counts:
    """Run every scenario of ``plan`` that has no row yet.

    Args:
        meter: counts tokens; those of earlier sessions are added to it from the folder.
        progress_for: makes a context manager that yields a Progress from label, to-do, done and the pool.

    Raises:
        SettingsError: the folder was started with other settings.
        BudgetSpentError: the meter's budget is spent; what was finished is kept.
        ServerError: all shards are gone; what was finished is kept.
        StoreError: the folder cannot be written.
    """
    model = {name: value for name, value in connected.model.items() if name != "engine"}
    manifest = folder.settle(
        MANIFEST,
        {
            "settings": plan.settings(model),
            "dataset": {"source": plan.dataset.source, "sizes": plan.dataset.sizes},
            "sap_text": plan.sap.text if plan.sap else None,
            "sessions": [],
        },
    )
    meter.count(read_rows(folder.path / GENERATIONS))
    meter.count(row for row in read_rows(folder.path / ERRORS) if row["role"] == "target")
    done = folder.done(GENERATIONS)
    counts = Counts(total=len(plan.dataset))
    counts.before = sum(row["id"] in done for row in plan.dataset.stream(["id"])) if done else 0
    # Rows are read as they are needed: a run's memory does not grow with the dataset.
    rows = (row for row in plan.dataset.stream(_COLUMNS) if row["id"] not in done)
    # The first is fetched before the clock runs: with it comes the reader's own start-up.
    todo = chain(list(islice(rows, 1)), rows)
    session: dict[str, Any] = {"started": now(), "environment": environment()}
    client = connected.client
    began = time.monotonic()
    try:
        with progress_for("generate", counts.total - counts.before, counts.before, client.pool) as progress:
            await each(
                todo, lambda row: _one(client, meter, folder, plan, row, counts, progress), client.pool
            )
    finally:
        session |= ended(connected, counts, began)
        manifest["prices"] = {**manifest.get("prices", {}), **meter.listed()}
        manifest["sessions"] = [*manifest.get("sessions", []), session]
        write_json(folder.path / MANIFEST, manifest)
    return counts

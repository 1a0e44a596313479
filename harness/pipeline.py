"""The steps of a run in the order of the data path; the command line and the demo call these."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import data
from .backends.base import Sampling
from .cost import Budget, Meter, price_for
from .errors import HarnessError, SettingsError
from .models import Connected, Connection, ModelSpec, connect
from .progress import progress
from .run import Counts, Plan, generate
from .sap import Module, compose
from .store import ERRORS, JUDGMENTS, RunFolder, read_rows

DATASET = "h2htalk"
EMBEDDER = "BAAI/bge-m3"


class TooManyFailuresError(HarnessError):
    """More scenarios have no answer than allowed; what was answered is kept and scored."""

    exit_code = 5


@dataclass(frozen=True)
class Judging:
    """The judge of a run, how to reach it, and its price (``IN,OUT``) if the table has none."""

    spec: ModelSpec
    connection: Connection
    sampling: Sampling
    price: str | None = None


def sap_module(enabled: bool, principles: str | None) -> Module | None:
    """The SAP module for the command line's two options.

    Raises:
        SettingsError: unknown principle, or principles named while SAP is off.
    """
    if not enabled:
        if principles:
            raise SettingsError("--sap-principles needs --sap")
        return None
    try:
        return compose([name.strip() for name in principles.split(",")]) if principles else compose()
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _meter(role: str, connected: Connected, price: str | None, budget: Budget) -> Meter:
    return Meter(role, price_for(str(connected.model["model"]), price), budget)


async def run_and_judge(
    plan: Plan,
    out: Path,
    spec: ModelSpec,
    connection: Connection,
    judging: Judging | None,
    say: Callable[[str], None],
    *,
    budget: Budget | None = None,
    price: str | None = None,
) -> tuple[Counts, Counts | None]:
    """Generate into ``out`` and judge what was generated; one server for both if they are the same.

    Raises:
        BudgetSpentError: ``budget`` is spent; what was finished is kept.
    """
    budget = budget or Budget()
    judged: Counts | None = None
    with RunFolder(out) as folder:
        async with AsyncExitStack() as stack:
            connected = await stack.enter_async_context(connect(spec, connection, say))
            for identity in connected.identities:
                say(f"{identity.url}: {identity.model} ({identity.engine})")
            meter = _meter("target", connected, price, budget)
            # What the judge took in earlier sessions counts before the first new request.
            judge_meter = _judge_meter(judging, out, budget) if judging is not None else None
            counts = await generate(plan, connected, folder, meter, progress)
            if judging is not None and judge_meter is not None:
                judge = connected
                if judging.spec != spec:
                    judge = await stack.enter_async_context(connect(judging.spec, judging.connection, say))
                same = _who(judge) == _who(connected)
                judged = await _judge(plan.dataset, judging, judge, folder, judge_meter, self_judged=same)
    return counts, judged


def _judge_meter(judging: Judging, out: Path, budget: Budget) -> Meter:
    """The judge's meter with what earlier sessions in the folder took."""
    meter = Meter("judge", price_for(judging.spec.name or "", judging.price), budget)
    meter.count(read_rows(out / JUDGMENTS))
    meter.count(row for row in read_rows(out / ERRORS) if row["role"] == "judge")
    return meter


def _who(connected: Connected) -> tuple[Any, Any]:
    return connected.model["model"], connected.model["revision"]


async def _judge(
    dataset: data.Dataset,
    judging: Judging,
    connected: Connected,
    folder: RunFolder,
    meter: Meter,
    *,
    self_judged: bool,
) -> Counts:
    from .judge import judge

    meter.price = meter.price or price_for(str(connected.model["model"]), judging.price)
    return await judge(
        dataset,
        judging.spec.kind,
        connected,
        folder,
        meter,
        progress,
        sampling=judging.sampling,
        self_judged=self_judged,
    )


async def judge_folder(
    dataset: data.Dataset, out: Path, judging: Judging, target: dict[str, Any], say: Callable[[str], None]
) -> Counts:
    """Judge a run folder that was generated before."""
    with RunFolder(out) as folder:
        async with connect(judging.spec, judging.connection, say) as connected:
            same = _who(connected) == (target["model"], target["revision"])
            meter = _judge_meter(judging, out, Budget())
            return await _judge(dataset, judging, connected, folder, meter, self_judged=same)


def dataset_of(out: Path, source: str | None) -> data.Dataset:
    """The rows that a run folder was to answer.

    Raises:
        StoreError: not a run folder. SettingsError: no such dataset, or another one.
    """
    from .score import run_manifest, same_dataset

    manifest = run_manifest(out)
    settings = manifest["settings"]
    dataset = data.load(
        source or manifest["dataset"]["source"],
        settings["configs"],
        sample=settings["sample"],
        seed=settings["sample_seed"] or 0,
        part=data.parse_part(settings.get("part")),
    )
    same_dataset(manifest, dataset, out)
    return dataset


def score_and_report(out: Path, dataset: data.Dataset, embedder: str | None) -> dict[str, Any]:
    """Score a run folder and write its report; the results are returned.

    Raises:
        HarnessError: the embedder cannot be had; what was generated is safe.
    """
    from .report import write_html
    from .score import load_embedder, score_run

    try:
        model = load_embedder(embedder, None)
    except (ImportError, OSError) as error:
        raise HarnessError(
            f"cannot load the embedder {embedder!r}: {str(error).splitlines()[0]}; the answers are kept: "
            f"h2htalk score {out} --embedder NAME (or --embedder none for the lexical parts)"
        ) from error
    results = score_run(out, dataset, embedder=model)
    write_html(out, dataset)
    return results

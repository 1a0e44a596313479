"""The command line. Everything heavy is imported inside the command that needs it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .cli_options import (
    ConcurrencyOption,
    DatasetOption,
    EmbedderOption,
    JudgeOption,
    KeyOption,
    ModelOption,
    OutOption,
    RunArgument,
    TimeoutOption,
    app,
    embedder_name,
    say,
)
from .errors import HarnessError, SettingsError

if TYPE_CHECKING:
    from .models import Connection
    from .pipeline import Judging


def _judging(
    judge: str | None, name: str | None, connection: Connection, tokens: int, price: str | None = None
) -> Judging | None:
    if judge is None:
        return None
    from . import models, pipeline
    from .backends.base import Sampling

    spec = models.parse(judge, name)
    return pipeline.Judging(spec, connection, Sampling(max_new_tokens=tokens), price)


def _show(results: dict[str, Any], out: Path) -> None:
    from rich.console import Console

    from .report import REPORT, terminal

    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(terminal(results))
    console.print(f"{out / 'results.json'}  {out / REPORT}", highlight=False)


@app.command()
def build(
    out: Annotated[
        Path, typer.Option("--out", help="Folder that receives h2htalk/ and h2htalk_score/.")
    ] = Path(),
    caches: Annotated[
        bool, typer.Option("--caches/--no-caches", help="Also fill the local Hugging Face caches.")
    ] = True,
) -> None:
    """Build the dataset and the metric from their sources."""
    from h2htalk_data import build as builder
    from h2htalk_data.paths import NotACheckoutError, card_folder, metric_folder
    from h2htalk_data.prompts import PromptError
    from h2htalk_data.sources import SourceError

    try:
        built = builder.build(card_folder(), metric_folder(), out, caches=caches)
    except (SourceError, PromptError, NotACheckoutError) as error:
        raise HarnessError(str(error)) from error
    for config, n in built.counts.items():
        typer.echo(f"{config:26} {n:5}")
    typer.echo(f"{'total':26} {sum(built.counts.values()):5}")
    typer.echo(f"{built.folder}  fingerprint {built.fingerprint}  prompts {built.prompt_version}")


@app.command()
def run(
    model: ModelOption,
    out: OutOption,
    configs: Annotated[
        str | None, typer.Option("--configs", help="Configs, comma-separated; all eleven by default.")
    ] = None,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="Scenarios per config.")] = None,
    sample_seed: Annotated[int, typer.Option("--sample-seed", help="Draws the sample.")] = 0,
    sap: Annotated[
        bool, typer.Option("--sap/--no-sap", help="Put the Secure Attachment Persona first.")
    ] = False,
    sap_principles: Annotated[
        str | None, typer.Option("--sap-principles", help="Only these of the five, comma-separated.")
    ] = None,
    judge: JudgeOption = None,
    judge_name: Annotated[
        str | None, typer.Option("--judge-name", help="The judge servers' model field.")
    ] = None,
    judge_key: Annotated[
        str | None, typer.Option("--judge-api-key-env", help="Variable with the judge servers' token.")
    ] = None,
    model_name: Annotated[str | None, typer.Option("--model-name", help="The servers' model field.")] = None,
    dataset: DatasetOption = None,
    embedder: EmbedderOption = "BAAI/bge-m3",
    score_it: Annotated[bool, typer.Option("--score/--no-score", help="Score and report at the end.")] = True,
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1)] = 512,
    judge_tokens: Annotated[int, typer.Option("--judge-max-new-tokens", min=1)] = 1024,
    temperature: Annotated[float, typer.Option("--temperature", min=0)] = 0.0,
    top_p: Annotated[float | None, typer.Option("--top-p", min=0, max=1)] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed sent to the server.")] = 0,
    concurrency: ConcurrencyOption = 32,
    timeout: TimeoutOption = 300.0,
    wait_shards: Annotated[
        float, typer.Option("--wait-shards", min=0, help="Seconds for the first shard of shards:PATH.")
    ] = 3600.0,
    api_key_env: KeyOption = None,
    part: Annotated[
        str | None, typer.Option("--part", help="i/n: only this share; `h2htalk merge` joins them.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0, help="Most USD, target and judge together.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=0, help="Most tokens, target and judge together.")
    ] = None,
    price: Annotated[
        str | None, typer.Option("--price", help="Target's IN,OUT in USD per million tokens.")
    ] = None,
    judge_price: Annotated[str | None, typer.Option("--judge-price", help="Judge's IN,OUT.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print requests, tokens and price; ask nobody.")
    ] = False,
    allow_failures: Annotated[
        float, typer.Option("--allow-failures", min=0, max=1, help="Share without answer before exit code 5.")
    ] = 0.01,
) -> None:
    """Generate answers, judge them, score and report. Goes on where it stopped."""
    from . import data, models, pipeline
    from .backends.base import Sampling
    from .cost import Budget
    from .run import Plan

    names = data.parse_configs(configs)
    spec = models.parse(model, model_name)
    share = data.parse_part(part)
    source = dataset or pipeline.DATASET
    loaded = data.load(source, names, sample=sample, seed=sample_seed, part=share)
    plan = Plan(
        loaded,
        names,
        sample,
        sample_seed,
        Sampling(max_new_tokens, temperature, top_p, seed),
        pipeline.sap_module(sap, sap_principles),
        share,
    )
    if dry_run:
        from .forecast import forecast, lines

        for line in lines(forecast(plan, out, spec, price, judge, judge_tokens, judge_price)):
            typer.echo(line)
        return
    token, judge_token = (models.token_from(name) for name in (api_key_env, judge_key))
    connection = models.Connection(concurrency, timeout, token, wait=wait_shards)
    judge_connection = models.Connection(concurrency, timeout, judge_token, wait=wait_shards)
    judging = _judging(judge, judge_name, judge_connection, judge_tokens, judge_price)
    running = pipeline.run_and_judge(
        plan, out, spec, connection, judging, say, budget=Budget(max_cost, max_tokens), price=price
    )
    counts, judged = asyncio.run(running)
    if score_it:
        _show(pipeline.score_and_report(out, loaded, embedder_name(embedder)), out)
    if counts.failure_share > allow_failures:
        missing = counts.total - counts.before - counts.done
        raise pipeline.TooManyFailuresError(
            f"{missing} of {counts.total} scenarios have no answer (see {out / 'errors.jsonl'}); "
            "the same command tries them again"
        )
    if judged is not None and judged.failure_share > allow_failures:
        raise pipeline.TooManyFailuresError(
            f"{judged.failed} of {judged.total} judgments failed (see {out / 'errors.jsonl'}); "
            "the same command tries them again"
        )


@app.command()
def judge(
    run_folder: RunArgument,
    judge_model: Annotated[str, typer.Option("--judge", help="openai:gpt-4o, embedded or URLs.")],
    judge_name: Annotated[str | None, typer.Option("--judge-name")] = None,
    dataset: DatasetOption = None,
    judge_tokens: Annotated[int, typer.Option("--judge-max-new-tokens", min=1)] = 1024,
    concurrency: ConcurrencyOption = 32,
    timeout: TimeoutOption = 300.0,
    api_key_env: KeyOption = None,
) -> None:
    """Judge the levels I-III of a run; score it afterwards."""
    from . import models, pipeline
    from .score import run_manifest

    target = run_manifest(run_folder)["settings"]["model"]
    loaded = pipeline.dataset_of(run_folder, dataset)
    connection = models.Connection(concurrency, timeout, models.token_from(api_key_env))
    judging = _judging(judge_model, judge_name, connection, judge_tokens)
    assert judging is not None
    counts = asyncio.run(pipeline.judge_folder(loaded, run_folder, judging, target, say))
    typer.echo(f"{counts.before + counts.done} of {counts.total} judged, {counts.failed} failed")
    if counts.failed:
        raise pipeline.TooManyFailuresError(f"{counts.failed} judgments failed; the same command tries again")


@app.command()
def score(
    run_folder: RunArgument, dataset: DatasetOption = None, embedder: EmbedderOption = "BAAI/bge-m3"
) -> None:
    """Score a run folder: S, J, flags, the table; writes results.json, scores.parquet, report.html."""
    from . import pipeline

    loaded = pipeline.dataset_of(run_folder, dataset)
    _show(pipeline.score_and_report(run_folder, loaded, embedder_name(embedder)), run_folder)


@app.command()
def report(run_folder: RunArgument, dataset: DatasetOption = None) -> None:
    """Print a scored run's table and write its report.html again."""
    from . import pipeline
    from .report import load, write_html

    results = load(run_folder)
    write_html(run_folder, pipeline.dataset_of(run_folder, dataset))
    _show(results, run_folder)


@app.command()
def compare(
    first: RunArgument,
    second: RunArgument,
    view: Annotated[str | None, typer.Option("--view", help="task, s or lexical.")] = None,
) -> None:
    """Compare two scored runs, paired by scenario: difference, interval, adjusted p, detectable effect."""
    from rich.console import Console

    from .compare import compare_runs
    from .report import comparison_table

    if view not in (None, "task", "s", "lexical"):
        raise SettingsError(f"unknown view {view!r}; known: task, s, lexical")
    chosen, differences, effects = compare_runs(first, second, view=view)
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(comparison_table(first.name, second.name, chosen, differences, effects))


@app.command()
def baselines(
    dataset: DatasetOption = None,
    embedder: EmbedderOption = "none",
    configs: Annotated[str | None, typer.Option("--configs", help="Configs, comma-separated.")] = None,
) -> None:
    """Score trivial systems on every config: empty, constant, echo, shuffled, reference."""
    from rich.console import Console

    from . import data, pipeline
    from .report import floors_table
    from .score import load_embedder

    loaded = data.load(dataset or pipeline.DATASET, data.parse_configs(configs))
    from .baselines import baselines as score_all

    model = load_embedder(embedder_name(embedder), None)
    found = score_all(loaded.rows, embedder=model, sizes=loaded.sizes)
    Console().print(floors_table(found, "lexical" if model is None else "s"))


@app.command()
def audit(
    configs: Annotated[list[str] | None, typer.Argument(help="Configs; all eleven by default.")] = None,
    worst: Annotated[int, typer.Option("--worst", min=0, help="Offenders shown of each figure.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Every figure as one JSON list.")] = False,
) -> None:
    """Measure the authored data against its bounds; exit code 1 if one is missed."""
    import json

    from h2htalk_data import audit as auditing
    from h2htalk_data.paths import card_folder
    from h2htalk_data.rows import rows
    from h2htalk_data.sources import SourceError

    from . import data

    names = data.parse_configs(",".join(configs) if configs else None)
    try:
        everything = rows(card_folder())
    except (SourceError, FileNotFoundError) as error:
        raise HarnessError(str(error)) from error
    figures = auditing.audit({name: everything[name] for name in names}) + auditing.coverage(everything)
    if as_json:
        typer.echo(json.dumps([figure.__dict__ for figure in figures], ensure_ascii=False, indent=1))
    else:
        for line in auditing.lines(figures, worst):
            typer.echo(line)
    if auditing.problems(figures):
        raise typer.Exit(1)


@app.command()
def stats(
    write: Annotated[
        bool, typer.Option("--write", help="Also write the card's statistics.json and figures.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every figure as JSON.")] = False,
) -> None:
    """Count the authored data: scenarios, lengths, labels, verb-noun pairs."""
    import json

    from h2htalk_data import statistics
    from h2htalk_data.paths import card_folder
    from h2htalk_data.rows import digest, fingerprint, rows
    from h2htalk_data.sources import SourceError

    try:
        everything = rows(card_folder())
        tokens, parse = statistics.wordpiece(), statistics.parser()
        from h2htalk_data import figures as drawing
    except (SourceError, FileNotFoundError) as error:
        raise HarnessError(str(error)) from error
    except ImportError as error:
        raise HarnessError(f'{error}; pip install "h2htalk-bench[embedded,stats]"') from error
    found = statistics.statistics(everything, tokens=tokens)
    references = (row["reference"] for some in everything.values() for row in some)
    pairs = statistics.verb_noun_pairs(parse(references))
    found["verb_noun"] = pairs[: statistics.VERB_NOUN_PAIRS]
    found["fingerprint"] = fingerprint({config: digest(some) for config, some in everything.items()})
    if write:
        text = json.dumps(found, ensure_ascii=False, indent=1) + "\n"
        (card_folder() / statistics.FILE).write_text(text, encoding="utf-8")
        drawing.draw(everything, found, pairs, tokens, card_folder() / "figures")
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=1))
        return
    for line in statistics.lines(found):
        typer.echo(line)
    typer.echo("verb-noun: " + ", ".join(f"{verb} {noun} {n}" for verb, noun, n in pairs[:8]) + " …")


@app.command()
def demo(
    out: OutOption = Path("runs/demo"),
    sample: Annotated[int, typer.Option("--sample", min=1, help="Scenarios per config.")] = 3,
) -> None:
    """Build, serve the embedded model, run some scenarios of every config, judge, score, report."""
    from .demo import demo as play

    _show(play(out, sample, say), out)


# Importing them registers their commands, after these.
from . import cli_cluster, cli_hub  # noqa: E402

__all__ = ["app", "cli_cluster", "cli_hub", "main"]


def main() -> None:
    """Entry point: one clear line for an expected error, and its exit code."""
    try:
        app()
    except HarnessError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except OSError as error:
        # A full disk or a folder that may not be written, met outside the run store.
        say(f"error: {error}")
        sys.exit(HarnessError.exit_code)
    except KeyboardInterrupt:
        say("stopped; the same command goes on")
        sys.exit(130)


if __name__ == "__main__":
    main()

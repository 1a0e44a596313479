"""Commands for a cluster: servers on Slurm, many models, joining the parts of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .cli_options import ContainerOption, EngineOption, OutOption, SbatchOption, app, say
from .errors import HarnessError


@app.command()
def merge(
    parts: Annotated[list[Path], typer.Argument(help="Run folders made with --part.")],
    out: OutOption,
) -> None:
    """Join the parts of one run into a run folder; score it afterwards."""
    from .merge import merge as join

    n, missing = join(parts, out)
    typer.echo(f"{n} answers in {out}" + (f"; missing parts: {', '.join(missing)}" if missing else ""))


launch_app = typer.Typer(help="Start servers on a cluster and run against them.", no_args_is_help=True)
app.add_typer(launch_app, name="launch")


@launch_app.command("slurm", context_settings={"allow_extra_args": True})
def launch_slurm(
    context: typer.Context,
    model: Annotated[str, typer.Option("--model", help="Hub id, or a folder that the nodes see.")],
    out: OutOption,
    shards: Annotated[int, typer.Option("--shards", min=1)] = 1,
    gpus: Annotated[int, typer.Option("--gpus-per-shard", min=1)] = 1,
    engine: EngineOption = "tgi",
    container: ContainerOption = "none",
    image: Annotated[str | None, typer.Option("--image", help="Instead of the engine's own image.")] = None,
    revision: Annotated[str | None, typer.Option("--revision")] = None,
    engine_arg: Annotated[
        list[str] | None, typer.Option("--engine-arg", help="An argument of the engine, as --engine-arg=-x.")
    ] = None,
    sbatch: SbatchOption = None,
    serve_only: Annotated[
        bool, typer.Option("--serve-only", help="Submit and leave the shards running.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the batch script only.")] = False,
) -> None:
    """Serve a model as a Slurm job array and run against it; options of `run` follow after --."""
    from .launch import engines, slurm

    serving = engines.Serving(
        model, engine, container, shards, gpus, revision, image, tuple(engine_arg or ())
    )
    folder = out / "shards"
    if dry_run:
        typer.echo(slurm.script(serving, folder, sbatch or ()))
        return
    job = slurm.submit(serving, folder, sbatch or ())
    say(f"job {job}: {shards} shard(s) of {model}, roster {folder}")
    if serve_only:
        typer.echo(f"h2htalk run --model shards:{folder} --out {out}    # afterwards: scancel {job}")
        return
    command = [sys.executable, "-m", "h2htalk_harness.cli", "run", "--model", f"shards:{folder}"]
    raise typer.Exit(slurm.run([*command, "--out", str(out), *context.args], job, folder))


@app.command(context_settings={"allow_extra_args": True})
def sweep(
    context: typer.Context,
    models: Annotated[
        Path | None, typer.Argument(help="A models file; the paper's fifty models by default.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the run folders.")] = Path("runs"),
    only: Annotated[
        str | None, typer.Option("--only", help="Names or groups of models, comma-separated.")
    ] = None,
    shards: Annotated[int, typer.Option("--shards", min=1, help="Shards of each model.")] = 1,
    engine: EngineOption = "tgi",
    container: ContainerOption = "none",
    sbatch: SbatchOption = None,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Models at the same time.")] = 1,
    show: Annotated[bool, typer.Option("--list", help="Print the models and what each needs.")] = False,
) -> None:
    """Run model after model, on Slurm or by API; options of `run` follow after --."""
    from .launch import sweep as sweeping

    chosen = [name.strip() for name in only.split(",") if name.strip()] if only else []
    entries = sweeping.choose(sweeping.load(models or sweeping.MODELS), chosen)
    if show:
        for entry in entries:
            need = "API" if (entry.id or "").startswith("openai:") else f"{entry.gpus} GPU(s) a shard"
            reported = f"reported {entry.overall:.2f}" if entry.overall is not None else ""
            typer.echo(
                f"{entry.name:36} {entry.group:12} {entry.id or '-':44} "
                f"{need if entry.id else entry.note or 'no public id'}  {reported}"
            )
        return
    launch = [
        "--engine",
        engine,
        "--container",
        container,
        *(f"--sbatch={option}" for option in sbatch or ()),
    ]
    outcomes = sweeping.sweep(
        entries, out, launch=launch, run=context.args, shards=shards, at_once=at_once, say=say
    )
    if failed := [outcome.entry.name for outcome in outcomes if outcome.state == "failed"]:
        raise HarnessError(f"{len(failed)} of {len(entries)} models failed: {', '.join(failed)}")

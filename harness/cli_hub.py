"""Commands around the Hub: publish, verify, check submissions, cards, the leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_options import DatasetOption, EmbedderOption, RunArgument, app, embedder_name
from .errors import HarnessError, SettingsError

publish_app = typer.Typer(help="Send to the Hub (HF_ENDPOINT is respected).", no_args_is_help=True)
app.add_typer(publish_app, name="publish")
OrgOption = Annotated[str, typer.Option("--org", help="The Hub organisation or user to publish under.")]
PrOption = Annotated[bool, typer.Option("--pr", help="As a pull request.")]
BuiltOption = Annotated[Path, typer.Option("--built", help="Where `h2htalk build` wrote.")]


def _sent(receipt: Any) -> None:
    typer.echo(
        f"{receipt.url}  ({len(receipt.files)} files)" if receipt.files else f"there already: {receipt.url}"
    )


@publish_app.command("dataset")
def publish_dataset(org: OrgOption, built: BuiltOption = Path(), pr: PrOption = False) -> None:
    """The built dataset as ORG/h2htalk."""
    from . import publish

    _sent(publish.dataset(publish.api(), built / publish.DATASET, org, pull_request=pr))


@publish_app.command("metric")
def publish_metric(org: OrgOption, built: BuiltOption = Path(), pr: PrOption = False) -> None:
    """The built metric as the Space ORG/h2htalk_score."""
    from . import publish

    _sent(publish.metric(publish.api(), built / publish.METRIC, org, pull_request=pr))


@publish_app.command("leaderboard")
def publish_leaderboard(org: OrgOption, pr: PrOption = False) -> None:
    """The leaderboard as the Space ORG/h2htalk-leaderboard, and its table in ORG/h2htalk-results."""
    from h2htalk_data.paths import NotACheckoutError, root

    from . import publish

    try:
        source = root() / "leaderboard"
    except NotACheckoutError as error:
        raise HarnessError(str(error)) from error
    hub = publish.api()
    _sent(publish.leaderboard(hub, source, org, pull_request=pr))
    if not pr:
        _sent(publish.table(hub, source, org))


@publish_app.command("run")
def publish_run(
    run_folder: RunArgument,
    org: OrgOption,
    model_id: Annotated[
        str | None, typer.Option("--model-id", help="The model's Hub id; as its server said by default.")
    ] = None,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Publish although scenarios are missing; it is marked.")
    ] = False,
    evidence: Annotated[
        bool, typer.Option("--evidence/--no-evidence", help="With every answer and judgment.")
    ] = True,
    model_pr: Annotated[
        bool, typer.Option("--model-pr", help="Also propose the scores to the model's own repository.")
    ] = False,
    pr: PrOption = False,
) -> None:
    """A scored run in the results dataset ORG/h2htalk-results."""
    from . import publish

    hub = publish.api()
    receipt = publish.run(
        hub, run_folder, org, model_id, incomplete=incomplete, with_evidence=evidence, pull_request=pr
    )
    _sent(receipt)
    if model_pr:
        _sent(publish.propose(hub, run_folder, org, model_id, receipt.url))


@app.command()
def verify(
    result: Annotated[Path, typer.Argument(help="A result file, its evidence beside it.")],
    dataset: DatasetOption = None,
    embedder: EmbedderOption = "none",
) -> None:
    """Recompute a published result from its answers: verified, or the first difference."""
    from . import data, pipeline
    from . import verify as verifying
    from .score import load_embedder

    loaded = data.load(dataset or pipeline.DATASET, data.parse_configs(None))
    found = verifying.verify(result, loaded, embedder=load_embedder(embedder_name(embedder), None))
    typer.echo(f"verified: {found.published.model_id} ({', '.join(found.recomputed)} recomputed)")


@app.command()
def submission(
    folder: Annotated[Path, typer.Argument(help="A checkout of a results dataset.")],
    changed: Annotated[
        list[Path] | None, typer.Option("--changed", help="A file of the pull request; all by default.")
    ] = None,
    dataset: DatasetOption = None,
) -> None:
    """Check a results dataset, or a pull request on it; exit code 1 and a line for each fault."""
    from . import data, pipeline
    from .submission import check

    loaded = data.load(dataset or pipeline.DATASET, data.parse_configs(None))
    found = check(folder, loaded, changed)
    for line in found:
        typer.echo(line)
    if found:
        raise typer.Exit(1)
    typer.echo("nothing to object to")


@app.command()
def card(run_folder: RunArgument) -> None:
    """Print a run's result as a Markdown block for a model card."""
    from . import publish
    from .model_card import block

    typer.echo(block(publish.checked(run_folder)), nl=False)


@app.command()
def leaderboard(
    folder: Annotated[Path, typer.Argument(help="Run folders, or a checkout of a results dataset.")] = Path(
        "runs"
    ),
    collect: Annotated[
        Path | None, typer.Option("--collect", help="Only write the Parquet file that the page reads.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, help="0 takes a free one.")] = 7860,
) -> None:
    """Show the leaderboard of a folder on this machine."""
    import os
    import subprocess
    import sys
    import tempfile

    from h2htalk_data.paths import NotACheckoutError, root

    try:
        source = root() / "leaderboard"
    except NotACheckoutError as error:
        raise HarnessError(str(error)) from error
    if not folder.is_dir():
        raise SettingsError(f"{folder}: no such folder")
    with tempfile.TemporaryDirectory() as temporary:
        table = collect or Path(temporary) / "leaderboard.parquet"
        made = subprocess.run([sys.executable, str(source / "collect.py"), str(folder), str(table)])
        if made.returncode:
            raise HarnessError(f"{folder}: the results cannot be collected")
        if collect is None:
            env = {**os.environ, "H2HTALK_LEADERBOARD": str(table.absolute())}
            env |= {"GRADIO_SERVER_PORT": str(port)} if port else {}
            raise typer.Exit(subprocess.run([sys.executable, str(source / "app.py")], env=env).returncode)

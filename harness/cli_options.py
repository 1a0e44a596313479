"""The application and the options that several commands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="h2htalk",
    help="H2HTalk: can a language model be a good emotional companion?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        help="embedded, openai:NAME, URLs of one model's shards (comma-separated), or shards:PATH.",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", help="Run folder; the same command on it goes on.")]
DatasetOption = Annotated[
    str | None,
    typer.Option("--dataset", help="Built dataset: a folder, or ORG/NAME[@REVISION] on the Hub."),
]
EmbedderOption = Annotated[
    str,
    typer.Option("--embedder", help="Model for semantic similarity: name, folder, minilm-embedded or none."),
]
JudgeOption = Annotated[
    str | None, typer.Option("--judge", help="Judge of the levels I-III: openai:gpt-4o, embedded or URLs.")
]
ConcurrencyOption = Annotated[
    int, typer.Option("--concurrency", min=1, help="Most requests in flight per shard.")
]
TimeoutOption = Annotated[float, typer.Option("--timeout", min=1, help="Seconds for one attempt.")]
KeyOption = Annotated[
    str | None,
    typer.Option("--api-key-env", help="Environment variable with the servers' token [H2HTALK_API_KEY]."),
]
EngineOption = Annotated[str, typer.Option("--engine", help="tgi, vllm or sglang.")]
ContainerOption = Annotated[str, typer.Option("--container", help="none, apptainer or docker.")]
SbatchOption = Annotated[
    list[str] | None, typer.Option("--sbatch", help="An sbatch option, as --sbatch=--partition=gpu.")
]
RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]


def say(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(text + "\n")


def embedder_name(name: str) -> str | None:
    """The embedder as asked for; None for the lexical parts only."""
    return None if name == "none" else name

"""Model after model: every entry of a models file through ``h2htalk launch`` or ``h2htalk run``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import SettingsError
from ..store import read_json

MODELS = Path(__file__).parent / "models.yaml"
LOG = "sweep.log"


class Entry(BaseModel):
    """One model of a sweep. ``id``: Hub id, ``openai:NAME`` or None. ``gpus``: per shard."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    group: str = ""
    id: str | None = None
    revision: str | None = None
    gpus: Annotated[int, Field(ge=1)] = 1
    shards: Annotated[int, Field(ge=1)] | None = None
    engine: str | None = None
    image: str | None = None
    extra: list[str] = []
    overall: float | None = None
    note: str | None = None

    @property
    def folder(self) -> str:
        """Name of its run folder: the name with what a path cannot hold replaced."""
        return re.sub(r"[^A-Za-z0-9._-]+", "_", self.name).strip("._") or "model"


@dataclass(frozen=True)
class Outcome:
    """How one entry ended. ``state``: ``done``, ``failed`` or ``passed by``, with the reason."""

    entry: Entry
    state: str
    reason: str = ""


def load(path: Path = MODELS) -> list[Entry]:
    """The entries of a models file.

    Raises:
        SettingsError: not YAML, a wrong field (names entry and field), or a name that stands twice.
    """
    try:
        entries = TypeAdapter(list[Entry]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{path}: entry {where}: {first['msg']}") from error
    folders: dict[str, str] = {}
    for entry in entries:
        if entry.folder in folders:
            raise SettingsError(f"{path}: {entry.name!r} and {folders[entry.folder]!r} share a run folder")
        folders[entry.folder] = entry.name
    return entries


def choose(entries: Sequence[Entry], only: Sequence[str]) -> list[Entry]:
    """The entries with these names or of these groups, in file order; all for none.

    Raises:
        SettingsError: a name that no entry has.
    """
    known = {entry.name for entry in entries} | {entry.group for entry in entries}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise SettingsError(f"unknown model or group {', '.join(unknown)}")
    return [entry for entry in entries if not only or entry.name in only or entry.group in only]


def command(entry: Entry, out: Path, launch: Sequence[str], run: Sequence[str], shards: int) -> list[str]:
    """The command line for one entry with an id."""
    assert entry.id is not None
    base = [sys.executable, "-m", "h2htalk_harness.cli"]
    folder = str(out / entry.folder)
    if entry.id.startswith("openai:"):
        return [*base, "run", "--model", entry.id, "--out", folder, *run]
    words = [*base, "launch", "slurm", "--model", entry.id, "--out", folder,
             "--shards", str(entry.shards or shards), "--gpus-per-shard", str(entry.gpus)]  # fmt: skip
    for name, value in (("revision", entry.revision), ("engine", entry.engine), ("image", entry.image)):
        if value:
            words += [f"--{name}", value]
    words += [f"--engine-arg={argument}" for argument in entry.extra]
    # What stands in the file wins over the sweep's own options, which come first.
    return [*words[:5], *launch, *words[5:], "--", *run]


def finished(folder: Path) -> bool:
    """Whether a run folder is scored with an answer to every selected scenario."""
    results = read_json(folder / "results.json")
    if results is None:
        return False
    answered = {config: cell["n"] for config, cell in results["scores"]["configs"].items()}
    return all(answered.get(config) == n for config, n in results["dataset"]["selected"].items())


def sweep(
    entries: Sequence[Entry],
    out: Path,
    *,
    launch: Sequence[str] = (),
    run: Sequence[str] = (),
    shards: int = 1,
    at_once: int = 1,
    say: Callable[[str], None],
) -> list[Outcome]:
    """Run every entry, ``at_once`` at a time; a failed one does not stop the others.

    Args:
        launch: options of ``h2htalk launch slurm`` for all. run: options of ``h2htalk run`` for all.

    What a model's command says goes to ``sweep.log`` in its run folder. A finished one is not run again.
    """

    def one(entry: Entry) -> Outcome:
        folder = out / entry.folder
        if entry.id is None:
            return Outcome(entry, "passed by", entry.note or "no public id")
        if finished(folder):
            return Outcome(entry, "done", "before")
        folder.mkdir(parents=True, exist_ok=True)
        say(f"{entry.name}: begins, see {folder / LOG}")
        with (folder / LOG).open("ab") as log:
            done = subprocess.run(command(entry, out, launch, run, shards), stdout=log, stderr=log)
        if done.returncode == 0:
            return Outcome(entry, "done")
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return Outcome(entry, "failed", lines[-1] if lines else f"exit code {done.returncode}")

    outcomes = []
    with ThreadPoolExecutor(at_once) as pool:
        for outcome in pool.map(one, entries):
            say(f"{outcome.entry.name}: {outcome.state}" + (f" ({outcome.reason})" if outcome.reason else ""))
            outcomes.append(outcome)
    return outcomes

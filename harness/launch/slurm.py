"""Shards as a Slurm job array: a plain sbatch script that a user can read, submitted, cancelled."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final

from ..errors import HarnessError, SettingsError
from .engines import ENGINES, Serving, command

TEMPLATE: Final = Path(__file__).parent / "shard.sbatch"
SCRIPT: Final = "shard.sbatch"
JOB: Final = "job"


class SlurmError(HarnessError):
    """Slurm refuses, or is not there."""

    exit_code = 3


def script(serving: Serving, folder: Path, options: Sequence[str] = (), *, every: float = 2.0) -> str:
    """The batch script of all shards of ``serving``.

    Args:
        folder: where the shards register and log, seen by this machine and by the nodes.
        options: further sbatch options, as ``--partition=gpu``.
        every: seconds between a shard's looks at whether its server is ready.

    Raises:
        SettingsError: an option that is none, or a folder name that sbatch cannot take.
    """
    wrong = [option for option in options if not re.fullmatch(r"--?[\w-]+(=.+)?", option) or "\n" in option]
    if wrong:
        raise SettingsError(f"sbatch option {wrong[0]!r}: must be one word, as in --partition=gpu")
    absolute = str(folder.absolute())
    if not re.fullmatch(r"[\w./@+,-]+", absolute):
        raise SettingsError(f"{absolute}: Slurm's log option takes no spaces or quotes; use another --out")
    stop = 'docker stop "h2htalk-$SLURM_JOB_ID" >/dev/null 2>&1' if serving.container == "docker" else ":"
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        job=f"h2htalk-{re.sub(r'[^A-Za-z0-9._-]+', '_', serving.model)[-40:]}",
        last=serving.shards - 1,
        gpus=serving.gpus,
        folder=absolute,
        folder_quoted=shlex.quote(absolute),
        options="\n".join(f"#SBATCH {option}" for option in options),
        model=re.sub(r"[^\w./@:-]+", "_", serving.model),
        command=command(serving),
        environment="\n".join(
            f'export {name}="{value}"' for name, value in ENGINES[serving.engine].environment
        ),
        stop=stop,
        every=f"{every:g}",
    )


def _call(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    except FileNotFoundError as error:
        raise SlurmError(f"{words[0]}: not found; is this a machine with Slurm?") from error
    except subprocess.TimeoutExpired as error:
        raise SlurmError(f"{words[0]}: no answer from Slurm for two minutes") from error
    if done.returncode:
        text = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise SlurmError(f"{words[0]}: {text}")
    return done.stdout.strip()


def submit(serving: Serving, folder: Path, options: Sequence[str] = (), *, every: float = 2.0) -> str:
    """Write the script into ``folder`` and submit it; the job's id, which is noted in the folder too.

    Raises:
        SlurmError: sbatch is not there or refuses. SettingsError: see ``script``.
    """
    text = script(serving, folder, options, every=every)
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*.url"):
        # Registered by shards of an earlier job that could not strike themselves.
        left.unlink()
    path = folder / SCRIPT
    path.write_text(text, encoding="utf-8")
    job = _call("sbatch", "--parsable", str(path)).split(";")[0]
    (folder / JOB).write_text(f"{job}\n", encoding="utf-8")
    return job


def cancel(job: str) -> None:
    """End all shards of a job; one that is over already is fine."""
    _call("scancel", job)


def run(command: Sequence[str], job: str, folder: Path, *, look: float = 5.0) -> int:
    """Run a command against the shards of a job and cancel the job afterwards; the command's exit code.

    Raises:
        SlurmError: the job was over before any shard could be used; says what the first one logged last.
    """
    ever, silent = False, 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A dropped connection or a polite kill must give the GPUs back as Ctrl-C does.
        signal.signal(number, _interrupt)
    child = subprocess.Popen(command)
    try:
        while True:
            try:
                return child.wait(look)
            except subprocess.TimeoutExpired:
                ever = ever or any(folder.glob("*.url"))
                try:
                    running, silent = ever or bool(states(job)), 0
                except SlurmError:
                    # A controller that does not answer for a moment says nothing about the job.
                    silent += 1
                    if silent >= 10:
                        raise
                    continue
                if not running:
                    raise SlurmError(
                        f"job {job} ended before a shard was ready: {_last_words(folder)}"
                    ) from None
    finally:
        try:
            # After Ctrl-C the child has its own signal and is writing its last lines.
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            child.wait()
        cancel(job)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _last_words(folder: Path) -> str:
    logs = sorted(folder.glob("log-*.txt"))
    lines = logs[0].read_text(encoding="utf-8", errors="replace").split("\n") if logs else []
    said = [line.strip() for line in lines if line.strip()][-2:]
    return f"{' / '.join(said)} ({logs[0]})" if said else f"see {folder}"


def states(job: str) -> dict[str, int]:
    """How many of a job's shards are in which state (``RUNNING``, ``PENDING`` …); none when it is over."""
    found: dict[str, int] = {}
    # An id that Slurm has forgotten is an error of squeue's and means the same as an empty list.
    if job not in _call("squeue", "--noheader", "--format=%F").split():
        return found
    for line in _call("squeue", "--noheader", "--array", "--format=%T", f"--jobs={job}").splitlines():
        found[line.strip()] = found.get(line.strip(), 0) + 1
    return found

"""The run folder: append-only JSONL, one complete line per finished item, and a manifest.

A line is written by a single ``write`` to a file opened for appending, so a killed process leaves at
most one torn last line, which is dropped (and its item done again) when the folder is opened. Lines are
forced to disk on closing and by the first append that comes ``SYNC_SECONDS`` after the last time: a
killed process loses nothing that was written, a power cut the lines since then. One process at a time
may write a folder.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

from .errors import SettingsError, StoreError

GENERATIONS: Final = "generations.jsonl"
JUDGMENTS: Final = "judgments.jsonl"
ERRORS: Final = "errors.jsonl"
MANIFEST: Final = "manifest.json"
JUDGE_MANIFEST: Final = "judge.json"
SYNC_SECONDS: Final = 2.0


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSONL file of a run.

    Raises:
        StoreError: a line other than a torn last one is not JSON; names file and line.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise StoreError(f"{path}:{number}: not JSON: {error}") from error


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` by ``value`` as JSON, atomically."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise StoreError(f"{path}: cannot be written: {error.strerror}") from error


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in ``path``; None if there is no such file."""
    if not path.is_file():
        return None
    try:
        value = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise StoreError(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise StoreError(f"{path}: not a JSON object")
    return value


class Appender:
    """An append-only JSONL file; opening it drops a torn last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise StoreError(f"{path}: cannot be opened: {error.strerror}") from error
        self._repair()
        self._synced = time.monotonic()

    def _repair(self) -> None:
        size = os.fstat(self._fd).st_size
        end = size
        while end > 0:
            start = max(0, end - 65536)
            cut = os.pread(self._fd, end - start, start).rfind(b"\n")
            if cut >= 0:
                end = start + cut + 1
                break
            end = start
        if end != size:
            os.ftruncate(self._fd, end)

    def append(self, row: dict[str, Any]) -> None:
        """Write one row as one complete line.

        Raises:
            StoreError: the disk is full or gone; every earlier line is whole.
        """
        line = orjson.dumps(row) + b"\n"
        try:
            written = os.write(self._fd, line)
            if written != len(line):
                os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
                raise OSError(28, "No space left on device")
            now = time.monotonic()
            if now - self._synced > SYNC_SECONDS:
                os.fdatasync(self._fd)
                self._synced = now
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be written: {error.strerror}; earlier rows are safe"
            ) from error

    def close(self) -> None:
        """Force the file to disk and close it."""
        os.fsync(self._fd)
        os.close(self._fd)


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """Where two settings trees differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        found: list[str] = []
        for key in sorted({*old, *new}):
            found += differences(old.get(key), new.get(key), f"{name}.{key}" if name else str(key))
        return found
    return [] if old == new else [f"{name}: {old!r} there, {new!r} now"]


class RunFolder:
    """A run's files, locked for this process while open.

    Raises:
        StoreError: another process writes the folder, or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._appenders: dict[str, Appender] = {}
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreError(f"{path}: cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise StoreError(f"{path}: another process is writing this run folder") from error

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Append ``row`` to the file ``name``."""
        if name not in self._appenders:
            self._appenders[name] = Appender(self.path / name)
        self._appenders[name].append(row)

    def done(self, name: str) -> set[str]:
        """Ids that have a row in the file ``name``."""
        # Opening repairs a torn tail before anything is read from or added to the file.
        if name not in self._appenders:
            self._appenders[name] = Appender(self.path / name)
        return {row["id"] for row in read_rows(self.path / name)}

    def settle(self, name: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Write a manifest, or check that the folder was started with the same settings.

        Raises:
            SettingsError: naming every setting that differs.
        """
        path = self.path / name
        old = read_json(path)
        if old is None:
            write_json(path, manifest)
            return manifest
        changed = differences(old.get("settings"), manifest["settings"])
        if changed:
            raise SettingsError(
                f"{self.path}: was started with other settings ({'; '.join(changed)}); use another --out"
            )
        return old

    def close(self) -> None:
        """Force everything to disk and give the folder free."""
        for appender in self._appenders.values():
            appender.close()
        self._appenders.clear()
        os.close(self._lock)

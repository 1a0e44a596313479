"""A live line with rate, failures and time left; plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol


class Progress(Protocol):
    """What a long step reports to."""

    def advance(self, *, failed: bool) -> None:
        """One more item is finished."""


class LineProgress:
    """One status line on standard error.

    Args:
        label: what is being done. total: items to do now. before: items done in earlier sessions.
        every: seconds between lines where standard error is not a terminal.
    """

    def __init__(self, label: str, total: int, before: int = 0, *, every: float = 15.0) -> None:
        self._label = label
        self._total = total
        self._before = before
        self._every = every if not sys.stderr.isatty() else 0.2
        self._done = 0
        self._failed = 0
        self._started = self._shown = time.monotonic()

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._show(last=True)

    def advance(self, *, failed: bool) -> None:
        """One more item is finished."""
        self._done += 1
        self._failed += failed
        if time.monotonic() - self._shown >= self._every:
            self._show()

    def _show(self, *, last: bool = False) -> None:
        self._shown = time.monotonic()
        seconds = self._shown - self._started
        rate = self._done / seconds if seconds > 0 else 0.0
        left = (
            f"{(self._total - self._done) / rate:,.0f} s left" if rate and not last else f"{seconds:,.0f} s"
        )
        text = (
            f"{self._label}: {self._before + self._done:,}/{self._before + self._total:,}, "
            f"{rate:.1f}/s, {self._failed:,} failed, {left}"
        )
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[2K{text}" + ("\n" if last else ""))
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

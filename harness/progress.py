"""What a long step shows: lines with rate, failures, time left; on a terminal a table of the shards too."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from .shards import ShardPool

if TYPE_CHECKING:
    from rich.console import Group

# Shards that fit under the line on a common terminal; the others are in the manifest.
_SHOWN = 16


class Progress(Protocol):
    """What a long step reports to."""

    def advance(self, *, failed: bool) -> None:
        """One more item is finished."""


class LineProgress:
    """A status line on standard error, now and then.

    Args:
        label: what is being done. total: items to do now. before: items done in earlier sessions.
        every: seconds between lines.
    """

    def __init__(self, label: str, total: int, before: int, pool: ShardPool, *, every: float = 15.0) -> None:
        self._label = label
        self._total = total
        self._before = before
        self._pool = pool
        self._every = every
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
            self._shown = time.monotonic()
            self._show()

    def text(self, *, last: bool = False) -> str:
        """The line."""
        seconds = time.monotonic() - self._started
        rate = self._done / seconds if seconds > 0 else 0.0
        left = (
            f"{(self._total - self._done) / rate:,.0f} s left" if rate and not last else f"{seconds:,.0f} s"
        )
        shards = self._pool.shards
        up = sum(shard.state == "up" for shard in shards)
        return (
            f"{self._label}: {self._before + self._done:,}/{self._before + self._total:,}, "
            f"{rate:.1f}/s, {self._failed:,} failed, {left}"
            + (f", {up}/{len(shards)} shards up" if len(shards) > 1 else "")
        )

    def _show(self, *, last: bool = False) -> None:
        sys.stderr.write(self.text(last=last) + "\n")
        sys.stderr.flush()


class LiveProgress(LineProgress):
    """The same line with a table of the shards below it, renewed twice a second on a terminal."""

    def __enter__(self) -> LiveProgress:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=2, transient=True)
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        super().__exit__(kind, error, trace)

    def advance(self, *, failed: bool) -> None:
        """One more item is finished."""
        self._done += 1
        self._failed += failed

    def _render(self) -> Group:
        from rich.console import Group

        return Group(self.text(), shard_table(self._pool))


def shard_table(pool: ShardPool) -> Any:
    """The shards of a pool as a rich table: state, in flight of the limit, answers, failures by kind."""
    from rich.table import Table

    from .errors import redact

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("shard", "state", "in flight", "done", "failures"):
        table.add_column(name, justify="right" if name in {"in flight", "done"} else "left")
    for shard in pool.shards[:_SHOWN]:
        failures = ", ".join(f"{kind} {n}" for kind, n in shard.failures.most_common())
        flight = f"{shard.in_flight}/{int(shard.limit)}"
        table.add_row(redact(shard.url), shard.state, flight, f"{shard.done:,}", failures)
    if len(pool.shards) > _SHOWN:
        table.add_row(f"and {len(pool.shards) - _SHOWN} more")
    return table


def progress(label: str, total: int, before: int, pool: ShardPool) -> LineProgress:
    """A display that suits standard error."""
    kind = LiveProgress if sys.stderr.isatty() else LineProgress
    return kind(label, total, before, pool)

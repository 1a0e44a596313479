"""The shard pool: several servers of one model, each with an adaptive limit of its own.

A request goes to the healthy shard with the smallest share of its limit in flight. An overload signal
multiplies a shard's limit by 0.8 at most once per cool-down; clean rounds at a saturated limit bring it
back. A shard that fails several times in a row is ejected and let back in by a single probe request.
Shards may join a running pool, and leave it: a leaving one finishes what it has.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import RequestError, ServerError

BACK_OFF = 0.8
COOL_DOWN = 15.0
EJECT_AFTER = 5
PROBE_AFTER = 5.0
# Signals that a shard has more than it can take, and signals that it may be broken.
OVERLOAD = frozenset({"rate_limited", "overloaded"})
BROKEN = frozenset({"connect", "reset", "timeout", "server_error", "not_json", "bad_shape"})


@dataclass
class Shard:
    """One server. ``limit`` is the number of requests it may have in flight."""

    url: str
    ceiling: int
    limit: float = 0.0
    in_flight: int = 0
    streak: int = 0
    round_left: int = 0
    cooling_until: float = 0.0
    ejected_until: float | None = None
    probing: bool = False
    retired: bool = False
    done: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    limits: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limit = float(self.ceiling)
        self.round_left = self.ceiling

    def room(self, now: float) -> bool:
        """Whether the shard may take a request now."""
        if self.retired:
            return False
        if self.ejected_until is not None:
            return not self.probing and now >= self.ejected_until
        return self.in_flight < int(self.limit)

    def summary(self) -> dict[str, Any]:
        """What the manifest keeps of this shard."""
        return {
            "url": self.url,
            "done": self.done,
            "failures": dict(self.failures),
            "limit": round(self.limit, 1),
            "state": self.state,
        }

    @property
    def state(self) -> str:
        """``up``, ``out`` after failures, or ``left``."""
        if self.retired:
            return "left"
        return "up" if self.ejected_until is None else "out"


class ShardPool:
    """Chooses a shard for each request and learns from its outcome.

    Args:
        urls: one base URL per shard.
        concurrency: the most requests in flight per shard.
        give_up: seconds with every shard ejected after which the run is ended (resumable).
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        concurrency: int,
        give_up: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.shards = [Shard(url, concurrency) for url in urls]
        self.on_growth: Callable[[], None] | None = None
        self._concurrency = concurrency
        self._give_up = give_up
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._all_out_since: float | None = None

    @property
    def capacity(self) -> int:
        """The most requests that can be in flight over all shards."""
        return sum(shard.ceiling for shard in self.shards if not shard.retired)

    def join(self, url: str) -> None:
        """Add a shard, or take back one that had left."""
        for shard in self.shards:
            if shard.url == url:
                if not shard.retired:
                    return
                shard.retired, shard.ejected_until, shard.streak = False, None, 0
                break
        else:
            self.shards.append(Shard(url, self._concurrency))
        self._all_out_since = None
        if self.on_growth is not None:
            self.on_growth()
        while self._waiting:
            self._wake()

    def leave(self, url: str) -> None:
        """Send nothing more to a shard; what it has in flight may finish."""
        for shard in self.shards:
            if shard.url == url:
                shard.retired = True

    def _choose(self) -> Shard | None:
        now = self._clock()
        open_shards = [shard for shard in self.shards if shard.room(now)]
        if not open_shards:
            return None
        return min(open_shards, key=lambda shard: (shard.in_flight / shard.limit, shard.in_flight))

    async def acquire(self) -> Shard:
        """A shard with room; waits until there is one.

        Raises:
            ServerError: every shard has been out for ``give_up`` seconds.
        """
        while (shard := self._choose()) is None:
            now = self._clock()
            staying = [shard for shard in self.shards if not shard.retired]
            out = [shard.ejected_until for shard in staying if shard.ejected_until is not None]
            if len(out) == len(staying):
                self._all_out_since = self._all_out_since or now
                if now - self._all_out_since > self._give_up:
                    kinds = sum((shard.failures for shard in staying), Counter[str]())
                    what = f"have failed ({kinds.most_common(1)[0][0]})" if kinds else "have left"
                    raise ServerError(
                        f"all {len(staying) or len(self.shards)} shard(s) {what} for {self._give_up:.0f} s; "
                        "the same command goes on where it stopped"
                    )
            pause = max(0.02, min(out, default=now + 1.0) - now)
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await asyncio.wait((waiter,), timeout=min(pause, 1.0))
            if not waiter.done():
                waiter.cancel()
        shard.in_flight += 1
        if shard.ejected_until is not None:
            shard.probing = True
        return shard

    def release(self, shard: Shard, failure: RequestError | None) -> None:
        """Report a request's outcome and free its place."""
        shard.in_flight -= 1
        shard.probing = False
        now = self._clock()
        if failure is None:
            self._succeeded(shard)
        else:
            shard.failures[failure.kind] += 1
            if failure.kind in OVERLOAD:
                self._overloaded(shard, now, failure.retry_after)
            elif failure.kind in BROKEN:
                self._broken(shard, now)
        self._wake()

    def _wake(self) -> None:
        for _ in range(len(self._waiting)):
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _succeeded(self, shard: Shard) -> None:
        shard.done += 1
        shard.streak = 0
        shard.ejected_until = None
        self._all_out_since = None
        # Only work at a nearly full limit shows that the limit could be higher.
        if shard.limit < shard.ceiling and shard.in_flight + 1 >= BACK_OFF * int(shard.limit):
            shard.round_left -= 1
            if shard.round_left <= 0 and self._clock() >= shard.cooling_until:
                grown = min(float(shard.ceiling), max(shard.limit * 1.05, shard.limit + 1))
                self._set_limit(shard, grown, "clean round")

    def _overloaded(self, shard: Shard, now: float, retry_after: float | None) -> None:
        if now >= shard.cooling_until:
            self._set_limit(shard, max(1.0, shard.limit * BACK_OFF), "overload")
        shard.cooling_until = max(shard.cooling_until, now + (retry_after or COOL_DOWN))

    def _broken(self, shard: Shard, now: float) -> None:
        shard.streak += 1
        shard.round_left = int(shard.limit)
        if shard.ejected_until is not None or shard.streak >= EJECT_AFTER:
            backoff = PROBE_AFTER * min(6, 1 + max(0, shard.streak - EJECT_AFTER))
            shard.ejected_until = now + backoff

    def _set_limit(self, shard: Shard, limit: float, reason: str) -> None:
        shard.limit = limit
        shard.round_left = int(limit)
        shard.limits.append((limit, reason))

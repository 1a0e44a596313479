"""One answer for one item: pool, backend and retries, all bounded."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from .backends.base import Backend, Completion, Sampling
from .cost import Meter
from .errors import RequestError
from .shards import ShardPool


@dataclass(frozen=True)
class RetryPolicy:
    """When to stop trying one item.

    ``attempts`` in all, ``seconds`` in all, and ``identical`` times the very same error: a
    deterministic failure is not repeated for hours.
    """

    attempts: int = 8
    seconds: float = 1800.0
    identical: int = 4
    first_pause: float = 0.5
    longest_pause: float = 30.0


class Answer(NamedTuple):
    """A completion with where and how it was got. ``seconds``: of the successful attempt."""

    completion: Completion
    shard: str
    attempts: int
    seconds: float


class FailedError(Exception):
    """Every allowed attempt failed; ``last`` is the failure that is recorded."""

    def __init__(self, last: RequestError, attempts: int, shard: str) -> None:
        super().__init__(last.message)
        self.last = last
        self.attempts = attempts
        self.shard = shard


class Client:
    """Sends items through a pool. One client per role: target and judge are kept apart."""

    def __init__(self, backend: Backend, pool: ShardPool, policy: RetryPolicy, *, seed: int = 0) -> None:
        self.backend = backend
        self.pool = pool
        self._policy = policy
        self._random = random.Random(seed)

    def _pause(self, attempt: int, failure: RequestError) -> float:
        if failure.retry_after is not None:
            return min(failure.retry_after, 120.0)
        longest = min(self._policy.longest_pause, self._policy.first_pause * 2.0 ** (attempt - 1))
        return longest * (0.5 + self._random.random() / 2)

    async def ask(
        self,
        messages: list[dict[str, str]],
        sampling: Sampling,
        meter: Meter,
        extra: dict[str, Any] | None = None,
    ) -> Answer:
        """One answer, its tokens counted by ``meter``.

        Raises:
            FailedError: no attempt succeeded within the policy.
            ServerError: all shards are gone.
            BudgetSpentError: the request does not fit into the budget any more; it was not sent.
        """
        held = await meter.admit(messages, sampling)
        answer: Answer | None = None
        try:
            answer = await self._ask(messages, sampling, extra or {})
        finally:
            meter.settle(held, messages, answer.completion if answer else None)
        return answer

    async def _ask(self, messages: list[dict[str, str]], sampling: Sampling, extra: dict[str, Any]) -> Answer:
        started = time.monotonic()
        same: Counter[str] = Counter()
        attempt = 0
        while True:
            attempt += 1
            shard = await self.pool.acquire()
            sent = time.monotonic()
            failure: RequestError | None = None
            try:
                completion = await self.backend.complete(shard.url, messages, sampling, extra)
            except RequestError as error:
                failure = error
            finally:
                self.pool.release(shard, failure)
            if failure is None:
                return Answer(completion, shard.url, attempt, round(time.monotonic() - sent, 3))
            same[failure.message] += 1
            pause = self._pause(attempt, failure)
            spent = time.monotonic() - started + pause
            # Overload says nothing about the item, so it is bounded by attempts and time alone.
            repeated = same[failure.message] >= self._policy.identical and failure.kind not in {
                "rate_limited",
                "overloaded",
            }
            if (
                not failure.retryable
                or repeated
                or attempt >= self._policy.attempts
                or spent > self._policy.seconds
            ):
                raise FailedError(failure, attempt, shard.url)
            await asyncio.sleep(pause)

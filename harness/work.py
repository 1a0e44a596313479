"""Many items at a time over a pool whose size may grow, until all are done or something ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

from .cost import BudgetSpentError
from .shards import ShardPool

Item = TypeVar("Item")


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], pool: ShardPool) -> None:
    """``work`` on every item, as many at a time as the pool has room for.

    The items are drawn one by one, so that they need not be in memory all at once. The first error cancels
    all other work; a spent budget only keeps new work from beginning.

    Raises:
        BudgetSpentError: after everything that had begun is finished.
    """
    source: Iterator[Item] = iter(items)
    workers: set[asyncio.Task[None]] = set()
    finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    spent: list[BudgetSpentError] = []

    async def worker() -> None:
        for item in source:
            try:
                await work(item)
            except BudgetSpentError as error:
                spent.append(error)
            if spent:
                return

    def ended(task: asyncio.Task[None]) -> None:
        workers.discard(task)
        if finished.done():
            return
        if not task.cancelled() and (error := task.exception()) is not None:
            finished.set_exception(error)
        elif not workers:
            finished.set_result(None)

    def start() -> None:
        while len(workers) < max(1, pool.capacity) and not finished.done():
            task = asyncio.create_task(worker())
            workers.add(task)
            task.add_done_callback(ended)

    before, pool.on_growth = pool.on_growth, start
    try:
        start()
        await finished
    finally:
        pool.on_growth = before
        remaining = list(workers)
        for task in remaining:
            task.cancel()
        await asyncio.gather(*remaining, return_exceptions=True)
    if spent:
        raise spent[0]

"""Which servers there are: a fixed list, or a file or folder that servers are written to and struck from.

A folder holds one ``*.url`` file per shard with its URL in it, written when the server is ready and removed
when it goes; a file holds one URL a line, ``#`` begins a comment. Both are read again every few seconds
while a run goes on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from .errors import ServerError, SettingsError, redact

URL: Final = re.compile(r"^https?://[^\s/]+", re.IGNORECASE)
SUFFIX: Final = ".url"
LOOK_EVERY: Final = 2.0
# A server that could not be used is tried again after so many looks.
_TRY_AGAIN: Final = 5


def clean(url: str) -> str:
    """A server's base URL without trailing slash or ``/v1``."""
    return url.strip().rstrip("/").removesuffix("/v1").rstrip("/")


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        # A server may strike its file between listing and reading; a network file system may stumble.
        return []
    return [line for raw in text.splitlines() if (line := raw.split("#")[0].strip())]


def read(path: Path) -> list[str]:
    """The URLs that stand in a file or folder now; what is not a URL is not a server yet.

    Raises:
        SettingsError: ``path`` is a file with a line that is no URL.
    """
    if not path.is_file():
        found = [line for file in sorted(path.glob(f"*{SUFFIX}")) for line in _lines(file)[:1]]
        return list(dict.fromkeys(clean(url) for url in found if URL.match(url)))
    lines = _lines(path)
    wrong = [line for line in lines if not URL.match(line)]
    if wrong:
        raise SettingsError(f"{path}: {wrong[0]!r} is not a URL")
    return list(dict.fromkeys(map(clean, lines)))


async def first(path: Path, wait: float) -> list[str]:
    """URLs of ``path`` as soon as there is one.

    Raises:
        ServerError: none within ``wait`` seconds.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    while not (urls := read(path)):
        if loop.time() >= until:
            raise ServerError(f"{path}: no server has registered here for {wait:.0f} s")
        await asyncio.sleep(min(LOOK_EVERY, 0.2 + wait / 100))
    return urls


async def watch(
    path: Path,
    known: set[str],
    join: Callable[[str], Awaitable[None]],
    leave: Callable[[str], None],
    say: Callable[[str], None],
) -> None:
    """Follow ``path`` for ever: ``join`` for URLs that come, ``leave`` for those that go.

    ``join`` may raise ServerError: it is said once, and the server tried again later.
    """
    failing: dict[str, int] = {}
    while True:
        await asyncio.sleep(LOOK_EVERY)
        try:
            urls = read(path)
        except (SettingsError, OSError) as error:
            say(f"{error}; the shards stay as they are")
            continue
        for url in known - set(urls):
            leave(url)
            known.discard(url)
            say(f"{redact(url)}: has left")
        for url in [url for url in urls if url not in known]:
            looks = failing.get(url, 0)
            if looks % _TRY_AGAIN == 0:
                try:
                    await join(url)
                except ServerError as error:
                    if looks == 0:
                        say(f"{error}; not used for now")
                else:
                    known.add(url)
                    failing.pop(url, None)
                    say(f"{redact(url)}: has joined")
                    continue
            failing[url] = looks + 1

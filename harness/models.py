"""From what a user names (``embedded``, URLs, ``openai:NAME``) to a client that has been tried once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import roster
from .admission import Admission
from .backends.base import Backend, Identity
from .backends.messages import MessagesBackend
from .client import Client, RetryPolicy
from .errors import ServerError, SettingsError, redact
from .shards import ShardPool

_ROSTER = "shards:"


@dataclass(frozen=True)
class ModelSpec:
    """A model as named on the command line. ``kind``: ``messages``, ``openai`` or ``embedded``.

    ``roster``: file or folder where the shards' URLs stand, which may change during the run.
    """

    kind: str
    urls: tuple[str, ...] = ()
    name: str | None = None
    roster: Path | None = None


@dataclass(frozen=True)
class Connection:
    """How to reach servers. ``token`` never leaves this process but in the request header.

    ``read_timeout``: seconds for one attempt in all. ``wait``: seconds for the first shard of a roster.
    """

    concurrency: int = 32
    read_timeout: float = 300.0
    token: str | None = field(default=None, repr=False)
    policy: RetryPolicy = RetryPolicy()
    wait: float = 3600.0


@dataclass(frozen=True)
class Connected:
    """A tried client, who answers, and whether scores of it may be compared with others'."""

    client: Client
    identities: list[Identity]
    embedded: bool

    @property
    def model(self) -> dict[str, Any]:
        """The identity that all shards share, for manifests and results."""
        first = self.identities[0]
        return {
            "model": first.model,
            "revision": first.revision,
            "engine": first.engine,
            "embedded": self.embedded,
        }


def parse(text: str, name: str | None = None) -> ModelSpec:
    """Read a model argument.

    Args:
        text: ``embedded``, ``openai:NAME``, one or more URLs with commas between them, or ``shards:PATH``.
        name: the ``model`` field to send to URLs, where a server needs it.

    Raises:
        SettingsError: anything else.
    """
    if text == "embedded":
        return ModelSpec("embedded")
    if text.startswith("openai:"):
        if not text[7:].strip():
            raise SettingsError("openai: needs a model name, as in openai:gpt-4o")
        return ModelSpec("openai", name=text[7:].strip())
    if text.startswith(_ROSTER):
        path = Path(text.removeprefix(_ROSTER)).expanduser()
        if not path.exists():
            raise SettingsError(f"{path}: no such file or folder of shards")
        return ModelSpec("messages", name=name, roster=path)
    urls = tuple(roster.clean(part) for part in text.split(",") if part.strip())
    wrong = [url for url in urls if not roster.URL.match(url)]
    if wrong or not urls:
        raise SettingsError(
            f"unknown model {redact(', '.join(wrong) or text)!r}: give `embedded`, openai:NAME, shards:PATH, "
            "or URLs beginning http:// or https://"
        )
    if len(set(urls)) != len(urls):
        raise SettingsError("the same URL is given twice")
    return ModelSpec("messages", urls, name)


def token_from(variable: str | None) -> str | None:
    """The bearer token in an environment variable (``H2HTALK_API_KEY`` unless named).

    Raises:
        SettingsError: the named variable is not set.
    """
    value = os.environ.get(variable or "H2HTALK_API_KEY")
    if variable and not value:
        raise SettingsError(f"the environment variable {variable} is not set")
    return value or None


@asynccontextmanager
async def connect(
    spec: ModelSpec, connection: Connection, say: Callable[[str], None] = lambda text: None
) -> AsyncIterator[Connected]:
    """A client for ``spec``: identities fetched and compared, every shard tried once.

    With a roster, shards that register later join while the client is in use; ``say`` tells of it.

    Raises:
        ServerError: a server is unreachable, refuses the token, answers no JSON, or shards disagree.
    """
    if spec.kind == "embedded":
        from .embedded import EmbeddedServer

        with EmbeddedServer() as server:
            backend = MessagesBackend(model=server.model_id, read_timeout=connection.read_timeout)
            identity = Identity(server.url, "transformers", server.name, server.revision, {})
            async with _client(backend, [server.url], connection) as client:
                yield Connected(client, [identity], embedded=True)
        return
    urls = await roster.first(spec.roster, connection.wait) if spec.roster else list(spec.urls)
    backend = _backend(spec, connection)
    urls = urls or [backend.url]
    admission = Admission(backend, say)
    async with _client(backend, urls, connection) as client:
        if spec.roster:
            urls = await _usable(admission, client, urls, say)
        else:
            await admission.admit(*urls)
        watcher: asyncio.Task[None] | None = None
        if spec.roster:

            async def join(url: str) -> None:
                await admission.admit(url)
                client.pool.join(url)

            watching = roster.watch(spec.roster, set(urls), join, client.pool.leave, say)
            watcher = asyncio.create_task(watching)
        try:
            yield Connected(client, admission.identities, embedded=False)
        finally:
            if watcher is not None:
                watcher.cancel()
                await asyncio.gather(watcher, return_exceptions=True)


async def _usable(
    admission: Admission, client: Client, urls: list[str], say: Callable[[str], None]
) -> list[str]:
    """Those of a roster's servers that can be let in; the others are tried again while the run goes on.

    Raises:
        ServerError: none of them can.
    """
    usable, last = [], ServerError("")
    for url in urls:
        try:
            await admission.admit(url)
            usable.append(url)
        except ServerError as error:
            last = error
            client.pool.leave(url)
            say(f"{error}; not used for now")
    if not usable:
        raise last
    return usable


def _backend(spec: ModelSpec, connection: Connection) -> Any:
    if spec.kind == "openai":
        from .backends.openai_api import OpenAIBackend

        return OpenAIBackend(spec.name or "", read_timeout=connection.read_timeout)
    return MessagesBackend(token=connection.token, model=spec.name, read_timeout=connection.read_timeout)


@asynccontextmanager
async def _client(backend: Backend, urls: Sequence[str], connection: Connection) -> AsyncIterator[Client]:
    pool = ShardPool(urls, concurrency=connection.concurrency)
    try:
        yield Client(backend, pool, connection.policy)
    finally:
        await backend.close()

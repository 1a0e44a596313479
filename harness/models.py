"""From what a user names (``embedded``, URLs, ``openai:NAME``) to a client that has been tried once."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from .backends.base import UNKNOWN, Backend, Identity, Sampling
from .backends.messages import MessagesBackend
from .client import Client, RetryPolicy
from .errors import RequestError, ServerError, SettingsError
from .shards import ShardPool

_URL = re.compile(r"^https?://[^\s/]+", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(https?://)[^/@\s]+@", re.IGNORECASE)
_PROBE = [{"role": "user", "content": "Reply with the word: ready"}]


@dataclass(frozen=True)
class ModelSpec:
    """A model as named on the command line. ``kind``: ``messages``, ``openai`` or ``embedded``."""

    kind: str
    urls: tuple[str, ...] = ()
    name: str | None = None


@dataclass(frozen=True)
class Connection:
    """How to reach servers. ``token`` never leaves this process but in the request header."""

    concurrency: int = 32
    read_timeout: float = 300.0
    token: str | None = field(default=None, repr=False)
    policy: RetryPolicy = RetryPolicy()


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


def redact(text: str) -> str:
    """``text`` without user names and passwords in URLs."""
    return _CREDENTIALS.sub(r"\1", text)


def parse(text: str, name: str | None = None) -> ModelSpec:
    """Read a model argument.

    Args:
        text: ``embedded``, ``openai:NAME``, or one or more URLs with commas between them.
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
    urls = tuple(part.strip().rstrip("/").removesuffix("/v1") for part in text.split(",") if part.strip())
    wrong = [url for url in urls if not _URL.match(url)]
    if wrong or not urls:
        raise SettingsError(
            f"unknown model {redact(', '.join(wrong) or text)!r}: give `embedded`, openai:NAME, "
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


def agree(identities: list[Identity]) -> None:
    """Check that all shards serve one model.

    Raises:
        ServerError: naming the shards that differ.
    """
    first = identities[0]
    if len(identities) > 1 and first.model == UNKNOWN:
        raise ServerError(
            f"{redact(first.url)} does not say what it serves, so {len(identities)} shards cannot be known "
            "to be one model; name it with --model-name"
        )
    for other in identities[1:]:
        if (other.model, other.revision) != (first.model, first.revision):
            raise ServerError(
                f"shards serve different models: {redact(first.url)} has {first.model}@{first.revision}, "
                f"{redact(other.url)} has {other.model}@{other.revision}"
            )


async def _try_out(backend: Backend, url: str) -> None:
    """One tiny request, so that a wrong token or address ends the run before it begins."""
    for attempt in range(1, 6):
        try:
            await backend.complete(url, _PROBE, Sampling(max_new_tokens=8), {})
        except RequestError as error:
            if error.kind == "empty":
                return
            final = not error.retryable or error.kind in {"not_json", "bad_shape"}
            if final or attempt == 5:
                raise ServerError(f"{redact(url)}: {redact(error.message)}") from error
            await asyncio.sleep(min(error.retry_after or attempt * 0.5, 10.0))
        else:
            return


@asynccontextmanager
async def connect(spec: ModelSpec, connection: Connection) -> AsyncIterator[Connected]:
    """A client for ``spec``: identities fetched and compared, every shard tried once.

    Raises:
        ServerError: a server is unreachable, refuses the token, answers no JSON, or shards disagree.
    """
    if spec.kind == "embedded":
        from .embedded import EmbeddedServer

        with EmbeddedServer() as server:
            inner = ModelSpec("messages", (server.url,), server.model_id)
            async with _connected(inner, connection) as client:
                identity = Identity(server.url, "transformers", server.name, server.revision, {})
                yield Connected(client, [identity], embedded=True)
        return
    async with _connected(spec, connection) as client:
        urls = [shard.url for shard in client.pool.shards]
        identities = list(await asyncio.gather(*(client.backend.identify(url) for url in urls)))
        agree(identities)
        await asyncio.gather(*(_try_out(client.backend, url) for url in urls))
        identities = [identity._replace(url=redact(identity.url)) for identity in identities]
        yield Connected(client, identities, embedded=False)


@asynccontextmanager
async def _connected(spec: ModelSpec, connection: Connection) -> AsyncIterator[Client]:
    backend: Backend
    urls: tuple[str, ...]
    if spec.kind == "openai":
        from .backends.openai_api import OpenAIBackend

        openai = OpenAIBackend(spec.name or "", read_timeout=connection.read_timeout)
        backend, urls = openai, (openai.url,)
    else:
        urls = spec.urls
        backend = MessagesBackend(
            token=connection.token, model=spec.name, read_timeout=connection.read_timeout
        )
    pool = ShardPool(urls, concurrency=connection.concurrency)
    try:
        yield Client(backend, pool, connection.policy)
    finally:
        await backend.close()

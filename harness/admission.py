"""Letting servers into a run: who they are, that they are one model, and that each answers at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from .backends.base import UNKNOWN, Backend, Identity, Sampling
from .errors import RequestError, ServerError, redact

_PROBE: Final = [{"role": "user", "content": "Count from one to five in words."}]
_SAMPLING: Final = Sampling(max_new_tokens=16)


def _traits(identity: Identity) -> dict[str, Any]:
    return {
        "model": identity.model,
        "revision": identity.revision,
        "dtype": identity.details.get("model_dtype"),
    }


def agree(identities: Sequence[Identity]) -> None:
    """Check that all shards serve one model, in one revision and number format.

    Raises:
        ServerError: naming the shards that differ, and in what.
    """
    first = identities[0]
    if len(identities) > 1 and first.model == UNKNOWN:
        raise ServerError(
            f"{redact(first.url)} does not say what it serves, so {len(identities)} shards cannot be known "
            "to be one model; name it with --model-name"
        )
    mine = _traits(first)
    for other in identities[1:]:
        theirs = _traits(other)
        unlike = [name for name in mine if mine[name] != theirs[name]]
        if unlike:
            raise ServerError(
                "shards serve different models: "
                + "; ".join(f"{name} {mine[name]} at {redact(first.url)}, {theirs[name]} at "
                            f"{redact(other.url)}" for name in unlike)
            )  # fmt: skip


async def _answer(backend: Backend, url: str) -> str:
    """One small greedy request, so that a wrong token or address ends the run before it begins.

    Raises:
        ServerError: it fails in a way that will not pass, or five times.
    """
    for attempt in range(1, 6):
        try:
            return (await backend.complete(url, _PROBE, _SAMPLING, {})).text
        except RequestError as error:
            if error.kind == "empty":
                return ""
            final = not error.retryable or error.kind in {"not_json", "bad_shape"}
            if final or attempt == 5:
                raise ServerError(f"{redact(url)}: {redact(error.message)}") from error
            await asyncio.sleep(min(error.retry_after or attempt * 0.5, 10.0))
    raise AssertionError("unreachable")


class Admission:
    """The shards let in so far, in ``identities``; each with its answer to the probe in ``details``."""

    def __init__(self, backend: Backend, say: Callable[[str], None]) -> None:
        self.identities: list[Identity] = []
        self._backend = backend
        self._say = say

    async def _look(self, url: str) -> Identity:
        identity = await self._backend.identify(url)
        return identity._replace(url=redact(url))

    async def admit(self, *urls: str) -> None:
        """Let servers in, all or none.

        Raises:
            ServerError: one is unreachable, refuses the token, answers no JSON, or is another model.
        """
        found = await asyncio.gather(*(self._look(url) for url in urls))
        agree([*self.identities, *found])
        answers = await asyncio.gather(*(_answer(self._backend, url) for url in urls))
        found = [
            identity._replace(details={**identity.details, "probe": answer})
            for identity, answer in zip(found, answers, strict=True)
        ]
        mine = (self.identities or found)[0].details["probe"]
        for identity in found:
            if identity.details["probe"] != mine:
                self._say(
                    f"{identity.url}: answers the probe otherwise than the first shard although it reports "
                    "the same model; both answers stand in the manifest"
                )
        # A shard that left and came back stands once.
        new = {identity.url for identity in found}
        self.identities[:] = [identity for identity in self.identities if identity.url not in new] + found

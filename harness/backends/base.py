"""What every backend answers: one completion for one request, and who is serving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol


@dataclass(frozen=True)
class Sampling:
    """How text is drawn. Lengths in tokens; ``temperature`` 0 is greedy."""

    max_new_tokens: int = 512
    temperature: float = 0.0
    top_p: float | None = None
    seed: int | None = 0

    def payload(self) -> dict[str, Any]:
        """The fields of a chat-completions request."""
        fields: dict[str, Any] = {"max_tokens": self.max_new_tokens, "temperature": self.temperature}
        if self.top_p is not None:
            fields["top_p"] = self.top_p
        if self.seed is not None:
            fields["seed"] = self.seed
        return fields


class Completion(NamedTuple):
    """A model's answer. Token counts are None when the server gave none (which is not zero)."""

    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    model: str


# The model of a server that says nothing about itself.
UNKNOWN: Final = "unknown"


class Identity(NamedTuple):
    """Who answers at a URL. Shards of one model must agree in ``model`` and ``revision``."""

    url: str
    engine: str
    model: str
    revision: str | None
    details: dict[str, Any]


class Backend(Protocol):
    """A way to reach models. ``complete`` raises RequestError, ``identify`` ServerError."""

    async def identify(self, url: str) -> Identity:
        """Who is serving at ``url``."""

    async def complete(
        self, url: str, messages: list[dict[str, str]], sampling: Sampling, extra: dict[str, Any]
    ) -> Completion:
        """One answer; ``extra`` are further request fields such as ``response_format``."""

    async def close(self) -> None:
        """Give connections back."""

"""Errors that end a command with one clear line, and failures of single requests."""

from __future__ import annotations

import re
from typing import Final

_CREDENTIALS = re.compile(r"(https?://)[^/\s]*@", re.IGNORECASE)


class HarnessError(Exception):
    """Ends a command; the message is the one line a user sees. ``exit_code`` is never 0."""

    exit_code = 1


class SettingsError(HarnessError):
    """A wrong argument, or settings that differ from those a run folder was started with."""

    exit_code = 2


class ServerError(HarnessError):
    """A server cannot be used at all: unreachable, refuses the token, answers no JSON."""

    exit_code = 3


class StoreError(HarnessError):
    """A run folder is locked, damaged beyond a torn last line, or cannot be written."""

    exit_code = 4


def redact(text: str) -> str:
    """``text`` without user names and passwords in URLs."""
    return _CREDENTIALS.sub(r"\1", text)


# Failures worth another attempt; every other kind is final at once.
RETRYABLE: Final = frozenset(
    {
        "connect",
        "reset",
        "timeout",
        "rate_limited",
        "overloaded",
        "server_error",
        "not_json",
        "bad_shape",
        "empty",
    }
)


class RequestError(Exception):
    """One request failed.

    Attributes:
        kind: the type under which the failure is recorded (``timeout``, ``rate_limited`` …).
        status: HTTP status, if there was an answer.
        retry_after: seconds the server asked to wait, if it did.
    """

    def __init__(
        self, kind: str, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind in RETRYABLE

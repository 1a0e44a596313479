"""Removing a model's thinking before its answer is scored; both texts are kept."""

from __future__ import annotations

import re
from typing import NamedTuple

_BLOCK = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)


class Stripped(NamedTuple):
    """The answer without thinking; ``unfinished`` if the thinking was never closed."""

    text: str
    unfinished: bool


def strip(text: str) -> Stripped:
    """Remove thinking blocks.

    Some chat templates put the opening tag into the prompt, so a lone closing tag ends a block that
    began with the text.
    """
    body = _BLOCK.sub("", text)
    closed = list(_CLOSE.finditer(body))
    if closed:
        body = body[closed[-1].end() :]
    if opened := _OPEN.search(body):
        return Stripped(body[: opened.start()].strip(), True)
    return Stripped(body.strip(), False)

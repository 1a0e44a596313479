"""Reading a judge's verdict: a JSON object with a score in [0, 5], or unscored with a reason.

A reply that cannot be read is never turned into a number. One repair is tried on the text itself
(code fences, text around the object, single quotes); the caller may ask the judge once more.
"""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any, NamedTuple

LOW, HIGH = 0.0, 5.0
_OBJECT = re.compile(r"\{[^{}]*\}", re.DOTALL)


class Verdict(NamedTuple):
    """``score`` in [0, 5], or None with the reason in ``unscored``."""

    score: float | None
    reason: str
    unscored: str | None


def _unscored(why: str) -> Verdict:
    return Verdict(None, "", why)


def _from_object(value: Any) -> Verdict:
    if not isinstance(value, dict):
        return _unscored("parse_failure")
    score = value.get("score")
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return _unscored("no_score")
    if not math.isfinite(score) or not LOW <= score <= HIGH:
        return _unscored("out_of_range")
    return Verdict(float(score), str(value.get("reason") or "")[:2000], None)


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def parse(text: str) -> Verdict:
    """The verdict in a judge's reply.

    The last object counts when there are several: a judge that thinks aloud decides at the end.
    """
    try:
        return _from_object(json.loads(text))
    except json.JSONDecodeError:
        pass
    candidates = [value for part in _OBJECT.findall(text) if isinstance(value := _literal(part), dict)]
    with_score = [value for value in candidates if "score" in value]
    if not with_score:
        return _unscored("no_score" if candidates else "parse_failure")
    return _from_object(with_score[-1])

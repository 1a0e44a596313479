"""Verifiable constraints: small pure functions by name, applied to an answer.

They show planning fragmentation, memory collapse and format drift that n-gram overlap cannot; their
pass rate is reported beside S and never enters it. ``run`` answers one check, ``failures`` names all
that fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from .labels import MEMORY_CATEGORIES, NO_KEY_INFORMATION

_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)*\]]*(?=\s|$)")
# A title or "a.m." ends with a full stop that does not end a sentence.
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|vs|etc|e\.g|i\.e|a\.m|p\.m)\.$", re.IGNORECASE)
_PARENTHETICAL = re.compile(r"\([^()]{2,}\)|\*[^*]{2,}\*|（[^（）]{1,}）")
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_TIME = re.compile(r"\b([01]?\d|2[0-3]):([0-5]\d)\b")
_TIME_LINE = re.compile(r"^([01]\d|2[0-3]):([0-5]\d) \S")
_NUMBERED_LINE = re.compile(r"^(\d+)[.)] (?:[01]\d|2[0-3]):[0-5]\d\b")
_FIRST_PERSON = re.compile(r"\b(?:I|I['’](?:m|ve|d|ll)|me|my|mine|myself|we|us|our|ours)\b", re.IGNORECASE)
_SLEEP = re.compile(
    r"\b(?:sleep|asleep|bed|bedtime|lights (?:out|off)|turn in|doze|pillow|under the covers|good ?night"
    r"|rest for the night)\b",
    re.IGNORECASE,
)
MEMORY_LINE = re.compile(r"^(?P<content>[^|]+?) \| (?P<category>[^|]+?) \| (?P<importance>[012])$")


def words(text: str) -> list[str]:
    """Words of ``text`` in any script with spaces; digits count, punctuation does not."""
    return _WORD.findall(text)


def without_parentheticals(text: str) -> str:
    """``text`` without gestures in parentheses or asterisks."""
    return _PARENTHETICAL.sub(" ", text)


def sentences(text: str) -> int:
    """Number of sentences outside parentheticals; a tail without end mark counts as one."""
    body = without_parentheticals(text).strip()
    count, last = 0, 0
    for match in _SENTENCE_END.finditer(body):
        following = body[match.end() :].lstrip()
        if _ABBREVIATION.search(body[: match.start() + 1]):
            continue
        # An ellipsis that is followed by a small letter is a pause inside a sentence.
        if following and following[0].islower() and body[match.start()] in ".…" and match.group() != ".":
            continue
        if words(body[last : match.end()]):
            count += 1
        last = match.end()
    return count + bool(words(body[last:]))


def minutes(text: str) -> list[int]:
    """Every ``HH:MM`` in ``text`` as minutes after midnight, in order of appearance."""
    return [int(hour) * 60 + int(minute) for hour, minute in _TIME.findall(text)]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _leading_times(text: str) -> list[int]:
    found = (minutes(line) for line in _lines(text))
    return [times[0] for times in found if times]


def _contains(text: str, phrase: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase.casefold())}", text.casefold()) is not None


def _slot(value: Sequence[str]) -> tuple[int, int]:
    start, end = minutes(" ".join(value))
    return start, end if end > start else end + 24 * 60


def _in_slot(times: Iterable[int], slot: tuple[int, int]) -> bool:
    start, end = slot
    return all(start <= time <= end or start <= time + 24 * 60 <= end for time in times)


def _memory_lines(text: str, value: Sequence[str]) -> bool:
    if text.strip() == NO_KEY_INFORMATION:
        return True
    low, high = int(value[0]), int(value[1])
    matches = [MEMORY_LINE.match(line) for line in _lines(text)]
    return low <= len(matches) <= high and all(
        match is not None and match["category"] in MEMORY_CATEGORIES and len(words(match["content"])) <= 20
        for match in matches
    )


def _numbered_time_lines(text: str, value: Sequence[str]) -> bool:
    found = [_NUMBERED_LINE.match(line) for line in _lines(text)]
    low, high = int(value[0]), int(value[1])
    return low <= len(found) <= high and all(
        match is not None and int(match[1]) == number for number, match in enumerate(found, 1)
    )


def _chronological(text: str, value: Sequence[str]) -> bool:
    times = _leading_times(text)
    days = 0
    unrolled: list[int] = []
    for previous, time in zip([None, *times], times, strict=False):
        # One step over midnight is allowed: a night's slot may run 23:30, 00:15.
        if previous is not None and time <= previous:
            if previous < 18 * 60 or time >= 6 * 60:
                return False
            days += 1
        unrolled.append(time + days * 24 * 60)
    return bool(unrolled) and unrolled[-1] - unrolled[0] < 24 * 60


def _sleep_last_after(text: str, value: Sequence[str]) -> bool:
    lines = _lines(text)
    if not lines or not _SLEEP.search(lines[-1]):
        return False
    times = minutes(lines[-1])
    threshold = minutes(value[0])[0]
    return bool(times) and (times[0] >= threshold or times[0] < 4 * 60)


def _no_key_information(text: str, value: Sequence[str]) -> bool:
    return text.strip() == NO_KEY_INFORMATION


CHECKS: dict[str, Callable[[str, Sequence[str]], bool]] = {
    "max_sentences": lambda text, value: 1 <= sentences(text) <= int(value[0]),
    "max_words": lambda text, value: 1 <= len(words(text)) <= int(value[0]),
    "min_words": lambda text, value: len(words(text)) >= int(value[0]),
    "has_parenthetical": lambda text, value: _PARENTHETICAL.search(text) is not None,
    "one_paragraph": lambda text, value: len(_lines(text)) == 1,
    "first_person": lambda text, value: _FIRST_PERSON.search(text) is not None,
    "time_lines": lambda text, value: (
        bool(_lines(text)) and all(_TIME_LINE.match(line) for line in _lines(text))
    ),
    "numbered_time_lines": _numbered_time_lines,
    "max_activities": lambda text, value: 1 <= len(_lines(text)) <= int(value[0]),
    "max_asides": lambda text, value: len(_PARENTHETICAL.findall(text)) <= int(value[0]),
    "chronological": _chronological,
    "sleep_last_after": _sleep_last_after,
    "first_time_in_slot": lambda text, value: _in_slot(_leading_times(text)[:1] or [-1], _slot(value)),
    "times_in_slot": lambda text, value: _in_slot(_leading_times(text) or [-1], _slot(value)),
    "mentions_any": lambda text, value: any(_contains(text, phrase) for phrase in value),
    "mentions_all": lambda text, value: all(_contains(text, phrase) for phrase in value),
    "must_not_mention": lambda text, value: not any(_contains(text, phrase) for phrase in value),
    "memory_lines": _memory_lines,
    "no_key_information": _no_key_information,
}

_ARITY = {"max_sentences": 1, "max_words": 1, "min_words": 1, "max_activities": 1, "max_asides": 1,
          "memory_lines": 2, "numbered_time_lines": 2}  # fmt: skip
_PHRASES = {"mentions_any", "mentions_all", "must_not_mention"}


class Check(BaseModel):
    """One verifiable constraint. ``value``: its arguments as strings (a scalar is accepted)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: str
    value: tuple[str, ...] = ()

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in CHECKS:
            raise ValueError(f"unknown check {kind!r}; known: {', '.join(CHECKS)}")
        return kind

    @field_validator("value", mode="before")
    @classmethod
    def _strings(cls, value: Any) -> Any:
        if value is None:
            return ()
        if isinstance(value, (str, int)):
            return (str(value),)
        return tuple(str(item) if isinstance(item, int) else item for item in value)

    @model_validator(mode="after")
    def _arguments(self) -> Check:
        kind, value = self.kind, self.value
        if kind in _ARITY and (len(value) != _ARITY[kind] or not all(item.isdigit() for item in value)):
            raise ValueError(f"{kind} takes {_ARITY[kind]} whole number(s), got {list(value)}")
        if kind in _PHRASES and (not value or not all(item.strip() for item in value)):
            raise ValueError(f"{kind} takes at least one phrase")
        if kind in {"first_time_in_slot", "times_in_slot"} and len(minutes(" ".join(value))) != 2:
            raise ValueError(f"{kind} takes a slot HH:MM-HH:MM, got {list(value)}")
        if kind == "sleep_last_after" and len(minutes(" ".join(value))) != 1:
            raise ValueError(f"sleep_last_after takes one HH:MM, got {list(value)}")
        return self


def run(check: Check, answer: str) -> bool:
    """Whether ``answer`` meets ``check``."""
    return CHECKS[check.kind](answer, check.value)


def failures(checks: Iterable[Check], answer: str) -> list[Check]:
    """The checks that ``answer`` does not meet, in order."""
    return [check for check in checks if not run(check, answer)]

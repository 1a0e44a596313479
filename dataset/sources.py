"""Reading the authored files: every problem is reported as ``file:line: field: what``, all at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from .catalog import CONFIGS
from .checks import Check, failures
from .records import Authored, Pair, Persona

Model = TypeVar("Model", bound=BaseModel)

# Identifiers of real people must not be in the data (PROTOCOL section 7).
PII: dict[str, re.Pattern[str]] = {
    "e-mail address": re.compile(r"[\w.+-]+@[\w-]+\.[A-Za-z]{2,}"),
    "web address": re.compile(r"\b(?:https?://|www\.)\S+", re.IGNORECASE),
    "phone number": re.compile(
        r"(?<![\d:.+])(?:\+\d[\d ()/-]{7,}\d|(?!(?:1[5-9]|20)\d\d ?[-/] ?(?:1[5-9]|20)\d\d\b)"
        r"\d{2,5}[ ()/-]\d[\d ()/-]{4,}\d)(?![\d:])"
    ),
    "street address": re.compile(
        r"\b\d{1,4}\s+(?:[A-Z][a-z]+\s){1,3}(?:Street|St|Road|Rd|Avenue|Ave|Lane|Drive|Boulevard|Blvd)\b"
    ),
    "card or account number": re.compile(r"\b(?:\d[ -]?){13,19}\b|\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b"),
}


class SourceError(ValueError):
    """Authored files are wrong. ``problems``: one clear line each, with file, line and field."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        shown = problems[:20]
        more = [f"… and {len(problems) - 20} more"] if len(problems) > 20 else []
        super().__init__("\n".join(shown + more))


@dataclass
class Sources:
    """Everything that was authored, joined by key; scenarios in file order."""

    personas: dict[str, Persona] = field(default_factory=dict)
    pairs: dict[str, Pair] = field(default_factory=dict)
    scenarios: dict[str, list[Authored]] = field(default_factory=dict)

    def all(self) -> Iterator[Authored]:
        """Every scenario, config by config."""
        for records in self.scenarios.values():
            yield from records


def all_checks(record: Authored) -> list[Check]:
    """The config's contract followed by the record's own checks."""
    return [*CONFIGS[record.config].contract, *record.checks]


def input_texts(record: Authored) -> list[str]:
    """Every authored text of the record that a model sees or is scored against."""
    texts = [turn.content for turn in record.history]
    texts += [*record.memories, *record.hobbies, *record.today_schedule]
    texts += [text for text in (record.current_activity, record.day_overview, record.user_comment) if text]
    return texts


def pii(text: str) -> list[str]:
    """Kinds of personal identifiers found in ``text``."""
    return [kind for kind, pattern in PII.items() if pattern.search(text)]


def explain(error: ValidationError) -> Iterator[str]:
    """``field: what is wrong`` for every fault of a record."""
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"]) or "record"
        yield f"{where}: {item['msg'].removeprefix('Value error, ')}"


def read_lines(path: Path, model: type[Model], problems: list[str]) -> Iterator[tuple[int, Model]]:
    """Records of a JSONL file with their line numbers; what is wrong goes to ``problems``."""
    if not path.is_file():
        problems.append(f"{path}: file not found")
        return
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        problems.append(f"{path}: not UTF-8 at byte {error.start}")
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
        except json.JSONDecodeError as error:
            problems.append(f"{path}:{number}: not JSON: {error.msg} at column {error.colno}")
            continue
        try:
            yield number, model.model_validate(value)
        except ValidationError as error:
            identity = value.get("id") if isinstance(value, dict) else None
            name = f" ({identity})" if isinstance(identity, str) else ""
            problems += [f"{path}:{number}{name}: {text}" for text in explain(error)]


def _unique(
    path: Path, records: Iterator[tuple[int, Model]], key: str, problems: list[str]
) -> dict[str, Model]:
    found: dict[str, Model] = {}
    lines: dict[str, int] = {}
    for number, record in records:
        value = str(getattr(record, key))
        if value in found:
            problems.append(f"{path}:{number}: {key}: duplicate {value!r}, first on line {lines[value]}")
        else:
            found[value], lines[value] = record, number
    return found


def record_problems(record: Authored) -> list[str]:
    """What is wrong with a well-formed record: checks its own reference breaks, identifiers."""
    problems = [
        f"reference: breaks its own check {check.kind} {list(check.value)}"
        for check in failures(all_checks(record), record.reference)
    ]
    for text in [*input_texts(record), record.reference]:
        problems += [f"text holds a {kind}" for kind in pii(text)]
    return problems


def read(folder: Path) -> Sources:
    """Read ``personas.jsonl``, ``pairs.jsonl`` and ``scenarios/*.jsonl`` below ``folder``.

    Raises:
        SourceError: with every problem found, each naming file, line and field.
    """
    problems: list[str] = []
    sources = Sources()
    path = folder / "personas.jsonl"
    sources.personas = _unique(path, read_lines(path, Persona, problems), "persona_id", problems)
    path = folder / "pairs.jsonl"
    sources.pairs = _unique(path, read_lines(path, Pair, problems), "cluster", problems)
    problems += [
        f"{path}: {pair.cluster}: persona_id: no persona {pair.persona_id!r} in personas.jsonl"
        for pair in sources.pairs.values()
        if pair.persona_id not in sources.personas
    ]
    known = {f"{name}.jsonl" for name in CONFIGS}
    problems += [
        f"{extra}: unknown config; known: {', '.join(CONFIGS)}"
        for extra in sorted((folder / "scenarios").glob("*.jsonl"))
        if extra.name not in known
    ]
    for config in CONFIGS:
        path = folder / "scenarios" / f"{config}.jsonl"
        numbered = list(read_lines(path, Authored, problems))
        for number, record in numbered:
            where = f"{path}:{number} ({record.id})"
            if record.config != config:
                problems.append(f"{where}: id: belongs to {record.config}, not to {config}")
            if record.cluster not in sources.pairs:
                problems.append(f"{where}: cluster: no pair {record.cluster!r} in pairs.jsonl")
            problems += [f"{where}: {text}" for text in record_problems(record)]
        records = _unique(path, iter(numbered), "id", problems)
        sources.scenarios[config] = list(records.values())
    if problems:
        raise SourceError(problems)
    return sources

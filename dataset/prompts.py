"""Rendering a scenario into the messages that a model gets.

The wording lives in ``dataset_card/prompts/<Config>.md``: a ``## system`` part and, for tasks that are
not dialogues, a ``## user`` part. ``{field}`` is replaced; a field the task does not have is an error.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from .catalog import CONFIGS
from .labels import MEMORY_CATEGORIES, NO_KEY_INFORMATION
from .records import Authored, Message, Pair, Persona, Turn

OPENING = "(comes online)"

_FIELD = re.compile(r"\{([a-z_]+)\}")
_PART = re.compile(r"^## (system|user)\s*$", re.MULTILINE)


class PromptError(ValueError):
    """A prompt file is missing, has an unknown part or names an unknown field."""


@dataclass(frozen=True)
class Prompts:
    """The prompt texts of a folder. ``version``: a digest that changes when any of them does."""

    parts: dict[str, dict[str, str]]
    persona: str
    pair: str
    version: str


def _fill(template: str, fields: dict[str, str], where: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            raise PromptError(f"{where}: unknown field {{{match[1]}}}; known: {', '.join(sorted(fields))}")
        return fields[match[1]]

    return _FIELD.sub(value, template).strip()


def load(folder: Path) -> Prompts:
    """Read every prompt file of ``folder``.

    Raises:
        PromptError: naming the file that is missing or malformed.
    """
    digest = hashlib.sha256()
    texts: dict[str, str] = {}
    for name in ("_persona", "_pair", *CONFIGS):
        path = folder / f"{name}.md"
        if not path.is_file():
            raise PromptError(f"{path}: prompt file not found")
        texts[name] = path.read_text(encoding="utf-8")
        digest.update(f"{name}\0{texts[name]}\0".encode())
    parts: dict[str, dict[str, str]] = {}
    for config in CONFIGS:
        pieces = _PART.split(texts[config])
        parts[config] = {role: body.strip() for role, body in zip(pieces[1::2], pieces[2::2], strict=True)}
        dialogue = config.startswith("Dialogue")
        expected = {"system"} if dialogue else {"system", "user"}
        if set(parts[config]) != expected:
            raise PromptError(f"{folder / config}.md: needs the parts {sorted(expected)}")
    return Prompts(parts, texts["_persona"], texts["_pair"], digest.hexdigest()[:12])


def _bullets(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _fields(prompts: Prompts, record: Authored, persona: Persona, pair: Pair) -> dict[str, str]:
    user = pair.user
    common = {"name": persona.name, "user_name": user.name}
    card = _fill(
        prompts.persona,
        common
        | {
            "pronouns": persona.pronouns,
            "age": str(persona.age),
            "culture": persona.culture.rstrip("."),
            "profession": persona.profession,
            "temper": persona.temper.rstrip("."),
            "story": persona.story,
            "likes": ", ".join(persona.likes),
            "skills": ", ".join(persona.skills),
            "fears": persona.fears,
            "rhythm": persona.rhythm,
            "voice": persona.voice,
            "sample_lines": " / ".join(persona.sample_lines),
            "limits": persona.limits,
        },
        "_persona.md",
    )
    bond = _fill(
        prompts.pair,
        common | {"user_profile": user.profile, "relation": pair.relation.rstrip("."), "bond": pair.bond},
        "_pair.md",
    )
    speakers = {"user": user.name, "assistant": persona.name}
    return common | {
        "persona": card,
        "pair": bond,
        "transcript": "\n".join(f"{speakers[turn.role]}: {turn.content}" for turn in record.history),
        "memory": record.memories[0] if record.memories else "",
        "memories": _bullets(record.memories),
        "hobbies": _bullets(record.hobbies),
        "today_schedule": "\n".join(record.today_schedule),
        "current_activity": record.current_activity or "",
        "day_overview": record.day_overview or "",
        "user_comment": record.user_comment or "",
        "categories": ", ".join(MEMORY_CATEGORIES),
        "no_key_information": NO_KEY_INFORMATION,
    }


def _alternating(history: list[Turn]) -> list[Message]:
    """The history as strictly alternating messages that begin with the user.

    Many chat templates refuse anything else, so turns of one speaker are joined and a dialogue that the
    companion opened is preceded by a user message that only says the user is there.
    """
    messages: list[Message] = []
    for turn in history:
        if messages and messages[-1].role == turn.role:
            joined = f"{messages[-1].content}\n{turn.content}"
            messages[-1] = Message(role=turn.role, content=joined)
        else:
            messages.append(Message(role=turn.role, content=turn.content))
    if messages[0].role == "assistant":
        messages.insert(0, Message(role="user", content=OPENING))
    return messages


def render(prompts: Prompts, record: Authored, persona: Persona, pair: Pair) -> list[Message]:
    """Messages of a scenario: the system message, then the history or the task's input."""
    fields = _fields(prompts, record, persona, pair)
    parts = prompts.parts[record.config]
    messages = [Message(role="system", content=_fill(parts["system"], fields, f"{record.config}.md"))]
    if "user" in parts:
        content = _fill(parts["user"], fields, f"{record.config}.md")
        return [*messages, Message(role="user", content=content)]
    return messages + _alternating(record.history)

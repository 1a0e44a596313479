"""The Secure Attachment Persona: five principles put before a persona, each switchable on its own.

The texts are the ``.md`` files beside this one; a digest of those in use goes into the manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

PRINCIPLES: Final = (
    "secure_base",
    "positive_ratio",
    "self_regulation",
    "autonomy_support",
    "principled_negotiation",
)
_FOLDER = Path(__file__).parent


class Module(NamedTuple):
    """The composed text, its principles in order, and a digest of both."""

    text: str
    principles: tuple[str, ...]
    digest: str


def compose(principles: Sequence[str] = PRINCIPLES) -> Module:
    """The module's text for the given principles, in their canonical order.

    Raises:
        ValueError: for an unknown principle, naming the known ones, or for none at all.
    """
    unknown = [name for name in principles if name not in PRINCIPLES]
    if unknown:
        raise ValueError(f"unknown SAP principle {', '.join(unknown)}; known: {', '.join(PRINCIPLES)}")
    chosen = tuple(name for name in PRINCIPLES if name in principles)
    if not chosen:
        raise ValueError("SAP needs at least one principle; use --no-sap for none")
    parts = [(_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip() for name in ("_frame", *chosen)]
    text = "\n\n".join(parts)
    return Module(text, chosen, hashlib.sha256(text.encode()).hexdigest()[:12])


def apply(module: Module | None, messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """``messages`` with the module before the system text; unchanged without a module."""
    if module is None:
        return messages
    first, *rest = messages
    if first["role"] != "system":
        return [{"role": "system", "content": module.text}, *messages]
    return [{"role": "system", "content": f"{module.text}\n\n{first['content']}"}, *rest]

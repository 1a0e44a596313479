"""From authored records to the rows of the built dataset, with their fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import prompts as prompt_files
from .catalog import CONFIGS
from .records import Authored, Scenario
from .sources import SourceError, Sources, all_checks, read

LANGUAGE = "en"


def canary(card: Path) -> str:
    """The canary sentence of the release, one line, which every row carries."""
    path = card / "CANARY"
    if not path.is_file():
        raise SourceError([f"{path}: file not found"])
    return path.read_text(encoding="utf-8").strip()


def scenario(sources: Sources, prompts: prompt_files.Prompts, mark: str, record: Authored) -> Scenario:
    """The full record: authored fields joined with its pair, its messages and its contract."""
    pair = sources.pairs[record.cluster]
    persona = sources.personas[pair.persona_id]
    return Scenario(
        **{name: getattr(record, name) for name in Authored.model_fields if name != "checks"},
        config=record.config,
        dimension=CONFIGS[record.config].dimension,
        language=LANGUAGE,
        persona_id=pair.persona_id,
        user=pair.user,
        messages=prompt_files.render(prompts, record, persona, pair),
        checks=all_checks(record),
        prompt_version=prompts.version,
        canary=mark,
    )


def rows(card: Path, sources: Sources | None = None) -> dict[str, list[dict[str, Any]]]:
    """Every row of the dataset by config, as plain JSON values.

    Raises:
        SourceError, PromptError: see ``sources.read`` and ``prompts.load``.
    """
    sources = sources or read(card)
    prompts = prompt_files.load(card / "prompts")
    mark = canary(card)
    return {
        config: [
            scenario(sources, prompts, mark, record).model_dump(mode="json")
            for record in sources.scenarios[config]
        ]
        for config in CONFIGS
    }


def digest(config_rows: list[dict[str, Any]]) -> str:
    """SHA-256 over the rows as canonical JSON; independent of file formats and library versions."""
    state = hashlib.sha256()
    for row in config_rows:
        state.update(json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode())
        state.update(b"\n")
    return state.hexdigest()


def fingerprint(digests: dict[str, str]) -> str:
    """One fingerprint (16 hex digits) for the whole dataset from its configs' digests."""
    joined = "".join(f"{name}:{digests[name]}\n" for name in CONFIGS)
    return hashlib.sha256(joined.encode()).hexdigest()[:16]


def source_digest(card: Path) -> str:
    """Digest of every source file below ``card``, used to tell that a cache is stale."""
    state = hashlib.sha256()
    for path in _source_files(card):
        state.update(f"{path.relative_to(card).as_posix()}\0".encode())
        state.update(hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def _source_files(card: Path) -> Iterator[Path]:
    for pattern in ("*.jsonl", "CANARY", "README.md", "scenarios/*.jsonl", "prompts/*.md"):
        yield from sorted(card.glob(pattern))

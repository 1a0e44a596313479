"""Parts of one run, made by several processes with ``--part i/n``, joined into one run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .data import parse_part
from .errors import SettingsError
from .score import run_manifest
from .store import (
    ERRORS,
    GENERATIONS,
    JUDGE_MANIFEST,
    JUDGMENTS,
    MANIFEST,
    RunFolder,
    differences,
    read_json,
    read_rows,
    write_json,
)


def _settings(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest["settings"], "part": None}


def _same(folders: Sequence[Path], settings: Sequence[dict[str, Any]], what: str) -> None:
    for folder, other in zip(folders[1:], settings[1:], strict=True):
        changed = differences(settings[0], other)
        if changed:
            raise SettingsError(f"{folder}: {what} differs from {folders[0]}: {'; '.join(changed)}")


def _joined(manifests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sessions = [session for manifest in manifests for session in manifest["sessions"]]
    return {**manifests[0], "settings": _settings(manifests[0]), "sessions": sessions}


def merge(parts: Sequence[Path], out: Path) -> tuple[int, list[str]]:
    """Join run folders into ``out``; the number of answers, and the parts that were not given.

    A scenario that stands in two parts is taken from the first. Merging again with more parts adds theirs.

    Raises:
        StoreError: not a run folder. SettingsError: parts of different runs, or ``out`` is one of them.
    """
    if out.resolve() in {part.resolve() for part in parts}:
        raise SettingsError(f"{out}: is one of the parts; give another --out")
    manifests = [run_manifest(part) for part in parts]
    _same(parts, [_settings(manifest) for manifest in manifests], "the run")
    shares = [parse_part(manifest["settings"].get("part")) for manifest in manifests]
    of = {share.count for share in shares if share}
    if len(of) > 1 or (of and None in shares):
        raise SettingsError(f"parts of different divisions: {', '.join(str(share) for share in shares)}")
    numbers = {share.number for share in shares if share}
    missing = [f"{i}/{n}" for n in of for i in range(1, n + 1) if i not in numbers]
    judges = [(part, read_json(part / JUDGE_MANIFEST)) for part in parts]
    judged = [(part, manifest) for part, manifest in judges if manifest is not None]
    _same([part for part, _ in judged], [manifest["settings"] for _, manifest in judged], "the judge")
    with RunFolder(out) as folder:
        joined = _joined(manifests)
        folder.settle(MANIFEST, joined)
        write_json(out / MANIFEST, joined)
        if judged:
            verdicts = {**judged[0][1], "sessions": [s for _, m in judged for s in m["sessions"]]}
            folder.settle(JUDGE_MANIFEST, verdicts)
            write_json(out / JUDGE_MANIFEST, verdicts)
        answered, verdicts_of = folder.done(GENERATIONS), folder.done(JUDGMENTS)
        for part in parts:
            # A verdict is on one answer: it is taken only from where the answer is taken.
            taken = set()
            for row in read_rows(part / GENERATIONS):
                if row["id"] not in answered:
                    answered.add(row["id"])
                    taken.add(row["id"])
                    folder.append(GENERATIONS, row)
            for row in read_rows(part / JUDGMENTS):
                if row["id"] in taken and row["id"] not in verdicts_of:
                    verdicts_of.add(row["id"])
                    folder.append(JUDGMENTS, row)
        known = {(row["role"], row["id"], row["at"]) for row in read_rows(out / ERRORS)}
        for part in parts:
            for row in read_rows(part / ERRORS):
                if (row["role"], row["id"], row["at"]) not in known:
                    folder.append(ERRORS, row)
        return len(folder.done(GENERATIONS)), missing

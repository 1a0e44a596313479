"""The check that a results dataset's CI runs on a pull request: every file in it, before anybody looks.

Shape of the folders, sizes, schema, duplicates, and recomputation from the evidence. One clear line for each
file that is rejected; nothing from a rejected file is repeated beyond a short, escaped excerpt.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from .data import Dataset
from .errors import HarnessError
from .verify import RejectedError, read, verify

MAX_JSON: Final = 2 << 20
MAX_PARQUET: Final = 64 << 20
_ALLOWED: Final = {".json": MAX_JSON, ".parquet": MAX_PARQUET}
# Files of the repository itself.
_OTHER: Final = frozenset({"README.md", ".gitattributes", "leaderboard.parquet"})


def _shown(path: Path, root: Path) -> str:
    name = path.relative_to(root).as_posix()
    return name.encode("ascii", "backslashreplace").decode()[:200]


def result_files(root: Path) -> list[Path]:
    """All result files below ``root``, in order."""
    return sorted((root / "results").rglob("*.json"))


def stray(root: Path, paths: Sequence[Path], own: frozenset[str] = _OTHER) -> Iterator[str]:
    """Files that have no business in a results dataset: links, wrong kinds, wrong places, too large.

    Args:
        own: files of the repository itself that may stand there; none in a pull request.
    """
    for path in paths:
        name = _shown(path, root)
        inside = path.relative_to(root)
        if path.is_symlink() or not path.is_file():
            yield f"{name}: not a plain file"
        elif inside.as_posix() in own:
            continue
        elif inside.parts[0] != "results" or len(inside.parts) != 5 or path.suffix not in _ALLOWED:
            yield f"{name}: not at results/<org>__<model>/<revision>/<signature>/<time>.json or .parquet"
        elif path.stat().st_size > _ALLOWED[path.suffix]:
            yield f"{name}: larger than {_ALLOWED[path.suffix] >> 20} MB"
        elif path.suffix == ".parquet" and not path.with_suffix(".json").is_file():
            yield f"{name}: evidence without its result"


def _all_files(root: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(root):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        found += [Path(folder, name) for name in (*names, *links)]
    return sorted(path for path in found if ".git" not in path.relative_to(root).parts[:1])


def check(
    root: Path, dataset: Dataset, changed: Sequence[Path] | None = None, *, embedder: Any = None
) -> list[str]:
    """What is wrong with a results folder, one line each; none if all of it may be merged.

    Args:
        root: the repository's folder. changed: only these files are judged (a pull request's), against
            duplicates among all.

    A judge that the maintainers do not know is no fault: its results are ranked apart.
    """
    root = root.absolute()
    judged = _all_files(root) if changed is None else sorted(path.absolute() for path in changed)
    outside = [path for path in judged if ".." in path.parts or not path.is_relative_to(root)]
    if outside:
        return [f"{str(outside[0])[:200]!r}: is outside the repository"]
    found = list(stray(root, judged, _OTHER if changed is None else frozenset()))
    bad = {line.split(": ", 1)[0] for line in found}
    seen: dict[tuple[str, str], str] = {}
    for path in result_files(root):
        name = _shown(path, root)
        mine = path in judged or path.with_suffix(".parquet") in judged
        if name in bad or path.stat().st_size > MAX_JSON:
            continue
        try:
            published = read(path)
        except HarnessError as error:
            if mine:
                found.append(_line(name, path, error))
            continue
        if path.relative_to(root).as_posix() != published.path.as_posix():
            if mine:
                found.append(f"{name}: belongs at {published.path}")
            continue
        # The same answers under another time are the same submission.
        key = (published.model_id, published.evidence.sha256 if published.evidence else name)
        if key in seen and mine:
            found.append(f"{name}: the same answers as {seen[key]}")
            continue
        seen.setdefault(key, name)
        if mine:
            try:
                verify(path, dataset, embedder=embedder)
            except RejectedError as error:
                found.append(_line(name, path, error))
            except (ValueError, TypeError, ArithmeticError) as error:
                # What the metric itself refuses, such as a verdict above 5 or an answer that is no text.
                found.append(_line(name, path, RejectedError(str(error))))
    return found


def _line(name: str, path: Path, error: HarnessError) -> str:
    text = str(error).replace(f"{path}: ", "", 1).replace(str(path.parent), "")
    return f"{name}: {text.encode('ascii', 'backslashreplace').decode()[:300]}"

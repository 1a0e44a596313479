"""Where a result came from: versions, commit, machine."""

from __future__ import annotations

import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = (
    "h2htalk-bench", "aiohttp", "openai", "pyarrow", "sacrebleu", "rouge-score", "rapidfuzz",
    "sentence-transformers", "transformers", "torch",
)  # fmt: skip


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def version(package: str = "h2htalk-bench") -> str | None:
    """An installed package's version, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def environment() -> dict[str, Any]:
    """Python, packages, and the commit of the harness with whether it was changed since."""
    status = _git("status", "--porcelain", "--untracked-files=no")
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: found for name in _PACKAGES if (found := version(name))},
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
    }

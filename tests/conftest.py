"""Fixtures shared by all tests: a private home, the built dataset, small authored cards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Read once, when the Hugging Face libraries are imported: nothing may reach the user's caches or a network.
_HOME = Path(tempfile.mkdtemp(prefix="h2htalk-tests-"))
os.environ |= {
    "HF_HOME": str(_HOME / "hf"),
    "HF_HUB_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}
os.environ.setdefault("H2HTALK_CACHE", str(Path.home() / ".cache" / "h2htalk"))

import pytest  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
CARD = ROOT / "dataset_card"


@pytest.fixture(scope="session", autouse=True)
def _private_home() -> Iterator[None]:
    yield
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset as `h2htalk build` writes it, without the caches."""
    from h2htalk_data.build import build_dataset

    folder = tmp_path_factory.mktemp("built") / "h2htalk"
    build_dataset(CARD, folder)
    return folder


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A copy of the shipped card that a test may damage."""
    return Path(shutil.copytree(CARD, tmp_path / "dataset_card"))


@pytest.fixture
def edit_line(card: Path) -> Callable[[str, int, Callable[[dict[str, Any]], None]], Path]:
    """Change one record of a JSONL file of the copied card, by line number from 1."""

    def edit(name: str, number: int, change: Callable[[dict[str, Any]], None]) -> Path:
        path = card / name
        lines = path.read_text(encoding="utf-8").split("\n")
        record = json.loads(lines[number - 1])
        change(record)
        lines[number - 1] = json.dumps(record, ensure_ascii=False)
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return edit


def run_cli(*arguments: str | Path, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    """`h2htalk` as a child process."""
    return subprocess.run(
        [sys.executable, "-m", "h2htalk_harness.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


def run_python(code: str, *, cwd: Path, env: dict[str, str] | None = None, timeout: float = 120) -> str:
    """Standard output of a Python child process; its error text when it fails."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

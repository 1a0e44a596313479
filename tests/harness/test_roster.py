"""Shards that come and go while a run is going on, by folder and by file; who may join."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from h2htalk_harness import roster
from h2htalk_harness.errors import SettingsError
from h2htalk_harness.store import read_rows

from ..conftest import run_cli
from ..servers import ChatServer


def start(built: Path, shards: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "h2htalk_harness.cli", "run", "--model", f"shards:{shards}", "--dataset",
               str(built), "--out", str(out), "--no-score", "--concurrency", "2", *options]  # fmt: skip
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def session(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "manifest.json").read_text())["sessions"][0]
    return found


def test_shards_register_join_and_leave_during_a_run(built: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "shards", tmp_path / "run"
    folder.mkdir()
    with (
        ChatServer(delay=0.05) as one,
        ChatServer(delay=0.01) as two,
        ChatServer(info={"model_id": "other/model", "model_sha": "abc123"}) as stranger,
    ):
        run = start(built, folder, out, "--configs", "DialogueBase")
        time.sleep(1.0)
        assert run.poll() is None, "a run must wait for its first shard"
        (folder / "one.url").write_text(one.url)
        until(lambda: one.requests > 10)
        (folder / "two.url").write_text(f"{two.url}/\n")
        (folder / "three.url").write_text(stranger.url)
        until(lambda: two.requests > 10)
        (folder / "one.url").unlink()
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
        assert stranger.requests == 0
    assert f"{two.url}: has joined" in errors and f"{one.url}: has left" in errors
    assert errors.count("shards serve different models") == 1
    found = session(out)
    assert [shard["state"] for shard in found["pool"]] == ["left", "up"]
    assert [shard["url"] for shard in found["shards"]] == [one.url, two.url]
    assert found["shards"][0]["details"]["probe"] == found["shards"][1]["details"]["probe"]
    rows = [row["id"] for row in read_rows(out / "generations.jsonl")]
    assert len(rows) == len(set(rows)) == sum(shard["done"] for shard in found["pool"])


def test_a_file_of_urls_is_followed_and_a_bad_edit_changes_nothing(built: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "shards.txt", tmp_path / "run"
    with ChatServer(delay=0.05) as one, ChatServer(delay=0.05) as two:
        path.write_text(f"# first\n{one.url}\n")
        run = start(built, path, out)
        until(lambda: one.requests > 5)
        path.write_text("not a url\n")
        until(lambda: one.requests > 100)
        path.write_text(f"{one.url}/v1\n{two.url}  # second\n")
        until(lambda: two.requests > 5)
        run.kill()
        assert run.stderr is not None
        errors = run.stderr.read()
        run.wait()
    assert "'not a url' is not a URL; the shards stay as they are" in errors
    assert f"{two.url}: has joined" in errors


def test_shards_that_answer_the_probe_differently_are_named(built: Path, tmp_path: Path) -> None:
    with ChatServer() as one, ChatServer(lambda messages: "something else") as two:
        done = run_cli("run", "--model", f"{one.url},{two.url}", "--dataset", built, "--sample", "1", "--no-score",
                       "--out", tmp_path / "run")  # fmt: skip
    assert done.returncode == 0
    assert f"{two.url}: answers the probe otherwise than the first shard" in done.stderr
    answers = {shard["details"]["probe"] for shard in session(tmp_path / "run")["shards"]}
    assert len(answers) == 2 and "something else" in answers


def test_shards_of_another_number_format_are_refused(built: Path, tmp_path: Path) -> None:
    same = {"model_id": "test/model", "model_sha": "abc123"}
    with (
        ChatServer(info={**same, "model_dtype": "float16"}) as one,
        ChatServer(info={**same, "model_dtype": "bfloat16"}) as two,
    ):
        done = run_cli(
            "run", "--model", f"{one.url},{two.url}", "--dataset", built, "--out", tmp_path / "run"
        )
    assert done.returncode == 3
    assert f"dtype float16 at {one.url}, bfloat16 at {two.url}" in done.stderr


@pytest.mark.parametrize(
    ("models", "engine", "details"),
    [
        ([{"id": "m", "owned_by": "vllm", "max_model_len": 4096}], "vllm", {"max_model_len": 4096}),
        ([{"id": "m", "owned_by": "sglang"}], "sglang", {}),
        ([{"id": "m", "owned_by": "somebody"}], "messages", {}),
    ],
)
def test_engines_are_told_apart_without_info(
    built: Path, tmp_path: Path, models: list[dict[str, Any]], engine: str, details: dict[str, Any]
) -> None:
    with ChatServer(info={}) as server:
        server.models = models
        done = run_cli("run", "--model", server.url, "--dataset", built, "--sample", "1", "--configs",
                       "DialogueBase", "--no-score", "--out", tmp_path / "run")  # fmt: skip
        assert not server.problems
    assert done.returncode == 0, done.stderr
    (shard,) = session(tmp_path / "run")["shards"]
    assert (shard["engine"], shard["model"]) == (engine, "m")
    assert {name: value for name, value in shard["details"].items() if name != "probe"} == details


def test_a_folder_is_read_while_it_changes(tmp_path: Path) -> None:
    (tmp_path / "half.url.new").write_text("http://half")
    (tmp_path / "empty.url").write_text("")
    (tmp_path / "a.url").write_text("http://node1:80/v1\n")
    assert roster.read(tmp_path) == ["http://node1:80"]
    stop = threading.Event()

    def flicker() -> None:
        while not stop.is_set():
            (tmp_path / "b.url").write_text("http://node2:80")
            (tmp_path / "b.url").unlink()

    thread = threading.Thread(target=flicker)
    thread.start()
    try:
        seen = [roster.read(tmp_path) for _ in range(300)]
    finally:
        stop.set()
        thread.join()
    assert all(urls[0] == "http://node1:80" and len(urls) <= 2 for urls in seen)
    (tmp_path / "list").write_text("http://a\nftp://b\n")
    with pytest.raises(SettingsError, match="'ftp://b' is not a URL"):
        roster.read(tmp_path / "list")

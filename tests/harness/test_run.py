"""Generating: real servers over HTTP, killed processes, faults; every scenario exactly once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from h2htalk_harness.store import read_rows

from ..conftest import run_cli
from ..servers import ChatServer, default_answer

LEXICAL = ("--embedder", "none")


def ids(path: Path) -> list[str]:
    return [row["id"] for row in read_rows(path)]


def all_ids(built: Path) -> set[str]:
    from h2htalk_data import table

    manifest = json.loads((built / "fingerprint.json").read_text())
    return {row["id"] for config in manifest["configs"].values()
            for row in table.read(built / config["file"], ["id"])}  # fmt: skip


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_whole_run_over_two_shards_is_judged_scored_and_reported(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with ChatServer() as one, ChatServer() as two:
        done = run_cli("run", "--model", f"{one.url},{two.url}", "--judge", one.url, "--dataset", built,
                       "--out", out, *LEXICAL)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not one.problems and not two.problems
        assert one.requests > 10 and two.requests > 10
    assert set(ids(out / "generations.jsonl")) == all_ids(built)
    assert len(ids(out / "generations.jsonl")) == len(all_ids(built))
    found = results(out)
    assert (
        found["dataset"]["fingerprint"] == json.loads((built / "fingerprint.json").read_text())["fingerprint"]
    )
    assert found["model"] == {"model": "test/model", "revision": "abc123", "embedded": False}
    assert "judge:test/model@abc123" in found["judge"]["signature"]
    for config, cell in found["scores"]["configs"].items():
        assert cell["coverage"] == 1.0, config
        judged = config in {"ItineraryBasic", "ItineraryMiddle", "ItineraryAdvanced"}
        assert cell["n_judged"] == (cell["n"] if judged else 0)
    assert "not comparable" in done.stdout.lower()
    page = (out / "report.html").read_text()
    assert "http://" not in page.replace("http://127.0.0.1", "") and "https://" not in page
    for config in found["scores"]["configs"]:
        assert config in page and config in done.stdout


def test_killed_at_any_point_and_started_again_equals_an_unbroken_run(built: Path, tmp_path: Path) -> None:
    with ChatServer(delay=0.02) as server:
        common = ["--model", server.url, "--judge", server.url, "--dataset", str(built), "--concurrency", "8"]
        whole = tmp_path / "whole"
        assert run_cli("run", *common, "--out", whole, *LEXICAL).returncode == 0
        broken = tmp_path / "broken"
        command = [
            sys.executable,
            "-m",
            "h2htalk_harness.cli",
            "run",
            *common,
            "--out",
            str(broken),
            *LEXICAL,
        ]
        kills = 0
        before = server.requests
        for wait_for in sorted(random.Random(5).sample(range(1, 1600), 10)):
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while child.poll() is None and server.requests - before < wait_for:
                time.sleep(0.002)
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
                kills += 1
            child.wait()
        assert kills == 10
        # What a kill in the middle of a write leaves behind.
        with (broken / "generations.jsonl").open("ab") as file:
            file.write(b'{"id": "DialogueBase-00')
        assert run_cli("run", *common, "--out", broken, *LEXICAL).returncode == 0
        total = len(all_ids(built))
        judged = sum(1 for _ in read_rows(broken / "judgments.jsonl"))
        repeated = server.requests - before - total - judged
        assert repeated <= (kills + 1) * (8 + 1) + 1, "more than the window in flight was asked again"
    for name in ("generations.jsonl", "judgments.jsonl"):
        assert sorted(ids(broken / name)) == sorted(ids(whole / name))
        assert len(set(ids(broken / name))) == len(ids(broken / name))
    assert results(broken) == results(whole)


def deal(status: int, body: str = "", **headers: str) -> Callable[..., Any]:
    async def fault(request: web.Request, sent: dict[str, Any], seen: int) -> web.StreamResponse | None:
        if seen > 0:
            return None
        return web.Response(status=status, text=body, headers=headers)

    return fault


async def reset(request: web.Request, sent: dict[str, Any], seen: int) -> web.StreamResponse | None:
    if seen == 0 and request.transport is not None:
        request.transport.close()
    return None


async def half(request: web.Request, sent: dict[str, Any], seen: int) -> web.StreamResponse | None:
    if seen > 0:
        return None
    answer = web.StreamResponse(headers={"Content-Length": "500", "Content-Type": "application/json"})
    await answer.prepare(request)
    await answer.write(b'{"choices": [{"mess')
    assert request.transport is not None
    request.transport.close()
    return answer


@pytest.mark.parametrize(
    "fault",
    [
        deal(429, '{"error": "Model is overloaded", "error_type": "overloaded"}', **{"Retry-After": "0"}),
        deal(500, '{"error": "Incomplete generation", "error_type": "incomplete_generation"}'),
        deal(424, '{"error": "Request failed during generation", "error_type": "generation"}'),
        deal(503, "upstream unavailable"),
        deal(200, '{"choices": []}'),
        deal(200, '{"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}'),
        deal(200, '["not an object"]'),
        reset,
        half,
    ],
    ids=["overloaded", "500", "424", "503", "no-choices", "empty", "list", "reset", "half"],
)
def test_a_fault_that_passes_leaves_no_trace_in_the_answers(fault: Any, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"

    async def sparing_the_probe(request: web.Request, sent: dict[str, Any], seen: int) -> Any:
        return None if len(sent["messages"]) == 1 else await fault(request, sent, seen)

    with ChatServer(fault=sparing_the_probe) as server:
        done = run_cli("run", "--model", server.url, "--dataset", built, "--out", out, "--sample", "2",
                       "--concurrency", "4", *LEXICAL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(ids(out / "generations.jsonl")) == 22
    assert not (out / "errors.jsonl").exists()
    assert all(row["attempts"] == 2 for row in read_rows(out / "generations.jsonl"))


def test_lasting_failures_are_typed_rows_and_never_scores(built: Path, tmp_path: Path) -> None:
    """One config is refused for good, one only thinks, one is filtered: coverage says so, means do not."""

    async def fault(request: web.Request, sent: dict[str, Any], seen: int) -> web.StreamResponse | None:
        system = sent["messages"][0]["content"]
        if system.startswith("You turn the overview"):
            return web.json_response(
                {"error": "Input validation error", "error_type": "validation"}, status=422
            )
        if system.startswith("You keep the long-term memory"):
            return server.completion("<think>I wonder whether", "length")
        if "Rewrite a raw memory" in system:
            return server.completion("no", "content_filter")
        return None

    out = tmp_path / "run"
    with ChatServer(lambda m: "<think>hm</think>" + default_answer(m), fault=fault) as server:
        command = ["run", "--model", server.url, "--dataset", built, "--out", out, "--sample", "3", *LEXICAL]
        done = run_cli(*command)
        assert done.returncode == 5
        assert "9 of 33 scenarios have no answer" in done.stderr
        server.fault = None
        found = results(out)
        errors = list(read_rows(out / "errors.jsonl"))
        assert {row["kind"] for row in errors} == {"bad_request", "unfinished_thinking", "filtered"}
        assert {row["attempts"] for row in errors} == {1}
        assert found["failures"]["target"] == {"bad_request": 3, "filtered": 3, "unfinished_thinking": 3}
        assert found["scores"]["n"] == 24
        middle = found["scores"]["configs"]["ItineraryMiddle"]
        assert middle["n"] == 0 and middle["s_lexical"] is None and middle["coverage"] == 0.0
        assert found["scores"]["lexical"]["overall"]["value"] is None
        kept = list(read_rows(out / "generations.jsonl"))
        assert all("<think>" not in row["text"] and row["raw"].startswith("<think>hm") for row in kept)
        again = run_cli(*command)
    assert again.returncode == 0, again.stderr
    assert len(set(ids(out / "generations.jsonl"))) == 33
    assert results(out)["failures"]["target"] == {}
    assert results(out)["scores"]["lexical"]["overall"]["value"] > 0


def test_a_shard_that_dies_loses_nothing(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with ChatServer(delay=0.02) as one, ChatServer(delay=0.02) as two:
        child = subprocess.Popen(
            [sys.executable, "-m", "h2htalk_harness.cli", "run", "--model", f"{one.url},{two.url}",
             "--dataset", str(built), "--out", str(out), "--concurrency", "4", *LEXICAL],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while two.requests < 20 and child.poll() is None:
            time.sleep(0.005)
        two.stop()
        _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    assert sorted(ids(out / "generations.jsonl")) == sorted(all_ids(built))
    pool = json.loads((out / "manifest.json").read_text())["sessions"][0]["pool"]
    assert pool[1]["failures"] and pool[1]["state"] == "out" and not pool[0]["failures"]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def one_line(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode not in (0, 1 << 8), done.stderr
    assert done.returncode > 0
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    for part in parts:
        assert part in lines[0]


def html_server() -> ChatServer:
    async def page(request: web.Request, sent: dict[str, Any], seen: int) -> web.StreamResponse:
        return web.Response(text="<!doctype html><title>Login</title>", content_type="text/html")

    return ChatServer(fault=page)


def test_unusable_servers_are_one_clear_line(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"

    def attempt(url: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_cli("run", "--model", url, "--dataset", built, "--out", out, *LEXICAL,
                       env={**os.environ, **env})  # fmt: skip

    url = f"http://127.0.0.1:{free_port()}"
    one_line(attempt(url), url, "cannot be reached")
    with ChatServer(token="right") as server:
        done = attempt(server.url, H2HTALK_API_KEY="hf_wrongsecret")
        one_line(done, server.url, "401")
        assert "hf_wrongsecret" not in done.stderr
        assert attempt(server.url, H2HTALK_API_KEY="right").returncode == 0
        assert "right" not in (out / "manifest.json").read_text()
    with html_server() as server:
        one_line(run_cli("run", "--model", server.url, "--dataset", built, "--out", tmp_path / "b", *LEXICAL),
                 server.url, "HTML")  # fmt: skip
    with ChatServer() as one, ChatServer(info={"model_id": "other/model", "model_sha": "abc123"}) as two:
        one_line(
            attempt(f"{one.url},{two.url}"),
            "shards serve different models",
            "model test/model at",
            "other/model at",
        )
    assert len(ids(out / "generations.jsonl")) == len(all_ids(built)), "an error lost what was there"


def test_shards_that_say_nothing_of_their_model_are_not_taken_for_one(built: Path, tmp_path: Path) -> None:
    with ChatServer(info={}) as one, ChatServer(info={}) as two:
        one.models = two.models = []
        command = ["run", "--model", f"{one.url},{two.url}", "--dataset", built, "--sample", "1", *LEXICAL]
        one_line(run_cli(*command, "--out", tmp_path / "a"), "does not say what it serves", "--model-name")
        named = run_cli(*command, "--out", tmp_path / "b", "--model-name", "mine")
    assert named.returncode == 0, named.stderr
    assert results(tmp_path / "b")["model"]["model"] == "mine"


def test_tokens_that_were_not_reported_are_not_zero(built: Path, tmp_path: Path) -> None:
    with ChatServer() as server:
        server.usage, server.lenient = None, True
        done = run_cli("run", "--model", server.url, "--judge", server.url, "--dataset", built, "--sample", "1",
                       "--out", tmp_path / "run", *LEXICAL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    unknown = {"prompt_tokens": None, "completion_tokens": None}
    nothing = {**unknown, "usd": None, "price": None}
    assert results(tmp_path / "run")["cost"] == {"target": nothing, "judge": nothing}


def test_wrong_arguments_are_one_clear_line(built: Path, tmp_path: Path) -> None:
    base = ["run", "--out", tmp_path / "run"]
    with ChatServer() as server:
        good = ["--model", server.url, "--dataset", built]
        one_line(
            run_cli(*base, *good, "--configs", "DialogBase"), "unknown config DialogBase", "DialogueBase"
        )
        one_line(run_cli(*base, "--model", "gpt-4o", "--dataset", built), "unknown model 'gpt-4o'")
        one_line(run_cli(*base, "--model", server.url, "--dataset", tmp_path), "no built dataset")
        one_line(run_cli(*base, *good, "--sap", "--sap-principles", "secure"), "unknown SAP principle secure")
        one_line(run_cli(*base, *good, "--api-key-env", "NOT_SET"), "NOT_SET is not set")
        one_line(run_cli("score", tmp_path), "not a run folder")
        assert run_cli(*base, *good, "--sample", "1", *LEXICAL).returncode == 0
        done = run_cli(*base, *good, "--sample", "2", *LEXICAL)
        assert done.returncode == 2
        assert "started with other settings (sample: 1 there, 2 now)" in done.stderr


def test_damaged_run_folder_names_file_and_line(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with ChatServer() as server:
        command = ["run", "--model", server.url, "--dataset", built, "--out", out, "--sample", "1", *LEXICAL]
        assert run_cli(*command).returncode == 0
        path = out / "generations.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        lines[3] = lines[3][:20] + b"\n"
        path.write_bytes(b"".join(lines))
        done = run_cli(*command)
    assert done.returncode == 4
    assert f"{path}:4: not JSON" in done.stderr


def test_two_processes_on_one_folder(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with ChatServer(delay=0.05) as server:
        command = [
            "run",
            "--model",
            server.url,
            "--dataset",
            built,
            "--out",
            out,
            "--sample",
            "20",
            "--concurrency",
            "2",
            *LEXICAL,
        ]
        first = subprocess.Popen([sys.executable, "-m", "h2htalk_harness.cli", *map(str, command)],
                                 stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        while server.requests < 3:
            time.sleep(0.01)
        one_line(run_cli(*command), "another process is writing this run folder")
        assert first.wait(60) == 0
    answered = ids(out / "generations.jsonl")
    assert len(answered) == len(set(answered)) == 220 and set(answered) <= all_ids(built)


def test_sap_comes_first_and_is_recorded(built: Path, tmp_path: Path) -> None:
    systems: list[str] = []

    def answer(messages: list[dict[str, str]]) -> str:
        systems.append(messages[0]["content"])
        return default_answer(messages)

    out = tmp_path / "run"
    with ChatServer(answer) as server:
        done = run_cli("run", "--model", server.url, "--dataset", built, "--out", out, "--sample", "1", "--sap",
                       "--sap-principles", "autonomy_support,secure_base", *LEXICAL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    sent = [system for system in systems if not system.startswith("Count from one")]
    assert len(sent) == 11
    for system in sent:
        base, autonomy = system.index("Secure base."), system.index("Autonomy support.")
        assert 0 < base < autonomy < 3000 and "Positive ratio." not in system
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["sap"]["principles"] == ["secure_base", "autonomy_support"]
    assert manifest["sap_text"].startswith("Before you are anybody")


def test_concurrency_is_kept_and_used(built: Path, tmp_path: Path) -> None:
    with ChatServer(delay=0.05) as server:
        done = run_cli("run", "--model", server.url, "--dataset", built, "--out", tmp_path / "run",
                       "--concurrency", "6", *LEXICAL)  # fmt: skip
    assert done.returncode == 0
    assert server.most_in_flight == 6


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from h2htalk_harness.cli import app; from typer.testing import CliRunner;"
        "r = CliRunner().invoke(app, ['--help']); assert r.exit_code == 0 and 'run' in r.output;"
        "heavy = {'torch', 'transformers', 'datasets', 'evaluate', 'sentence_transformers', 'aiohttp'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_openai_backend_against_a_real_server(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    env = {**os.environ, "OPENAI_API_KEY": "sk-testsecret"}
    with ChatServer(token="sk-testsecret") as server:
        env["OPENAI_BASE_URL"] = f"{server.url}/v1"
        common = ["--dataset", built, "--sample", "2", "--configs", "ItineraryBasic,DialogueBase", *LEXICAL]
        done = run_cli("run", "--model", "openai:gpt-4o-mini", "--judge", "openai:gpt-4o", "--out", out,
                       *common, env=env)  # fmt: skip
        assert done.returncode == 0, done.stderr
        env["OPENAI_API_KEY"] = "sk-other"
        wrong = run_cli("run", "--model", "openai:gpt-4o-mini", "--out", tmp_path / "b", *common, env=env)
    one_line(wrong, "401")
    assert "sk-other" not in wrong.stderr
    assert results(out)["scores"]["configs"]["ItineraryBasic"]["n_judged"] == 2
    assert "judge:gpt-4o|snapshot:test/model" in results(out)["judge"]["signature"]
    for path in out.iterdir():
        assert b"sk-testsecret" not in path.read_bytes(), path


def test_pool_backs_off_ejects_and_lets_back_in() -> None:
    from h2htalk_harness.errors import RequestError
    from h2htalk_harness.shards import EJECT_AFTER, PROBE_AFTER, ShardPool

    now = [0.0]
    pool = ShardPool(["a", "b"], concurrency=10, clock=lambda: now[0])

    async def play() -> None:
        first = await pool.acquire()
        second = await pool.acquire()
        assert {first.url, second.url} == {"a", "b"}, "least in flight"
        pool.release(first, RequestError("overloaded", "x"))
        pool.release(second, None)
        assert first.limit == 8.0 and second.limit == 10.0
        shard = first
        for _ in range(3):
            shard.in_flight += 1
            pool.release(shard, RequestError("rate_limited", "x"))
        assert shard.limit == 8.0, "one back-off per cool-down"
        for _ in range(EJECT_AFTER):
            shard.in_flight += 1
            pool.release(shard, RequestError("server_error", "x"))
        assert {(await pool.acquire()).url for _ in range(5)} == {second.url}
        now[0] += PROBE_AFTER + 1
        chosen = [await pool.acquire() for _ in range(3)]
        assert sum(one.url == shard.url for one in chosen) == 1, "a single probe"
        pool.release(shard, None)
        assert shard.ejected_until is None
        now[0] += 60
        for _ in range(200):
            shard.in_flight = int(shard.limit)
            pool.release(shard, None)
        assert shard.limit == 10.0, "clean rounds at a full limit bring it back"

    asyncio.run(play())

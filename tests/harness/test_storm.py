"""Three requests in ten go wrong, in every way that a server can go wrong: nothing lost, nothing made up."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from h2htalk_harness.store import read_rows

from ..conftest import run_cli
from ..servers import ChatServer, breaches, default_answer
from .test_run import all_ids, half, ids, reset

SHARE = 0.3


def answer_with(status: int, text: str, **headers: str) -> Any:
    async def fault(request: web.Request, sent: dict[str, Any], seen: int) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return fault


async def hang(request: web.Request, sent: dict[str, Any], seen: int) -> None:
    await asyncio.sleep(30)


OVERLOADED = '{"error": "Model is overloaded", "error_type": "overloaded"}'
INCOMPLETE = '{"error": "Incomplete generation", "error_type": "incomplete_generation"}'
FAULTS = [
    answer_with(429, OVERLOADED, **{"Retry-After": "0"}),
    answer_with(429, "slow down"),
    answer_with(500, INCOMPLETE),
    answer_with(503, "<html><body>Service Unavailable</body></html>"),
    answer_with(200, "<!doctype html><title>proxy login</title>"),
    answer_with(200, '{"choices": []}'),
    answer_with(200, '{"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]}'),
    answer_with(200, '{"choices": [{"message": {"content": " "}, "finish_reason": "stop"}]}'),
    answer_with(200, '{"choices": [{"mess'),
    reset,
    half,
    hang,
]


def draw(seed: int, body: dict[str, Any], seen: int) -> float:
    text = f"{seed}:{seen}:{json.dumps(body, sort_keys=True)}"
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


def test_a_storm_of_faults_scores_no_failure_and_accounts_for_all(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    dealt = 0

    async def storm(request: web.Request, sent: dict[str, Any], seen: int) -> web.StreamResponse | None:
        nonlocal dealt
        luck = draw(7, sent, seen)
        if len(sent["messages"]) == 1 or luck >= SHARE:
            return None
        dealt += 1
        fault = FAULTS[int(luck / SHARE * len(FAULTS))]
        # The tools of other tests deal a fault only to a request that they have not seen before.
        made: web.StreamResponse | None = await fault(request, sent, 0)
        return made

    with ChatServer(fault=storm) as server:
        done = run_cli("run", "--model", server.url, "--dataset", built, "--out", out, "--sample", "25", "--timeout",
                       "2", "--concurrency", "48", "--embedder", "none", timeout=400)  # fmt: skip
    assert done.returncode in {0, 5}, done.stderr
    assert dealt > 60
    results = json.loads((out / "results.json").read_text())
    selected = sum(results["dataset"]["selected"].values())
    answered = ids(out / "generations.jsonl")
    failed = (
        {row["id"] for row in read_rows(out / "errors.jsonl")} if (out / "errors.jsonl").exists() else set()
    )
    assert len(answered) == len(set(answered)) and set(answered) <= all_ids(built)
    assert len(set(answered) | failed) == selected and not set(answered) & failed
    assert sum(cell["n"] for cell in results["scores"]["configs"].values()) == len(answered)
    assert sum(results["failures"]["target"].values()) == len(failed)
    # With eight attempts each, hardly anything fails for good.
    assert len(failed) <= 0.01 * selected
    rows = {row["id"]: row for row in read_rows(out / "generations.jsonl")}
    from h2htalk_harness import data

    for row in data.load(str(built), data.parse_configs(None), sample=25).rows:
        if row["id"] in rows:
            assert rows[row["id"]]["raw"] or rows[row["id"]]["text"] == default_answer(row["messages"])
    assert not breaches("error", json.loads(OVERLOADED)) and not breaches("error", json.loads(INCOMPLETE))

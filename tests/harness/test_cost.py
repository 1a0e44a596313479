"""Budgets are never exceeded and can be raised; forecasts; parts of a run and their joining."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h2htalk_harness.backends.base import Completion, Sampling
from h2htalk_harness.cost import Budget, BudgetSpentError, Meter, Price, most_tokens, price_for
from h2htalk_harness.errors import SettingsError
from h2htalk_harness.store import read_rows

from ..conftest import run_cli
from ..servers import ChatServer


def spent(out: Path) -> int:
    rows = [
        row for name in ("generations", "judgments", "errors") for row in read_rows(out / f"{name}.jsonl")
    ]
    return sum((row.get("prompt_tokens") or 0) + (row.get("completion_tokens") or 0) for row in rows)


def results(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    return found


def test_a_token_budget_stops_cleanly_and_a_larger_one_goes_on(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with ChatServer(delay=0.01) as server:
        server.usage = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
        command = ["run", "--model", server.url, "--dataset", str(built), "--sample", "10", "--judge", server.url,
                   "--concurrency", "4", "--max-new-tokens", "64", "--judge-max-new-tokens", "64", "--embedder",
                   "none", "--out", str(out)]  # fmt: skip
        first = run_cli(*command, "--max-tokens", "30000")
        assert first.returncode == 6
        last = first.stderr.strip().splitlines()[-1]
        assert last.startswith("error: --max-tokens 30000 would be exceeded (target") and "goes on" in last
        answered = len(list(read_rows(out / "generations.jsonl")))
        assert 15 <= answered <= 31 and spent(out) <= 30_000
        assert not (out / "errors.jsonl").exists()
        second = run_cli(*command, "--max-tokens", "120000")
        assert second.returncode == 6 and spent(out) <= 120_000
        assert list(read_rows(out / "judgments.jsonl")), "the judge shares the budget"
        assert run_cli(*command).returncode == 0
        assert server.requests == len(list(read_rows(out / "generations.jsonl"))) + 30 + 3, (
            "one probe a session"
        )
    cost = results(out)["cost"]
    assert cost["target"]["prompt_tokens"] == 110 * 900 and cost["judge"]["completion_tokens"] == 30 * 60
    assert cost["target"]["usd"] is None and cost["target"]["price"] is None


def test_money_is_counted_by_role(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with ChatServer() as server:
        command = ["run", "--model", server.url, "--dataset", str(built), "--sample", "2", "--judge", server.url,
                   "--embedder", "none", "--out", str(out)]  # fmt: skip
        refused = run_cli(*command, "--max-cost", "1")
        assert refused.returncode == 2 and "--max-cost needs the target's price" in refused.stderr
        done = run_cli(*command, "--max-cost", "1", "--price", "2,10", "--judge-price", "1000000,0")
        assert done.returncode == 2 and "must be IN,OUT" in done.stderr
        assert (
            run_cli(*command, "--max-cost", "10", "--price", "2,10", "--judge-price", "4,20").returncode == 0
        )
    cost = results(out)["cost"]
    assert cost["target"]["usd"] == pytest.approx(22 * (10 * 2 + 5 * 10) / 1e6, abs=1e-4)
    assert cost["judge"]["usd"] == pytest.approx(6 * (10 * 4 + 5 * 20) / 1e6, abs=1e-4)
    assert cost["judge"]["price"] == {"input": 4.0, "output": 20.0, "as_of": "given"}


def test_a_server_without_usage_is_counted_by_estimate(built: Path, tmp_path: Path) -> None:
    with ChatServer() as server:
        server.usage, server.lenient = None, True
        done = run_cli("run", "--model", server.url, "--dataset", built, "--max-tokens", "20000", "--max-new-tokens",
                       "32", "--no-score", "--out", tmp_path / "run")  # fmt: skip
    assert done.returncode == 6
    assert "target about " in done.stderr
    assert 5 <= len(list(read_rows(tmp_path / "run" / "generations.jsonl"))) <= 40


@settings(max_examples=30, deadline=None)
@given(
    limit=st.integers(0, 4000),
    seed=st.integers(0, 1000),
    reported=st.booleans(),
)
def test_many_at_once_never_take_more_than_the_limit(limit: int, seed: int, reported: bool) -> None:
    budget = Budget(max_tokens=limit)
    meters = [Meter("target", None, budget), Meter("judge", None, budget)]
    generator = random.Random(seed)
    sampling = Sampling(max_new_tokens=40)

    async def one(meter: Meter) -> None:
        messages = [{"role": "user", "content": "word " * generator.randint(1, 60)}]
        held = await meter.admit(messages, sampling)
        await asyncio.sleep(generator.random() / 1000)
        if generator.random() < 0.2:
            meter.settle(held, messages, None)
            return
        tokens = generator.randint(1, most_tokens(messages)), generator.randint(1, 40)
        answer = Completion("a" * 60, "stop", *(tokens if reported else (None, None)), model="m")
        meter.settle(held, messages, answer)
        assert sum(each.prompt + each.completion for each in meters) <= limit

    async def many() -> list[Any]:
        return await asyncio.gather(
            *(one(meters[number % 2]) for number in range(60)), return_exceptions=True
        )

    outcomes = asyncio.run(many())
    assert all(outcome is None or isinstance(outcome, BudgetSpentError) for outcome in outcomes)
    assert sum(each.prompt + each.completion for each in meters) <= limit
    assert not any(meter.held or meter.in_flight for meter in meters)


def test_prices() -> None:
    assert price_for("gpt-4o") is not None and price_for("gpt-4o-unknown") is None
    assert Price(2.5, 10, "x").of(1_000_000, 100_000) == pytest.approx(3.5)
    assert price_for("anything", "0,0") == Price(0, 0, "given")
    for wrong in ("1", "a,b", "-1,2", "nan,1", "1,2,3"):
        with pytest.raises(SettingsError, match="must be IN,OUT"):
            price_for("m", wrong)


def test_a_dry_run_asks_nobody_and_counts_what_is_left(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ["run", "--dataset", built, "--sample", "5", "--judge", "openai:gpt-4o", "--embedder", "none",
               "--out", out]  # fmt: skip
    done = run_cli(*command, "--model", "openai:gpt-4o", "--dry-run")
    assert done.returncode == 0, done.stderr
    target, judge, together = done.stdout.strip().splitlines()
    assert target.startswith("target: 55 requests, about ") and "(price of 20" in target
    assert judge.startswith("judge: 15 requests") and together.startswith("together: about $")
    assert not out.exists()
    with ChatServer() as server:
        partial = [
            "run",
            "--dataset",
            built,
            "--sample",
            "5",
            "--model",
            server.url,
            "--no-score",
            "--out",
            out,
        ]
        assert run_cli(*partial).returncode == 0
        sent = server.requests
        left = run_cli(*partial, "--dry-run")
        assert server.requests == sent
    assert left.stdout.startswith("target: 0 requests") and "no price known" in left.stdout


def test_a_forecast_holds(built: Path, tmp_path: Path) -> None:
    """The most that is forecast is never passed, and the estimate is near what a tokenizer says."""
    from h2htalk_data.statistics import prompt, wordpiece
    from h2htalk_harness import data
    from h2htalk_harness.cost import expected_tokens

    count = wordpiece()
    rows = data.load(str(built), data.parse_configs(None)).rows
    real = [count(prompt(row)) for row in rows]
    assert all(most_tokens(row["messages"]) >= n for row, n in zip(rows, real, strict=True))
    expected = sum(expected_tokens(row["messages"]) for row in rows)
    assert 0.8 < expected / sum(real) < 1.25


def test_parts_share_the_work_and_merge_to_the_whole(built: Path, tmp_path: Path) -> None:
    with ChatServer() as server:
        common = ["run", "--model", server.url, "--judge", server.url, "--dataset", str(built), "--sample", "7",
                  "--embedder", "none"]  # fmt: skip
        assert run_cli(*common, "--out", tmp_path / "whole").returncode == 0
        parts = []
        for number in (1, 2, 3):
            parts.append(tmp_path / f"part{number}")
            done = run_cli(*common, "--part", f"{number}/3", "--no-score", "--out", parts[-1])
            assert done.returncode == 0, done.stderr
        other = tmp_path / "other"
        assert run_cli(*common, "--temperature", "0.5", "--part", "3/3", "--out", other).returncode == 0
    sizes = [len(list(read_rows(part / "generations.jsonl"))) for part in parts]
    assert sum(sizes) == 77 and max(sizes) - min(sizes) <= 1
    some = run_cli("merge", parts[0], parts[2], "--out", tmp_path / "merged")
    assert some.returncode == 0 and "missing parts: 2/3" in some.stdout
    assert run_cli("merge", *parts, "--out", tmp_path / "merged").returncode == 0
    done = run_cli("score", tmp_path / "merged", "--embedder", "none")
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "merged") == results(tmp_path / "whole")
    wrong = run_cli("merge", *parts[:2], other, "--out", tmp_path / "bad")
    assert wrong.returncode == 2 and "sampling.temperature: 0.0 there, 0.5 now" in wrong.stderr
    assert run_cli("merge", *parts, "--out", parts[0]).returncode == 2
    assert run_cli(*common, "--part", "4/3", "--out", tmp_path / "x").returncode == 2

"""Floors and the ceiling as ordinary systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from h2htalk_data.catalog import CONFIGS
from h2htalk_harness import data
from h2htalk_harness.baselines import baselines, beaten_by_constant

from ..conftest import run_cli


def test_floors_are_ordered_as_they_must_be(built: Path) -> None:
    rows = data.load(str(built), list(CONFIGS)).rows
    sizes = {config: sum(row["config"] == config for row in rows) for config in CONFIGS}
    found = baselines(rows, embedder=None, sizes=sizes)
    for config in CONFIGS:
        score = {name: found[name]["configs"][config]["lexical"] for name in found}
        assert score["empty"] == 0.0
        assert score["reference"] == pytest.approx(100.0)
        assert 0 < score["shuffled"] < 40 and 0 < score["echo"] < 60 and 0 < score["constant"] < 40
        assert score["constant"] >= score["shuffled"] - 3, config
    assert found["reference"]["overall"]["lexical"] == pytest.approx(100.0)
    worse = {config: {"n": 3, "s_100": None, "s_lexical": 0.01} for config in CONFIGS}
    assert beaten_by_constant(worse, found) == list(CONFIGS)
    better = {config: {"n": 3, "s_100": None, "s_lexical": 0.9} for config in CONFIGS}
    assert beaten_by_constant(better, found) == []
    unscored = {config: {"n": 0, "s_100": None, "s_lexical": None} for config in CONFIGS}
    assert beaten_by_constant(unscored, found) == []


def test_command_prints_every_config_and_system(built: Path) -> None:
    done = run_cli("baselines", "--dataset", built)
    assert done.returncode == 0, done.stderr
    for name in (*CONFIGS, "empty", "constant", "echo", "shuffled", "reference", "Overall"):
        assert name in done.stdout


def test_a_model_under_its_floor_is_told_so(built: Path, tmp_path: Path) -> None:
    from ..servers import ChatServer

    out = tmp_path / "run"
    with ChatServer(lambda messages: "zzz qqq") as server:
        done = run_cli("run", "--model", server.url, "--dataset", built, "--configs", "ItineraryBasic", "--out",
                       out, "--embedder", "none")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "One constant answer scores at least as well in: ItineraryBasic." in done.stdout
    assert "Floors" in (out / "report.html").read_text()

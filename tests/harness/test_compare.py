"""Two runs compared by pairs, and runs that must not be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from h2htalk_harness.compare import compare_runs
from h2htalk_harness.errors import SettingsError, StoreError

from ..conftest import run_cli
from ..servers import ChatServer


@pytest.fixture(scope="module")
def runs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three runs: one repeats the input's words, one answers the same with them left out, one is judged."""
    folder = tmp_path_factory.mktemp("runs")
    speakers = {
        "echo": lambda messages: messages[-1]["content"],
        "mumble": lambda messages: "zzz qqq",
    }
    for name, speak in speakers.items():
        with ChatServer(speak) as server:
            done = run_cli("run", "--model", server.url, "--dataset", built, "--out", folder / name,
                           "--embedder", "none")  # fmt: skip
            assert done.returncode == 0, done.stderr
    return {name: folder / name for name in speakers}


def test_difference_is_the_difference_of_the_means(runs: dict[str, Path]) -> None:
    view, differences, effects = compare_runs(runs["echo"], runs["mumble"])
    assert view == "lexical" and len(differences) == 11
    tables = [
        json.loads((runs[name] / "results.json").read_text())["scores"]["configs"]
        for name in ("echo", "mumble")
    ]
    for config, found in differences.items():
        expected = 100 * (tables[0][config]["s_lexical"] - tables[1][config]["s_lexical"])
        assert found.diff == pytest.approx(expected)
        assert found.low is not None and found.high is not None and found.low <= found.diff <= found.high
        assert found.p is not None and found.p_adjusted is not None and found.p_adjusted >= found.p
        assert found.n == tables[0][config]["n"] and found.n_dropped == 0
        effect = effects[config]
        assert effect is not None and effect > 0
    assert all(found.p_adjusted < 0.01 for found in differences.values() if found.p_adjusted is not None)


def test_a_run_does_not_differ_from_itself(runs: dict[str, Path]) -> None:
    _, differences, _ = compare_runs(runs["echo"], runs["echo"])
    assert all(found.diff == 0 for found in differences.values())


def test_other_instruments_and_unscored_runs_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    other = Path(shutil.copytree(runs["echo"], tmp_path / "other"))
    results = json.loads((other / "results.json").read_text())
    results["signature"] = results["signature"].replace("tok:13a", "tok:char")
    (other / "results.json").write_text(json.dumps(results))
    with pytest.raises(SettingsError, match="cannot be compared: signature"):
        compare_runs(runs["echo"], other)
    (other / "results.json").unlink()
    with pytest.raises(StoreError, match="h2htalk score"):
        compare_runs(runs["echo"], other)


def test_command_prints_one_row_per_config(runs: dict[str, Path]) -> None:
    done = run_cli("compare", runs["echo"], runs["mumble"])
    assert done.returncode == 0, done.stderr
    assert "echo − mumble" in done.stdout and "RecollectionRefinement" in done.stdout
    wrong = run_cli("compare", runs["echo"], runs["mumble"], "--view", "j")
    assert wrong.returncode == 2 and "unknown view 'j'" in wrong.stderr

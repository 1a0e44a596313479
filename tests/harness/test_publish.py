"""The whole cycle against a stand-in Hub over HTTP with unmodified clients: publish all, then use it elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from ..conftest import ROOT, run_cli
from ..hub.stand_in_hub import StandInHub
from ..servers import ChatServer

ORG = "companions"


@pytest.fixture
def hub() -> Iterator[StandInHub]:
    with StandInHub(token="hf_right") as hub:
        yield hub


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `h2htalk build` writes: dataset and metric."""
    folder = tmp_path_factory.mktemp("artifacts")
    assert run_cli("build", "--no-caches", "--out", folder).returncode == 0
    return folder


@pytest.fixture(scope="module")
def whole(artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored run with an answer to every scenario."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with ChatServer() as server, ChatServer(info={"model_id": "a/judge", "model_sha": "1"}) as judge:
        done = run_cli("run", "--model", server.url, "--judge", judge.url, "--dataset", artifacts / "h2htalk",
                       "--embedder", "none", "--out", out, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


def environment(hub: StandInHub, home: Path, token: str = "hf_right") -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return {
        **kept,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_XET": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "NO_PROXY": "127.0.0.1",
    }


def publish(
    hub: StandInHub, home: Path, *words: str | Path, token: str = "hf_right"
) -> subprocess.CompletedProcess[str]:
    return run_cli("publish", *words, "--org", ORG, env=environment(hub, home, token), timeout=120)


def python(hub: StandInHub, home: Path, code: str) -> str:
    """A stranger's Python on another machine: only the endpoint is set."""
    env = {name: value for name, value in environment(hub, home).items() if name != "HF_TOKEN"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=home, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def results_in(hub: StandInHub) -> list[str]:
    files = hub.files("dataset", f"{ORG}/h2htalk-results")
    return sorted(name for name in files if name.startswith("results/") and name.endswith(".json"))


def test_the_whole_cycle(hub: StandInHub, artifacts: Path, whole: Path, tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    theirs.mkdir()
    for words in (("dataset", "--built", artifacts), ("metric", "--built", artifacts)):
        done = publish(hub, mine, *words)
        assert done.returncode == 0, done.stderr
    done = publish(hub, mine, "run", whole, "--model-id", "lab/model")
    assert done.returncode == 0, done.stderr
    total = json.loads((artifacts / "h2htalk" / "fingerprint.json").read_text())
    loaded = python(hub, theirs, f"""
from datasets import load_dataset
import evaluate
rows = load_dataset("{ORG}/h2htalk", "ItineraryAdvanced", split="test")
metric = evaluate.load("{ORG}/h2htalk_score")
found = metric.compute(predictions=[r for r in rows["reference"]], references=rows["reference"], embedder=None)
print(len(rows), round(found["bleu_4"], 6), rows[0]["messages"][0]["role"])
""")  # fmt: skip
    assert loaded == f"{total['configs']['ItineraryAdvanced']['n']} 1.0 system"
    (name,) = results_in(hub)
    assert name.startswith("results/lab__model/abc123/")
    # From the Hub's files alone the published result is verified, and a run can be made.
    folder = tmp_path / "checkout"
    for path, content in hub.files("dataset", f"{ORG}/h2htalk-results").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    env = environment(hub, theirs)
    verified = run_cli("verify", folder / name, "--dataset", f"{ORG}/h2htalk", env=env)
    assert verified.returncode == 0, verified.stderr
    assert run_cli("submission", folder, "--dataset", f"{ORG}/h2htalk", env=env).returncode == 0
    with ChatServer() as server:
        ran = run_cli("run", "--model", server.url, "--dataset", f"{ORG}/h2htalk", "--sample", "1", "--embedder",
                      "none", "--out", tmp_path / "again", env=env)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    for _, _, status in hub.requests:
        assert status < 500


def test_the_space_reads_what_was_published(hub: StandInHub, whole: Path, tmp_path: Path) -> None:
    assert publish(hub, tmp_path, "run", whole, "--model-id", "lab/model").returncode == 0
    done = publish(hub, tmp_path, "leaderboard")
    assert done.returncode == 0, done.stderr
    files = hub.files("space", f"{ORG}/h2htalk-leaderboard")
    assert "app.py" in files and "collect.py" not in files and not any("cache" in name for name in files)
    space = tmp_path / "space"
    for name, content in files.items():
        (space / name).parent.mkdir(parents=True, exist_ok=True)
        (space / name).write_bytes(content)
    shown = python(hub, space, """
import data
board = data.load()
print([(row["model_id"], row["complete"]) for row in board.of_kind("result")], len(board.of_kind("floor")))
""")  # fmt: skip
    assert shown == "[('lab/model', True)] 4"


def test_publishing_again_changes_nothing(
    hub: StandInHub, artifacts: Path, whole: Path, tmp_path: Path
) -> None:
    for words in (("dataset", "--built", artifacts), ("run", whole, "--model-id", "lab/model")):
        assert publish(hub, tmp_path, *words).returncode == 0
    before = {kind: hub.files("dataset", f"{ORG}/{kind}") for kind in ("h2htalk", "h2htalk-results")}
    again = publish(hub, tmp_path, "run", whole, "--model-id", "lab/model")
    assert again.returncode == 0 and again.stdout.startswith("there already: ")
    assert publish(hub, tmp_path, "dataset", "--built", artifacts).returncode == 0
    assert {kind: hub.files("dataset", f"{ORG}/{kind}") for kind in before} == before


def test_a_new_build_replaces_the_old_files(
    hub: StandInHub, artifacts: Path, card: Path, tmp_path: Path
) -> None:
    from h2htalk_data.build import build_dataset

    assert publish(hub, tmp_path, "dataset", "--built", artifacts).returncode == 0
    text = (card / "prompts" / "DialogueBase.md").read_text()
    (card / "prompts" / "DialogueBase.md").write_text(text.replace("Stay {name}.", "Remain {name}."))
    build_dataset(card, tmp_path / "new" / "h2htalk")
    assert publish(hub, tmp_path, "dataset", "--built", tmp_path / "new").returncode == 0
    files = hub.files("dataset", f"{ORG}/h2htalk")
    assert sum(name.startswith("data/DialogueBase/") for name in files) == 1


def test_pull_requests_on_datasets_and_on_the_model(hub: StandInHub, whole: Path, tmp_path: Path) -> None:
    hub.create("dataset", f"{ORG}/h2htalk-results")
    done = publish(hub, tmp_path, "run", whole, "--model-id", "lab/model", "--pr")
    assert done.returncode == 0, done.stderr
    assert "/discussions/1" in done.stdout and results_in(hub) == []
    # Lexical scores only: not comparable, so nothing is proposed to the model's own page.
    hub.create("model", "lab/model")
    refused = publish(hub, tmp_path, "run", whole, "--model-id", "lab/model", "--model-pr")
    assert refused.returncode == 2 and "not proposed to lab/model: semantic similarity" in refused.stderr
    assert ".eval_results/h2htalk.yaml" not in hub.files("model", "lab/model")
    # As if BGE-M3 had been there; the proposal is what is tested here, not the numbers.
    run = tmp_path / "comparable"
    shutil.copytree(whole, run)
    results = json.loads((run / "results.json").read_text())
    results |= {"comparable": True, "not_comparable_because": []}
    task = {config: cell["s_lexical"] * 100 for config, cell in results["scores"]["configs"].items()}
    for config, cell in results["scores"]["configs"].items():
        cell["task"]["value"] = task[config]
    results["scores"]["overall"]["value"] = 12.5
    (run / "results.json").write_text(json.dumps(results))
    done = publish(hub, tmp_path, "run", run, "--model-id", "lab/model", "--model-pr")
    assert done.returncode == 0, done.stderr
    assert ".eval_results/h2htalk.yaml" not in hub.files("model", "lab/model")
    entries = yaml.safe_load(hub.files("model", "lab/model", "refs/pr/1")[".eval_results/h2htalk.yaml"])
    values = {entry["dataset"]["task_id"]: entry["value"] for entry in entries}
    assert values == {**{config: round(value, 4) for config, value in task.items()}, "overall": 12.5}
    assert {entry["dataset"]["id"] for entry in entries} == {f"{ORG}/h2htalk"}
    eval_yaml = yaml.safe_load((ROOT / "dataset_card" / "eval.yaml").read_text())
    assert set(values) == {task["id"] for task in eval_yaml["tasks"]}


def test_sixteen_at_once_lose_none(hub: StandInHub, whole: Path, tmp_path: Path) -> None:
    def one(number: int) -> int:
        done = publish(hub, tmp_path / str(number), "run", whole, "--model-id", f"lab/model-{number}")
        return done.returncode

    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(one, range(16)))
    assert codes == [0] * 16
    assert {name.split("/")[1] for name in results_in(hub)} == {
        f"lab__model-{number}" for number in range(16)
    }


def test_a_publication_that_breaks_leaves_no_half_state(
    hub: StandInHub, artifacts: Path, whole: Path, tmp_path: Path
) -> None:
    assert publish(hub, tmp_path, "run", whole, "--model-id", "lab/first").returncode == 0
    before = hub.files("dataset", f"{ORG}/h2htalk-results")
    hub.drop_after(2000, "commit")
    broken = publish(hub, tmp_path, "run", whole, "--model-id", "lab/second")
    assert broken.returncode == 7 and broken.stderr.startswith("error: ")
    assert hub.files("dataset", f"{ORG}/h2htalk-results") == before
    assert publish(hub, tmp_path, "run", whole, "--model-id", "lab/second").returncode == 0
    assert len(results_in(hub)) == 2


def test_refusals_are_one_line_without_the_token(hub: StandInHub, whole: Path, tmp_path: Path) -> None:
    wrong = publish(hub, tmp_path, "run", whole, "--model-id", "lab/model", token="hf_wrongsecret")
    assert wrong.returncode == 7
    assert len(wrong.stderr.strip().splitlines()) == 1 and "hf_wrongsecret" not in wrong.stderr
    unnamed = publish(hub, tmp_path, "run", whole, "--model-id", "no slash")
    assert unnamed.returncode == 2 and "--model-id ORG/NAME" in unnamed.stderr
    (tmp_path / "empty").mkdir()
    for kind in ("dataset", "metric"):
        missing = publish(hub, tmp_path, kind, "--built", tmp_path / "empty")
        assert missing.returncode == 2 and "run `h2htalk build`" in missing.stderr
    assert not any(method == "POST" and status == 200 for method, _, status in hub.requests)

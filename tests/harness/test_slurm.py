"""Launching on a real single-node Slurm with eight GPUs by gres; a small server stands for the engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from h2htalk_harness.launch import sweep
from h2htalk_harness.store import read_rows

from ..conftest import run_cli
from ..slurm_cluster import Cluster, missing

LAUNCHER = f"""#!/bin/bash
exec {sys.executable} {Path(__file__).parent.parent / "stand_in_tgi.py"} "$@"
"""

# CI sets the variable: there a cluster that cannot be started is a failure and not a skip.
WANTED = "H2HTALK_TESTS_NEED_ALL" in os.environ
pytestmark = pytest.mark.skipif(missing() is not None and not WANTED, reason=missing() or "")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    commands = folder / "bin"
    commands.mkdir()
    launcher = commands / "text-generation-launcher"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    with Cluster(folder / "daemons") as cluster:
        cluster.env["PATH"] = f"{commands}:{cluster.env['PATH']}"
        cluster.env["H2HTALK_SHARD_HOST"] = "127.0.0.1"
        yield cluster


def no_jobs(cluster: Cluster) -> bool:
    for _ in range(100):
        if not cluster.run("squeue", "-h").strip():
            return True
        time.sleep(0.1)
    return False


def launch(cluster: Cluster, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run_cli("launch", "slurm", "--out", out, *options, env=cluster.env, timeout=120)


def test_one_command_serves_runs_and_frees_the_gpus(cluster: Cluster, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = launch(cluster, out, "--model", "org/model", "--revision", "abc", "--shards", "4",
                  "--gpus-per-shard", "2", "--sbatch=--time=10", "--", "--dataset", str(built), "--sample",
                  "30", "--concurrency", "2", "--embedder", "none")  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["model"] == {"model": "org/model", "revision": "abc", "embedded": False}
    pool = manifest["sessions"][0]["pool"]
    rows = list(read_rows(out / "generations.jsonl"))
    assert len(rows) == len({row["id"] for row in rows}) == sum(shard["done"] for shard in pool)
    # Shards register when they are ready, so a first one may do the work before the last is there.
    assert 1 <= len(pool) <= 4
    assert sweep.finished(out)
    assert no_jobs(cluster)
    assert not list((out / "shards").glob("*.url"))
    assert "abc" in (out / "shards" / "shard.sbatch").read_text()


def test_a_shard_that_dies_leaves_and_nothing_is_lost(cluster: Cluster, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = launch(cluster, out, "--model", "org/model-that-dies", "--shards", "2", "--", "--dataset",
                  str(built), "--sample", "40", "--concurrency", "2", "--embedder", "none")  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [row["id"] for row in read_rows(out / "generations.jsonl")]
    assert len(rows) == len(set(rows)) and not (out / "errors.jsonl").exists()
    pool = json.loads((out / "manifest.json").read_text())["sessions"][0]["pool"]
    assert sorted(shard["state"] for shard in pool) != ["up", "up"]
    assert no_jobs(cluster)


def test_an_interrupted_launch_cancels_its_shards(cluster: Cluster, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "h2htalk_harness.cli", "launch", "slurm", "--model", "org/model", "--out",
               str(out), "--shards", "2", "--", "--dataset", str(built), "--concurrency", "1", "--no-score"]  # fmt: skip
    child = subprocess.Popen(command, env=cluster.env, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 60
    while time.monotonic() < until and not list(read_rows(out / "generations.jsonl")):
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait(60) != 0
    assert list(read_rows(out / "generations.jsonl"))
    assert no_jobs(cluster)
    assert not list((out / "shards").glob("*.url"))


def test_a_server_that_does_not_start_is_said(cluster: Cluster, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = launch(cluster, out, "--model", "org/model-that-never-starts", "--", "--dataset", str(built))
    assert done.returncode == 3
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: job ") and "no such model / the server ended before it was ready" in last
    assert str(out / "shards" / "log-0.txt") in last
    assert no_jobs(cluster)


def test_a_sweep_runs_model_after_model_and_goes_on(cluster: Cluster, built: Path, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text(
        "- {name: First model, group: small, id: org/first, gpus: 1}\n"
        "- {name: Unpublished, group: small, id: null, note: weights not published}\n"
        "- {name: Broken, group: large, id: org/broken-that-never-starts, gpus: 2}\n"
        "- {name: Second, group: large, id: org/second, gpus: 4, shards: 2}\n"
    )
    run: tuple[Any, ...] = ("--", "--dataset", str(built), "--sample", "2", "--embedder", "none")  # fmt: skip
    out = tmp_path / "runs"
    done = run_cli("sweep", models, "--out", out, "--at-once", "2", *run, env=cluster.env, timeout=180)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "error: 1 of 4 models failed: Broken"
    assert "Unpublished: passed by (weights not published)" in done.stderr
    for folder, model in (("First_model", "org/first"), ("Second", "org/second")):
        assert json.loads((out / folder / "results.json").read_text())["model"]["model"] == model
    again = run_cli("sweep", models, "--out", out, "--only", "small", *run, env=cluster.env)
    assert again.returncode == 0 and "First model: done (before)" in again.stderr
    assert no_jobs(cluster)
    assert [entry.shards for entry in sweep.load(models)] == [None, None, None, 2]

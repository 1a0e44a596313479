"""Published results: what is made of a run, what verification finds, and hostile submissions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from h2htalk_harness import data, publish, submission, verify
from h2htalk_harness.data import Dataset
from h2htalk_harness.errors import HarnessError
from h2htalk_harness.model_card import block

from ..conftest import run_cli
from ..servers import ChatServer


@pytest.fixture(scope="module")
def dataset(built: Path) -> Dataset:
    return data.load(str(built), data.parse_configs(None))


@pytest.fixture(scope="module")
def scored(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with S, J and failures in it."""
    out = tmp_path_factory.mktemp("scored") / "run"
    with ChatServer() as server:
        done = run_cli("run", "--model", server.url, "--judge", server.url, "--dataset", built, "--sample", "3",
                       "--embedder", "minilm-embedded", "--out", out, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def repo(scored: Path, tmp_path: Path) -> Path:
    """A results repository with one good result in it."""
    publish.prepare(scored, tmp_path / "repo", "org/model", incomplete=True)
    return tmp_path / "repo"


def result_of(repo: Path) -> Path:
    (found,) = submission.result_files(repo)
    return found


def edit(repo: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    path = result_of(repo)
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    return path


def test_a_published_run_verifies_with_and_without_embedder(repo: Path, dataset: Dataset) -> None:
    from h2htalk_metric.embedding import Embedder

    path = result_of(repo)
    assert path.relative_to(repo).parts[:3] == ("results", "org__model", "abc123")
    assert "S" not in verify.verify(path, dataset).recomputed
    model = Embedder.load("minilm-embedded", device="cpu")
    assert "J" in verify.verify(path, dataset, embedder=model).recomputed
    assert submission.check(repo, dataset) == []
    done = run_cli("verify", path, "--dataset", dataset.source)
    assert done.returncode == 0 and done.stdout.startswith("verified: org/model")


def test_incomplete_results_need_a_word_and_are_marked(scored: Path, repo: Path, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"33 of \d+ scenarios have an answer.*--incomplete"):
        publish.prepare(scored, tmp_path / "x", "org/model")
    value = json.loads(result_of(repo).read_text())
    assert value["complete"] is False and value["results"]["comparable"] is False


def test_the_card_block_says_what_it_is(scored: Path) -> None:
    text = block(publish.checked(scored))
    assert "| **Overall** |" in text and "**Not comparable**" in text and "no clearance" in text
    assert "--sample 3" in text and "http" not in text


Change = Callable[[dict[str, Any]], None]


def at(*names: str, to: Any) -> Change:
    def change(value: dict[str, Any]) -> None:
        for name in names[:-1]:
            value = value[name]
        value[names[-1]] = to

    return change


CELL = ("results", "scores", "configs", "DialogueBase")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (at("model_id", to="org/<script>alert(1)</script>"), "model_id: String should match pattern"),
        (at("model_id", to="../../etc/passwd"), "model_id: String should match pattern"),
        (at("results", "model", "model", to="<img src=x onerror=alert(1)>"), "results.model.model"),
        (at("results", "judge", "signature", to="judge:<b>x</b>"), "results.judge.signature"),
        (at(*CELL, "s_100", to=1e308), "s_100: Input should be less than or equal to 100"),
        (at(*CELL, "s", to=float("nan")), "not JSON"),
        (at(*CELL, "n", to=-3), "n: Input should be greater than or equal to 0"),
        (at(*CELL, "n", to=4), "more scores than scenarios"),
        (at(*CELL, "s", to=0.9), "scores.configs.DialogueBase.s: 0.9, recomputed"),
        (at(*CELL, "task", "value", to=99.0), "DialogueBase.task.value: 99.0, recomputed"),
        (at(*CELL, "bleu_2", to=0.5), "scores.configs.DialogueBase.bleu_2: 0.5, recomputed"),
        (at(*CELL, "intervals", "lexical_100", "high", to=90.0), "intervals.lexical_100.high"),
        (at("results", "scores", "overall", "value", to=90.0), "scores.overall.value: 90.0, recomputed"),
        (at("results", "scores", "configs", "ItineraryBasic", "j", to=4.9), "scores.j: "),
        (at("results", "checks", "DialogueBase", "all_passed", to=0.123), "checks.DialogueBase.all_passed"),
        (at("results", "dataset", "fingerprint", to="0" * 16), "dataset fingerprint contradicts itself"),
        (at("results", "signature_hash", to="0" * 12), "belongs at results/"),
        (at("results", "signature", to="bleu:1-4|tok:mine"), "signature_hash is not the signature's"),
        (at("results", "settings", "sample", to=[1]), "results.settings.sample"),
        (at("complete", to=True), "complete contradicts the counts"),
        (at("results", "comparable", to=True), "comparable contradicts itself"),
        (lambda value: value["results"].update(comparable=True, not_comparable_because=[]), "results.comparable"),
        (at(*CELL, "ss", to=None), "DialogueBase.ss: None with signature emb given"),
        (at("results", "scores", "s_only", "configs", "DialogueBase", "value", to=99.0), "s_only.configs.DialogueBase"),
        (at("results", "scores", "s", to=0.99), "scores.s: 0.99, recomputed"),
        (at("results", "truncated", to=5), "results.truncated"),
        (at("results", "judge", "model", "model", to="gpt-4o"), "results.judge.signature: lacks judge:gpt-4o"),
        (at("results", "dataset", "selected", "DialogueBase", to=9), "results.dataset.selected"),
        (at("results", "settings", "sample_seed", to=1), "is not among the scenarios"),
        (at("evidence", "sha256", to="0" * 64), "sha256 differs"),
        (at("evidence", "rows", to=7), "33 answers, the result says 7"),
        (at("evidence", to=None), "published without its answers"),
        (at("time", to="20260101T000000Z"), "belongs at results/"),
        (at("results", "dataset", "sizes", "Invented", to=3), "results.dataset.sizes"),
        (at("results", "extra", to="<b>"), "results.extra: Extra inputs are not permitted"),
    ],
)  # fmt: skip
def test_a_hostile_or_forged_result_is_rejected_in_one_clear_line(
    repo: Path, dataset: Dataset, change: Change, expected: str
) -> None:
    edit(repo, change)
    (line,) = submission.check(repo, dataset)
    assert expected in line
    assert line.startswith("results/org__model/") and "\n" not in line and len(line) < 600
    assert "<" not in line.replace("<org>", "").replace("<time>", "")


def forged(repo: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the evidence and make the result agree with the changed file."""
    path = result_of(repo).with_suffix(".parquet")
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    import hashlib

    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    def agree(value: dict[str, Any]) -> None:
        value["evidence"] = {"sha256": digest, "rows": len(rows)}

    edit(repo, agree)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows[0].update(text="better words"), "recomputed"),
        (lambda rows: rows[0].update(id="../../../etc/passwd"), "is not among the scenarios"),
        (lambda rows: rows[1].update(id=rows[0]["id"]), "stands twice"),
        (lambda rows: rows.pop(), "recomputed"),
        (lambda rows: [row.update(judge_score=5.0) for row in rows if row["judge_score"] is not None], "recomputed"),
        (lambda rows: [row.update(judge_score=None) for row in rows], "n_judged"),
        (lambda rows: rows[0].update(text=None), "NoneType"),
        (lambda rows: [row.update(judge_score=7.0) for row in rows if row["judge_score"] is not None], "judge score"),
    ],
    ids=["text", "path", "twice", "dropped", "judge", "unjudged", "no text", "seven"],
)  # fmt: skip
def test_forged_evidence_does_not_give_the_published_scores(
    repo: Path, dataset: Dataset, change: Callable[[list[dict[str, Any]]], None], expected: str
) -> None:
    forged(repo, change)
    (line,) = submission.check(repo, dataset)
    assert expected in line


def test_what_does_not_belong_in_a_results_repository(repo: Path, dataset: Dataset, tmp_path: Path) -> None:
    good = result_of(repo)
    (repo / "README.md").write_text("fine")
    (repo / "run.sh").write_text("rm -rf /")
    (repo / "results" / "loose.json").write_text("{}")
    huge = good.with_name("20260102T000000Z.json")
    huge.write_text(json.dumps({"text": "x" * (50 << 20)}))
    (good.parent / "link.json").symlink_to("/etc/passwd")
    (good.parent / "20260103T000000Z.parquet").write_bytes(b"PAR1")
    broken = good.with_name("20260104T000000Z.json")
    broken.write_text('{"kind": "h2htalk-result", "results": NaN')
    copy = good.parent / "20270101T000000Z.json"
    value = json.loads(good.read_text())
    value["time"] = "20270101T000000Z"
    copy.write_text(json.dumps(value))
    shutil.copy(good.with_suffix(".parquet"), copy.with_suffix(".parquet"))
    found = submission.check(repo, dataset)
    for expected in (
        "run.sh: not at results/",
        "loose.json: not at results/",
        "20260102T000000Z.json: larger than 2 MB",
        "link.json: not a plain file",
        "20260103T000000Z.parquet: evidence without its result",
        "20260104T000000Z.json: not JSON",
        "20270101T000000Z.json: the same answers as",
    ):
        assert sum(expected in line for line in found) >= 1, expected
    assert not any(line.startswith(good.relative_to(repo).as_posix()) for line in found)
    assert all("\n" not in line and len(line) < 600 for line in found)
    # A pull request is judged by its own files, against duplicates among all.
    assert submission.check(repo, dataset, [good]) == []
    (line,) = submission.check(repo, dataset, [copy])
    assert "the same answers as" in line
    table = repo / "leaderboard.parquet"
    table.write_bytes(b"PAR1")
    (line,) = submission.check(repo, dataset, [table])
    assert line.startswith("leaderboard.parquet: not at results/")
    evidence = good.with_suffix(".parquet")
    kept = evidence.read_bytes()
    evidence.write_bytes(b"junk")
    (line,) = submission.check(repo, dataset, [evidence])
    assert "sha256 differs" in line
    evidence.write_bytes(kept)
    (repo / "results" / "evil").symlink_to("/etc")
    assert any(line.startswith("results/evil: not a plain file") for line in submission.check(repo, dataset))
    (line,) = submission.check(repo, dataset, [repo / ".." / "elsewhere.json"])
    assert "outside the repository" in line
    done = run_cli("submission", repo, "--dataset", dataset.source, "--changed", good)
    assert done.returncode == 0 and "nothing to object to" in done.stdout


def test_an_unknown_judge_and_another_dataset(
    repo: Path, dataset: Dataset, card: Path, tmp_path: Path
) -> None:
    from h2htalk_data.build import build_dataset

    text = (card / "prompts" / "DialogueBase.md").read_text()
    (card / "prompts" / "DialogueBase.md").write_text(text.replace("Stay {name}.", "Remain {name}."))
    build_dataset(card, tmp_path / "other")
    other = data.load(str(tmp_path / "other"), data.parse_configs(None))
    (line,) = submission.check(repo, other)
    assert f"was run on dataset {dataset.fingerprint}, this one is {other.fingerprint}" in line

    def renamed(value: dict[str, Any]) -> None:
        judge = value["results"]["judge"]
        judge["signature"] = judge["signature"].replace("test/model", "no/body")
        judge["model"]["model"] = "no/body"

    edit(repo, renamed)
    assert submission.check(repo, dataset) == []


def test_secrets_are_found_and_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from h2htalk_harness.secrets_scan import secrets

    monkeypatch.setenv("H2HTALK_API_KEY", "a-private-token-of-mine")
    (tmp_path / "a.jsonl").write_text('{"token": "hf_' + "a1B2" * 8 + '"}')
    (tmp_path / "b.txt").write_text("key sk-" + "x" * 30)
    (tmp_path / "c.txt").write_text("https://me:secret@host/x")
    (tmp_path / "d.txt").write_text("x a-private-token-of-mine x")
    (tmp_path / "e.txt").write_text("hf_short, sk-learn and https://host:8080/a@b are fine")
    assert [line.split(": ")[0] for line in secrets(tmp_path)] == ["a.jsonl", "b.txt", "c.txt", "d.txt"]
    assert not any("a1B2" in line or "secret" in line for line in secrets(tmp_path))
    with pytest.raises(publish.PublishError, match=r"not published.*a\.jsonl"):
        publish.send(None, tmp_path, "org/x", "dataset", "m")  # type: ignore[arg-type]

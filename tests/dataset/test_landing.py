"""Landing a part: readings are applied, ids continue, and nothing lands from a part with a problem."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from h2htalk_data.sources import read


def line(**fields: Any) -> str:
    return json.dumps(fields) + "\n"


PERSONA = {
    "persona_id": "testa", "name": "Testa", "gender": "woman", "pronouns": "she/her", "age": 50, "culture": "c",
    "profession": "p", "temper": "t", "story": "s", "likes": ["a", "b", "c"], "skills": ["s"], "fears": "f",
    "voice": "v", "sample_lines": ["(nods) a", "b"], "rhythm": "r", "limits": "l",
}  # fmt: skip
PAIR = {
    "cluster": "testa.u", "persona_id": "testa", "user": {"name": "U", "profile": "p"}, "relation": "friend",
    "bond": "b",
}  # fmt: skip


def record(key: str, **fields: Any) -> dict[str, Any]:
    return {
        "key": key, "cluster": "testa.u", "interaction": "casual", "emotion": "joy", "need": "explicit",
        "complexity": 1, "topic": "sea", "history": [{"role": "user", "content": f"hello {key}"}],
        "reference": f"(waves) Hello from {key}.", **fields,
    }  # fmt: skip


def vote(key: str, verdict: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "reader": "reader-x", "accurate": True, "consistent": True, "compliant": True,
            "distinct": verdict == "keep", "verdict": verdict, "fault": "", **fields}  # fmt: skip


@pytest.fixture
def part(tmp_path: Path) -> Path:
    folder = tmp_path / "part"
    folder.mkdir()
    (folder / "personas.jsonl").write_text(line(**PERSONA))
    (folder / "pairs.jsonl").write_text(line(**PAIR))
    (folder / "DialogueBase.jsonl").write_text("".join(line(**record(key)) for key in "abc"))
    changes = {"reference": "(laughs) Better."}
    (folder / "review.jsonl").write_text(
        line(**vote("a", "keep")) + line(**vote("b", "rewrite", changes=changes)) + line(**vote("c", "drop"))
    )
    return folder


def land(part: Path, card: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "h2htalk_data.landing",
            str(part),
            str(card),
            "--author",
            "writer-x",
            *options,
        ],
        capture_output=True,
        text=True,
    )


def test_a_reading_is_applied_and_ids_continue(part: Path, card: Path) -> None:
    before = read(card).scenarios["DialogueBase"]
    done = land(part, card)
    assert done.returncode == 0, done.stderr
    landed = read(card).scenarios["DialogueBase"][len(before) :]
    last = int(before[-1].id.rsplit("-", 1)[1])
    assert [item.id for item in landed] == [f"DialogueBase-{last + 1:04d}", f"DialogueBase-{last + 2:04d}"]
    kept, rewritten = landed
    assert kept.reference == "(waves) Hello from a." and not kept.provenance.rewritten
    assert rewritten.reference == "(laughs) Better." and rewritten.provenance.rewritten
    assert [vote.distinct for item in landed for vote in item.provenance.votes] == [True, False]
    assert {vote.kind for item in landed for vote in item.provenance.votes} == {"language_model"}
    again = land(part, card)
    assert again.returncode == 1 and "'testa' exists already" in again.stderr


def test_cells_of_the_plan_are_noted_once(part: Path, card: Path) -> None:
    (card / "plan.jsonl").write_text(line(cell="a") + line(cell="z"))
    (card / "plan_written.jsonl").write_text("")
    assert land(part, card).returncode == 0
    (noted,) = (json.loads(text) for text in (card / "plan_written.jsonl").read_text().splitlines())
    assert noted["cell"] == "a" and noted["id"] in {item.id for item in read(card).scenarios["DialogueBase"]}
    for name in ("personas", "pairs"):
        (part / f"{name}.jsonl").unlink()
    again = land(part, card)
    assert again.returncode == 1 and "cell 'a' is written already" in again.stderr


def test_dry_and_check_write_nothing(part: Path, card: Path) -> None:
    files = {path: path.read_bytes() for path in card.rglob("*") if path.is_file()}
    for option in ("--dry", "--check"):
        assert land(part, card, option).returncode == 0
    assert {path: path.read_bytes() for path in card.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("review.jsonl", line(**vote("a", "keep")) + line(**vote("b", "keep")), "no review of 'c'"),
        ("review.jsonl", line(**vote("a", "accept")), "review.jsonl:1: verdict: unknown 'accept'"),
        ("review.jsonl", line(**vote("a", "rewrite")), "changes: a rewrite needs the changed fields"),
        ("DialogueBase.jsonl", line(**record("a", emotion="glee")), "(a): emotion: unknown emotion 'glee'"),
        (
            "DialogueBase.jsonl",
            line(**record("a", reference="Hi.")),
            "breaks its own check has_parenthetical",
        ),
        ("DialogueBase.jsonl", line(**record("a")) + line(**record("a")), "key: duplicate 'a'"),
        ("DialogueBase.jsonl", '{"key": "a",\n', "DialogueBase.jsonl:1: not JSON"),
        ("pairs.jsonl", line(**{**PAIR, "cluster": "other.u"}), "must begin with its persona_id"),
    ],
)
def test_a_problem_is_one_line_and_nothing_lands(
    part: Path, card: Path, name: str, text: str, expected: str
) -> None:
    before = {path: path.read_bytes() for path in card.rglob("*") if path.is_file()}
    (part / name).write_text(text)
    done = land(part, card)
    assert done.returncode == 1
    assert expected in done.stderr
    assert {path: path.read_bytes() for path in card.rglob("*") if path.is_file()} == before

"""The audit's figures on small sets with known answers, and the shipped data against its bounds."""

from __future__ import annotations

import random
from typing import Any

import pytest

from h2htalk_data import audit, floors, rows
from h2htalk_data.catalog import CONFIGS
from h2htalk_data.labels import EMOTIONS, INTERACTIONS, NO_KEY_INFORMATION, TOPICS
from h2htalk_data.planning import plan

from ..conftest import CARD, run_cli


def make(references: list[str], **fields: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": f"DialogueBase-{i:04d}", "config": "DialogueBase", "language": "en", "reference": text,
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": f"turn {i}"}],
            "history": [{"role": "user", "content": f"turn {i}"}], "user_comment": None, "day_overview": None,
            "current_activity": None, "memories": [], "persona_id": f"p{i}", "cluster": f"p{i}.u",
            "emotion": "joy", "topic": "sea", "interaction": "casual", "need": "implicit", **fields,
        }
        for i, text in enumerate(references)
    ]  # fmt: skip


def words_of(seed: int, n: int = 20) -> str:
    rng = random.Random(seed)
    return " ".join("".join(rng.choices("abcdefghijklmnop", k=7)) for _ in range(n))


def test_distinct_references_ignore_case_and_the_silent_line() -> None:
    rows_ = make(["One two.", "ONE TWO.", "Three.", NO_KEY_INFORMATION, NO_KEY_INFORMATION])
    value, worst = audit.distinct_references(rows_)
    assert value == pytest.approx(2 / 3)
    assert worst == ["DialogueBase-0000 = DialogueBase-0001"]


def test_opening_counts_words_and_not_times() -> None:
    rows_ = make(
        ["1. 08:00 Up with the tide", "2. 09:30 Up with the gulls", "Quite another way in", "So it is"]
    )
    assert audit.opening(rows_)[0] == pytest.approx(0.5)


def test_five_grams_need_four_records() -> None:
    same = "the lamp by the door"
    three = make([f"{words_of(i)} {same}" for i in range(3)] + [words_of(9)])
    assert audit.five_grams(three)[0] == 0.0
    four = make([f"{words_of(i)} {same}" for i in range(4)])
    value, worst = audit.five_grams(four)
    assert value == pytest.approx(4 / (4 * 21))
    assert worst == [f"{same}: 4"]


def test_near_duplicates_are_found_and_named() -> None:
    base = words_of(1, 30)
    almost = base.rsplit(" ", 2)[0] + " quite other"
    value, worst = audit.near_duplicates(make([base, words_of(2, 30), almost, words_of(3, 30)]))
    assert value == pytest.approx(0.5)
    assert worst[0].startswith("DialogueBase-0000 ~ DialogueBase-0002: 0.8")


def test_constant_and_echo_have_known_scores() -> None:
    rows_ = make([words_of(i) for i in range(4)])
    assert audit.constant_answer(rows_)[0] == pytest.approx(0.25, abs=0.02)
    for row in rows_:
        row["history"] = [{"role": "user", "content": row["reference"]}]
    assert audit.echo_answer(rows_)[0] == pytest.approx(1.0)


def test_constant_floor_does_not_answer_its_own_row() -> None:
    rows_ = make([words_of(i) for i in range(4)])
    predictions = floors.constant(rows_)
    assert all(row["reference"] != text for row, text in zip(rows_, predictions, strict=True))
    repeated = make([words_of(1), words_of(1), words_of(2)])
    assert set(floors.constant(repeated)) == {words_of(1)}


def test_shuffled_floor_is_a_permutation_without_fixed_points() -> None:
    rows_ = make([words_of(i) for i in range(9)])
    predictions = floors.shuffled(rows_)
    references = [row["reference"] for row in rows_]
    assert sorted(predictions) == sorted(references)
    assert all(a != b for a, b in zip(predictions, references, strict=True))


def test_a_templated_set_misses_its_bounds_and_a_written_one_does_not() -> None:
    templated = make(
        [f"(takes your hand) I am here for you, tell me more about day {i}." for i in range(100)]
    )
    missed = {figure.name for figure in audit.problems(audit.audit({"DialogueBase": templated}))}
    assert {"most common opening", "common 5-grams", "near-duplicate references", "compression ratio",
            "constant answer, lexical S"} <= missed  # fmt: skip
    written = make([words_of(i) for i in range(100)])
    missed = {figure.name for figure in audit.problems(audit.audit({"DialogueBase": written}))}
    assert not missed & {"distinct references", "distinct inputs", "most common opening", "common 5-grams",
                         "near-duplicate references", "compression ratio", "constant answer, lexical S",
                         "echo, lexical S"}  # fmt: skip


def test_small_configs_are_measured_without_verdict() -> None:
    figures = audit.audit({"DialogueBase": make(["same"] * 10)})
    assert figures and all(figure.ok is None for figure in figures)


def test_shipped_data_miss_no_bound() -> None:
    everything = rows.rows(CARD)
    missed = audit.problems(audit.audit(everything))
    assert not missed, "\n".join(audit.lines(missed, 3))


def test_audit_command_names_figures_and_fails_on_a_miss() -> None:
    done = run_cli("audit", "DialogueEmotion", "--worst", "1")
    assert done.returncode in (0, 1), done.stderr
    assert (done.returncode == 1) == ("MISSED" in done.stdout)
    assert "echo, lexical S" in done.stdout and "RecollectionSynthesis" not in done.stdout
    wrong = run_cli("audit", "DialogueEmotions")
    assert wrong.returncode == 2 and "unknown config DialogueEmotions" in wrong.stderr


def test_plan_covers_the_grid() -> None:
    personas = [f"p{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(48)]
    cells = plan(personas)
    assert plan(personas) == cells, "deterministic"
    for config in ("DialogueBase", "DialogueEmotion", "DialogueSchedule"):
        here = [cell for cell in cells if cell.config == config]
        assert len(here) == CONFIGS[config].size
        assert len({cell.cell for cell in here}) == len(here)
        for name in ("emotion", "topic", "interaction"):
            values = [getattr(cell, name) for cell in here]
            assert max(map(values.count, set(values))) <= 0.25 * len(here), (config, name)
        people = [cell.pair.split(".")[0] for cell in here]
        assert set(people) == set(personas)
        assert max(map(people.count, personas)) <= 0.04 * len(here)
        assert sum(cell.turns >= 5 for cell in here) >= 0.25 * len(here)
    base = [cell for cell in cells if cell.config == "DialogueBase"]
    assert {cell.emotion for cell in base} <= set(EMOTIONS) and len({cell.emotion for cell in base}) >= 40
    assert {cell.topic for cell in base} == set(TOPICS)
    assert {cell.interaction for cell in cells} == set(INTERACTIONS)
    assert sum(cell.need == "implicit" for cell in base) >= len(base) / 3
    pairs = [cell.pair for cell in cells]
    assert max(map(pairs.count, set(pairs))) <= 14

"""Known answers for every check, and what a malformed check says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from h2htalk_data.checks import CHECKS, Check, failures, minutes, run, sentences

DAY = "07:30 Coffee on the steps\n12:00 Swim to the buoy\n21:30 Lights out"
PLAN = "1. 14:00 Tram to the depot\n2. 14:40 Cake for the conductor\n3. 16:10 Back by the canal"


@pytest.mark.parametrize(
    ("kind", "value", "good", "bad"),
    [
        ("max_sentences", "2", "(waves) One. Two!", "One. Two! Three?"),
        ("max_words", "3", "one two three", "one two three four"),
        ("min_words", "3", "one two three", "one two"),
        ("has_parenthetical", None, "Yes (nods).", "Yes, nods."),
        ("one_paragraph", None, "A day by the sea.", "A day\nby the sea."),
        ("first_person", None, "I'm on the roof.", "The roof is warm, isn't it?"),
        ("time_lines", None, DAY, DAY + "\nthat is all"),
        ("numbered_time_lines", ["3", "8"], PLAN, PLAN.replace("2.", "4.")),
        ("max_activities", "3", DAY, DAY + "\n22:00 Sleep"),
        ("max_asides", "1", "08:00 Walk (for the dog)", "08:00 Walk (dog)\n09:00 Tea (cold)"),
        ("chronological", None, DAY, "09:00 a\n08:00 b"),
        ("sleep_last_after", "20:00", DAY, DAY.replace("21:30", "19:30")),
        ("first_time_in_slot", "14:00-17:00", PLAN, PLAN.replace("14:00", "13:00")),
        ("times_in_slot", "14:00-17:00", PLAN, PLAN.replace("16:10", "17:10")),
        ("mentions_any", ["cello", "strings"], "The Cellos sang.", "The oboe sang."),
        ("mentions_all", ["cello", "oboe"], "Cello and oboe.", "Cello alone."),
        ("must_not_mention", ["Lyon"], "Paris in rain.", "lyon in rain"),
        ("memory_lines", ["1", "4"], "Ada swims daily. | Hobbies | 2", "Ada swims daily. | Sport | 2"),
        ("no_key_information", None, "No key information extracted.", "No information."),
    ],
)
def test_known_answers(kind: str, value: object, good: str, bad: str) -> None:
    check = Check.model_validate({"kind": kind, "value": value})
    assert run(check, good)
    assert not run(check, bad)


def test_every_check_has_a_known_answer() -> None:
    table = next(mark for mark in test_known_answers.pytestmark if mark.name == "parametrize")
    assert {case[0] for case in table.args[1]} == set(CHECKS)


def test_empty_answer_passes_no_format_check() -> None:
    lenient = {"max_asides", "must_not_mention"}
    for kind in set(CHECKS) - lenient:
        values = {"mentions_any": ["a"], "mentions_all": ["a"], "sleep_last_after": "20:00",
                  "first_time_in_slot": "08:00-09:00", "times_in_slot": "08:00-09:00",
                  "memory_lines": ["1", "4"], "numbered_time_lines": ["1", "3"]}  # fmt: skip
        numbers = {"max_sentences", "max_words", "min_words", "max_activities"}
        value = "3" if kind in numbers else values.get(kind)
        assert not run(Check.model_validate({"kind": kind, "value": value}), ""), kind


def test_night_slots_may_cross_midnight_once() -> None:
    night = Check.model_validate({"kind": "chronological"})
    assert run(night, "23:30 stars\n00:15 home")
    assert not run(night, "23:30 stars\n00:15 home\n23:50 again")
    slot = Check.model_validate({"kind": "times_in_slot", "value": "23:00-01:00"})
    assert run(slot, "1. 23:30 stars\n2. 00:15 home")
    assert not run(slot, "1. 23:30 stars\n2. 02:15 home")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("(laughs) No. Yes?", 2),
        ("Dr. Osei rang at 5 p.m. today", 1),
        ("Well... maybe later.", 1),
        ("She said “go.” I went.", 2),
        ("no stop at the end", 1),
        ("(only a gesture)", 0),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert sentences(text) == count


@given(st.lists(st.integers(0, 24 * 60 - 1), min_size=1, max_size=8, unique=True))
def test_sorted_times_are_chronological_and_in_their_own_slot(times: list[int]) -> None:
    times.sort()
    clock = [f"{t // 60:02d}:{t % 60:02d}" for t in times]
    text = "\n".join(f"{i}. {c} x" for i, c in enumerate(clock, 1))
    assert minutes(text) == times
    assert run(Check.model_validate({"kind": "chronological"}), text)
    if len(times) > 1:
        slot = {"kind": "times_in_slot", "value": f"{clock[0]}-{clock[-1]}"}
        assert run(Check.model_validate(slot), text)
        backwards = "\n".join(reversed(text.splitlines()))
        late = times[-1] >= 18 * 60 and times[-2] < 6 * 60 and len(times) == 2
        assert late or not run(Check.model_validate({"kind": "chronological"}), backwards)


@given(st.text(max_size=200))
def test_checks_never_raise_on_any_answer(text: str) -> None:
    checks = [
        Check.model_validate({"kind": kind, "value": value})
        for kind, value in [("max_sentences", "3"), ("times_in_slot", "08:00-09:00"), ("memory_lines", [1, 4]),
                            ("sleep_last_after", "20:00"), ("chronological", None), ("mentions_any", "a("),
                            ("numbered_time_lines", [3, 8]), ("has_parenthetical", None)]
    ]  # fmt: skip
    assert set(failures(checks, text)) <= set(checks)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"kind": "max_word", "value": 3}, "unknown check 'max_word'"),
        ({"kind": "max_words", "value": "three"}, "takes 1 whole number"),
        ({"kind": "times_in_slot", "value": "08:00"}, "takes a slot"),
        ({"kind": "mentions_any", "value": []}, "at least one phrase"),
        ({"kind": "max_words", "value": 3, "note": "x"}, "Extra inputs"),
    ],
)
def test_malformed_checks_say_what_is_wrong(check: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Check.model_validate(check)

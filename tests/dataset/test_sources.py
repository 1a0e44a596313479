"""The shipped records are sound, and every kind of wrong source is one clear line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from h2htalk_data.catalog import CONFIGS
from h2htalk_data.checks import failures
from h2htalk_data.labels import MEMORY_CATEGORIES, NO_KEY_INFORMATION
from h2htalk_data.records import Authored
from h2htalk_data.sources import SourceError, Sources, all_checks, input_texts, pii, read

from ..conftest import CARD

Edit = Callable[[str, int, Callable[[dict[str, Any]], None]], Path]


@pytest.fixture(scope="module")
def sources() -> Sources:
    return read(CARD)


def test_at_least_twenty_two_scenarios_per_config_and_forty_eight_personas(sources: Sources) -> None:
    assert len(sources.personas) >= 48
    for config, task in CONFIGS.items():
        assert 22 <= len(sources.scenarios[config]) <= task.size, config


def test_references_pass_their_own_checks_and_hold_no_identifiers(sources: Sources) -> None:
    for record in sources.all():
        assert not failures(all_checks(record), record.reference), record.id
        assert not [kind for text in input_texts(record) for kind in pii(text)], record.id


def test_no_pair_and_no_persona_dominates(sources: Sources) -> None:
    pairs = Counter(record.cluster for record in sources.all())
    assert max(pairs.values()) <= 14
    for config, records in sources.scenarios.items():
        personas = Counter(sources.pairs[record.cluster].persona_id for record in records)
        assert max(personas.values()) <= max(2, 0.04 * len(records)), config


def test_every_record_was_read_by_somebody_who_did_not_write_it(sources: Sources) -> None:
    for record in sources.all():
        assert record.provenance.votes, record.id
        assert record.provenance.author not in {vote.reader for vote in record.provenance.votes}, record.id


def test_gold_memories_are_the_reference_of_synthesis(sources: Sources) -> None:
    silent = 0
    for record in sources.scenarios["RecollectionSynthesis"]:
        if record.reference == NO_KEY_INFORMATION:
            silent += 1
            assert not record.gold_memories, record.id
            continue
        lines = [line.split(" | ") for line in record.reference.splitlines()]
        gold = [(memory.category, str(memory.importance)) for memory in record.gold_memories]
        assert sorted((line[1], line[2]) for line in lines) == sorted(gold), record.id
        assert all(memory.category in MEMORY_CATEGORIES for memory in record.gold_memories)
    assert silent <= 0.12 * len(sources.scenarios["RecollectionSynthesis"])


def test_ids_count_up_without_gaps_hidden_behind_duplicates(sources: Sources) -> None:
    for config, records in sources.scenarios.items():
        numbers = [int(record.id.rsplit("-", 1)[1]) for record in records]
        assert numbers == sorted(set(numbers)), config


def _problems(card: Path) -> list[str]:
    with pytest.raises(SourceError) as caught:
        read(card)
    return caught.value.problems


def test_malformed_line_names_file_and_line(card: Path) -> None:
    path = card / "scenarios" / "ItineraryBasic.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[2] = lines[2][:-5]
    path.write_text("\n".join(lines), encoding="utf-8")
    problems = _problems(card)
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}:3: not JSON: ")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: r.update(mood="sad"), ": mood: Extra inputs are not permitted"),
        (lambda r: r.update(complexity=4), ": complexity: "),
        (lambda r: r.update(emotion="sadnes"), ": emotion: unknown emotion 'sadnes'; known: "),
        (lambda r: r.update(cluster="nobody.here"), ": cluster: no pair 'nobody.here'"),
        (lambda r: r.update(id="DialogBase-0001"), "unknown config in id 'DialogBase-0001'"),
        (lambda r: r.pop("reference"), ": reference: Field required"),
        (lambda r: r.update(reference="No gesture here."), "breaks its own check has_parenthetical"),
        (lambda r: r["history"].append({"role": "assistant", "content": "x"}), "must end in a user turn"),
        (lambda r: r.update(memories=["surplus"]), "DialogueBase has no memories"),
        (lambda r: r.update(history=[]), "DialogueBase needs history"),
        (
            lambda r: r["history"].append({"role": "user", "content": "mail me: a.b@example.org"}),
            "text holds a e-mail address",
        ),
    ],
)
def test_wrong_field_names_file_line_and_field(
    edit_line: Edit, card: Path, change: Callable[[dict[str, Any]], None], expected: str
) -> None:
    def without_own_checks(record: dict[str, Any]) -> None:
        record.pop("checks", None)
        change(record)

    path = edit_line("scenarios/DialogueBase.jsonl", 2, without_own_checks)
    problems = _problems(card)
    assert len(problems) == 1, problems
    assert problems[0].startswith(f"{path}:2 (")
    assert expected in problems[0]


def test_duplicate_id_names_both_lines(edit_line: Edit, card: Path) -> None:
    first = json.loads((card / "scenarios/DialogueBase.jsonl").read_text(encoding="utf-8").split("\n")[0])
    path = edit_line("scenarios/DialogueBase.jsonl", 3, lambda r: r.update(id=first["id"]))
    assert _problems(card) == [f"{path}:3: id: duplicate {first['id']!r}, first on line 1"]


def test_unknown_config_file_is_an_error(card: Path) -> None:
    path = card / "scenarios" / "DialogueDeluxe.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    assert _problems(card)[0].startswith(f"{path}: unknown config; known: DialogueBase, ")


def test_all_problems_are_reported_at_once(edit_line: Edit, card: Path) -> None:
    edit_line("scenarios/DialogueBase.jsonl", 1, lambda r: r.update(complexity=0))
    edit_line("scenarios/ItineraryBasic.jsonl", 1, lambda r: r.update(topic="nothing"))
    edit_line("personas.jsonl", 1, lambda r: r.update(age=17))
    problems = _problems(card)
    assert sum("complexity" in problem for problem in problems) == 1
    assert sum("unknown topic" in problem for problem in problems) == 1
    assert sum(": age: " in problem for problem in problems) == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("call +44 20 7946 0958", "phone number"),
        ("see https://example.org/x", "web address"),
        ("lives at 12 Station Road", "street address"),
        ("DE89370400440532013000", "card or account number"),
    ],
)
def test_identifiers_are_found(text: str, kind: str) -> None:
    assert kind in pii(text)


@pytest.mark.parametrize(
    "text", ["at 07:30, 12:15 and 21:00", "since 1998, or 2004-2009", "four hundred 490"]
)
def test_times_and_years_are_no_identifiers(text: str) -> None:
    assert pii(text) == []


def test_authored_lines_survive_a_round_trip(sources: Sources) -> None:
    for record in sources.all():
        assert Authored.model_validate_json(record.model_dump_json(exclude_defaults=True)) == record


def test_written_cells_of_the_plan_are_scenarios_of_their_personas(sources: Sources) -> None:
    cells = {
        cell["cell"]: cell
        for cell in map(json.loads, (CARD / "plan.jsonl").read_text(encoding="utf-8").splitlines())
    }
    written = [json.loads(line) for line in (CARD / "plan_written.jsonl").read_text().splitlines()]
    records = {record.id: record for record in sources.all()}
    assert len({item["cell"] for item in written}) == len({item["id"] for item in written}) == len(written)
    for item in written:
        cell, record = cells[item["cell"]], records[item["id"]]
        assert cell["config"] == record.config
        assert cell["pair"].split(".")[0] == sources.pairs[record.cluster].persona_id

"""The statistics: known answers, and the committed ones belong to the committed data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from h2htalk_data import figures, statistics
from h2htalk_data.paths import card_folder
from h2htalk_data.rows import digest, fingerprint, rows


def test_a_spread_of_known_numbers() -> None:
    assert statistics.spread([1, 2, 3, 4, 100]) == {
        "mean": 22.0, "sd": 39.01, "min": 1, "q25": 2.0, "median": 3.0, "q75": 4.0, "max": 100,
    }  # fmt: skip
    assert statistics.spread([7])["median"] == 7


def test_verbs_with_their_objects_are_found_as_lemmas() -> None:
    texts = ["She opened the doors and fed two cats.", "He opens a door.", "They saw him.", "It rains."]
    found = statistics.verb_noun_pairs(statistics.parser()(texts))
    assert found == [("open", "door", 2), ("feed", "cat", 1)]


def test_tokens_are_counted_without_limit_and_without_special_ones() -> None:
    count = statistics.wordpiece()
    assert count("hello there") == 2 and count("") == 0
    assert count("word " * 3000) == 3000


def test_the_committed_statistics_are_those_of_the_committed_data() -> None:
    everything = rows(card_folder())
    committed = json.loads((card_folder() / statistics.FILE).read_text(encoding="utf-8"))
    now = fingerprint({config: digest(some) for config, some in everything.items()})
    assert committed["fingerprint"] == now, "run `h2htalk stats --write`"
    found = json.loads(json.dumps(statistics.statistics(everything, tokens=statistics.wordpiece())))
    assert {name: committed[name] for name in found} == found
    assert committed["all"]["n"] == sum(len(some) for some in everything.values())


def test_every_figure_is_drawn_and_shows_something(tmp_path: Path) -> None:
    some = {config: config_rows[:8] for config, config_rows in rows(card_folder()).items()}
    count = statistics.wordpiece()
    found = statistics.statistics(some, tokens=count)
    pairs = [("shake", "hand", 3), ("ring", "bell", 2), ("ring", "mother", 2), ("see", "sea", 1)]
    for path in figures.draw(some, found, pairs, count, tmp_path):
        with Image.open(path) as picture:
            colours = picture.convert("RGB").resize((200, 200)).getcolors(40_000)
        assert colours is not None and len(colours) > 30, path
    committed = {path.name for path in (card_folder() / "figures").glob("*.png")}
    assert committed == {path.name for path in tmp_path.glob("*.png")}
    assert all(f"figures/{name}" in (card_folder() / "README.md").read_text() for name in committed)


@pytest.mark.parametrize("module", ["matplotlib", "spacy", "tokenizers"])
def test_the_command_line_does_not_need_the_extra(module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; import h2htalk_harness.cli, h2htalk_data.statistics"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

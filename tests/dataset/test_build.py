"""The build is deterministic, loads from anywhere without a network, and is never stale."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from h2htalk_data import rows, table
from h2htalk_data.build import build, build_dataset
from h2htalk_data.catalog import CONFIGS
from h2htalk_data.labels import NO_KEY_INFORMATION
from h2htalk_data.paths import metric_folder
from h2htalk_data.prompts import PromptError
from h2htalk_data.sources import SourceError

from ..conftest import CARD, run_cli, run_python

Edit = Callable[[str, int, Callable[[dict[str, Any]], None]], Path]
LOAD = """
import datasets
for config in {configs!r}:
    split = datasets.load_dataset("h2htalk", config)["test"]
    print(config, len(split), split[0]["reference"])
"""


def test_two_builds_are_byte_identical(built: Path, tmp_path: Path) -> None:
    again = tmp_path / "h2htalk"
    build_dataset(CARD, again)
    names = sorted(p.relative_to(built) for p in built.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(again) for p in again.rglob("*") if p.is_file())
    for name in names:
        assert (built / name).read_bytes() == (again / name).read_bytes(), name


def test_rows_hold_what_a_model_is_sent(built: Path) -> None:
    manifest = json.loads((built / "fingerprint.json").read_text())
    for config in CONFIGS:
        for row in table.read(built / manifest["configs"][config]["file"]):
            messages = row["messages"]
            assert messages[0]["role"] == "system"
            roles = [message["role"] for message in messages[1:]]
            assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2)
            assert roles[-1] == "user"
            text = "\n".join(message["content"] for message in messages)
            assert "{" not in text.replace('{"', ""), row["id"]
            assert row["config"] == "ItineraryMiddle" or row["user"]["name"] in text
            inputs = [turn["content"] for turn in row["history"]] + row["memories"] + row["hobbies"]
            inputs += [value for name in ("current_activity", "day_overview", "user_comment")
                       if (value := row[name])]  # fmt: skip
            for value in inputs:
                assert value in text, (row["id"], value)
            silent = row["reference"] == NO_KEY_INFORMATION
            assert silent or row["reference"] not in text, row["id"]
            assert row["checks"] and row["canary"].startswith("BENCHMARK DATA")


def test_parquet_has_no_metadata_that_older_readers_reject(built: Path) -> None:
    for path in built.rglob("*.parquet"):
        assert pq.read_schema(path).metadata is None


def test_builder_and_build_agree(built: Path, tmp_path: Path) -> None:
    import datasets

    from h2htalk_dataset import H2HTalk

    assert [config.name for config in H2HTalk.BUILDER_CONFIGS] == list(CONFIGS)
    builder = H2HTalk(config_name="ItineraryAdvanced", cache_dir=str(tmp_path / "cache"), card=CARD)
    builder.download_and_prepare()
    ours = builder.as_dataset(split="test")
    theirs = datasets.load_dataset(str(built), "ItineraryAdvanced", cache_dir=str(tmp_path / "c"))["test"]
    assert ours.to_list() == theirs.to_list()
    assert ours.features == theirs.features


def test_builder_is_not_answered_from_a_stale_cache(card: Path, edit_line: Edit, tmp_path: Path) -> None:
    from h2htalk_dataset import H2HTalk

    def first_topic() -> str:
        builder = H2HTalk(config_name="ItineraryBasic", card=card, cache_dir=str(tmp_path / "cache"))
        builder.download_and_prepare()
        return str(builder.as_dataset(split="test")[0]["topic"])

    before = first_topic()
    after = "astronomy" if before != "astronomy" else "books"
    edit_line("scenarios/ItineraryBasic.jsonl", 1, lambda r: r.update(topic=after))
    assert first_topic() == after


def test_bare_names_work_offline_from_any_folder_and_follow_the_sources(
    card: Path, edit_line: Edit, tmp_path: Path
) -> None:
    """Build, load; edit, build, load; undo, build, load: from elsewhere, without a network."""
    home = {"HF_HOME": str(tmp_path / "hf")}
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    make = f"""
from pathlib import Path
from h2htalk_data.build import build
build(Path({str(card)!r}), Path({str(metric_folder())!r}), Path({str(out)!r}))
"""
    path = card / "scenarios" / "ItineraryAdvanced.jsonl"
    original = path.read_text(encoding="utf-8")
    reference = json.loads(original.split("\n")[0])["reference"]
    edited = reference + " Nothing else."
    show = LOAD.format(configs=["ItineraryAdvanced"])
    for expected in (reference, edited, reference):
        text = original
        if expected == edited:
            first, rest = original.split("\n", 1)
            text = json.dumps({**json.loads(first), "reference": edited}, ensure_ascii=False) + "\n" + rest
        path.write_text(text, encoding="utf-8")
        run_python(make, cwd=tmp_path, env=home)
        assert expected in run_python(show, cwd=elsewhere, env=home)
        assert expected in run_python(show, cwd=out, env=home)
    lengths = run_python(LOAD.format(configs=list(CONFIGS)), cwd=elsewhere, env=home)
    for config in CONFIGS:
        assert f"{config} {len((card / f'scenarios/{config}.jsonl').read_text().splitlines())} " in lengths
    score = run_python(
        "import evaluate; m = evaluate.load('h2htalk_score');"
        "print(m.compute(predictions=['a b'], references=['a b'], embedder='none')['s_lexical'])",
        cwd=elsewhere,
        env=home,
    )
    assert float(score) == pytest.approx(1.0)


def test_changed_metric_source_is_loaded_anew(tmp_path: Path) -> None:
    import shutil

    source = Path(shutil.copytree(metric_folder(), tmp_path / "metric"))
    home = {"HF_HOME": str(tmp_path / "hf")}
    out = tmp_path / "out"
    load = "import evaluate; m = evaluate.load('h2htalk_score'); print(type(m).__module__, m.info.citation)"
    script = source / "h2htalk_score.py"
    seen = []
    for note in ("", "\n# only a comment\n"):
        script.write_text(script.read_text() + note)
        build(CARD, source, out, caches=False)
        folder = str(out / "h2htalk_score")
        fill = (
            "from pathlib import Path; from h2htalk_data.build import fill_metric_cache as fill;"
            f"fill(Path({folder!r}))"
        )
        run_python(fill, cwd=tmp_path, env=home)
        seen.append(run_python(load, cwd=tmp_path, env=home).split()[0])
    assert seen[0] != seen[1]


def test_wrong_source_leaves_the_last_build(card: Path, edit_line: Edit, tmp_path: Path) -> None:
    out = tmp_path / "h2htalk"
    build_dataset(card, out)
    before = (out / "fingerprint.json").read_text()
    edit_line("scenarios/DialogueBase.jsonl", 1, lambda r: r.update(complexity=9))
    with pytest.raises(SourceError):
        build_dataset(card, out)
    assert (out / "fingerprint.json").read_text() == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_unknown_prompt_field_names_the_file(card: Path, tmp_path: Path) -> None:
    path = card / "prompts" / "ItineraryBasic.md"
    path.write_text(path.read_text() + "\n{weather}\n")
    with pytest.raises(PromptError, match=r"ItineraryBasic.md: unknown field \{weather\}; known: "):
        build_dataset(card, tmp_path / "h2htalk")


def test_prompt_change_changes_version_and_fingerprint(card: Path, tmp_path: Path) -> None:
    first = build_dataset(card, tmp_path / "a")
    path = card / "prompts" / "ItineraryBasic.md"
    path.write_text(path.read_text().replace("one paragraph", "a single paragraph"))
    second = build_dataset(card, tmp_path / "b")
    assert first[0] != second[0] and first[1] != second[1]


def test_fingerprint_depends_on_every_row(built: Path) -> None:
    everything = rows.rows(CARD)
    digests = {config: rows.digest(everything[config]) for config in CONFIGS}
    everything["DialogueBase"][0]["reference"] += " "
    changed = {**digests, "DialogueBase": rows.digest(everything["DialogueBase"])}
    assert rows.fingerprint(digests) == json.loads((built / "fingerprint.json").read_text())["fingerprint"]
    assert rows.fingerprint(digests) != rows.fingerprint(changed)


def test_build_command(tmp_path: Path) -> None:
    done = run_cli("build", "--out", tmp_path, "--no-caches", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "total" in done.stdout and (tmp_path / "h2htalk" / "README.md").is_file()
    assert (tmp_path / "h2htalk_score" / "h2htalk_score.py").is_file()

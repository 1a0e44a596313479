"""The metric card: its examples run and print what it says; the Space's table becomes arguments."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "metrics" / "h2htalk_score"
CARD = (FOLDER / "README.md").read_text("utf-8")


def test_examples_of_the_card_run(tmp_path: Path) -> None:
    """In a folder that holds the Space and nothing else, with no network."""
    examples = re.findall(r"^```python\n(.*?)^```", CARD, flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 5
    (tmp_path / "examples.txt").write_text("\n".join(examples), "utf-8")
    shutil.copytree(FOLDER, tmp_path / "h2htalk_score", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "doctest", "-v", "-o", "ELLIPSIS", "examples.txt"],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_EVALUATE_OFFLINE": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{''.join(examples).count('>>> ')} passed" in done.stdout


def test_front_matter_is_what_the_hub_asks_for() -> None:
    front = yaml.safe_load(CARD.split("---\n")[1])
    assert {
        "title",
        "emoji",
        "colorFrom",
        "colorTo",
        "sdk",
        "sdk_version",
        "app_file",
        "pinned",
        "description",
    } <= set(front)
    assert front["tags"] == ["evaluate", "metric"]
    assert (FOLDER / front["app_file"]).is_file()
    assert front["sdk_version"].startswith("6.")


@pytest.fixture(scope="module")
def app() -> ModuleType:
    pytest.importorskip("gradio")
    spec = importlib.util.spec_from_file_location("h2htalk_score_app", FOLDER / "app.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_of_the_table_become_arguments(app: ModuleType) -> None:
    rows = [["a", "b", "ItineraryBasic", "4.5"], ["c", "d", " DialogueBase ", math.nan], ["", None, "", None]]
    assert app.rows_to_arguments(rows) == {
        "predictions": ["a", "c"],
        "references": ["b", "d"],
        "configs": ["ItineraryBasic", "DialogueBase"],
        "judge_scores": [4.5, None],
    }
    assert app.rows_to_arguments([["a", "b", "", None]])["configs"] is None
    assert app.rows_to_arguments([])["judge_scores"] is None


def test_rows_that_make_no_sense(app: ModuleType) -> None:
    with pytest.raises(ValueError, match="give every row a config, or none"):
        app.rows_to_arguments([["a", "b", "DialogueBase", None], ["a", "b", "", None]])
    with pytest.raises(ValueError, match="row 0: judge score 'high' is not a number"):
        app.rows_to_arguments([["a", "b", "", "high"]])


def test_the_page_scores_over_http(app: ModuleType, tmp_path: Path) -> None:
    """The real page, served, and called as its button calls it."""
    client_module = pytest.importorskip("gradio_client")
    page = app.build()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, inbrowser=False, server_name="127.0.0.1")
    try:
        client = client_module.Client(url, verbose=False)
        table = {"headers": app.COLUMNS, "data": app.ROWS, "metadata": None}
        result, signature = client.predict(
            table, "en", "by language", app.LEXICAL_ONLY, True, api_name="/run"
        )
        assert result["n"] == 2 and result["n_judged"] == 1 and result["s"] is None
        assert 0 < result["s_lexical"] < 1 and len(result["per_example"]) == 2
        assert signature == result["signature"]
        table["data"] = [["a", "", "", None]]
        with pytest.raises(Exception, match="record 0: the reference is empty"):
            client.predict(table, "en", "by language", app.LEXICAL_ONLY, False, api_name="/run")
    finally:
        page.close()

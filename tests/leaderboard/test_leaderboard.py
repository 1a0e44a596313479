"""The leaderboard: what collect lets in, how ranks are formed, and the page in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from h2htalk_harness.baselines import FLOORS
from h2htalk_metric.aggregate import CONFIGS, DIMENSIONS, JUDGED

from ..conftest import run_cli
from ..servers import ChatServer
from .made_results import JUDGE, SIGNATURE, publish, results

SPACE = Path(__file__).resolve().parents[2] / "leaderboard"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--no-first-run",
]  # fmt: skip
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> ${alert(3)} {{value}} [x](javascript:alert(4))"
)


@pytest.fixture(scope="module", autouse=True)
def space() -> Iterator[SimpleNamespace]:
    """The Space's own modules, which import each other by bare names."""
    names = ("collect", "columns", "data", "ranking", "filters", "cells", "charts", "tabs")
    sys.path.insert(0, str(SPACE))
    try:
        import cells
        import collect
        import columns
        import data
        import filters
        import ranking
        import tabs

        yield SimpleNamespace(cells=cells, collect=collect, columns=columns, data=data, filters=filters,
                              ranking=ranking, tabs=tabs)  # fmt: skip
    finally:
        sys.path.remove(str(SPACE))
        for name in [name for name in sys.modules if name.split(".")[0] in names]:
            del sys.modules[name]


def rows_of(table: pa.Table, kind: str = "result") -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row["kind"] == kind]


# -- collect ---------------------------------------------------------------------------------------------------


def test_columns_agree_with_the_metric(space: SimpleNamespace) -> None:
    assert set(space.columns.CONFIGS) == set(CONFIGS)
    assert space.columns.DIMENSIONS == DIMENSIONS
    assert space.collect.SCHEMA.names == list(space.columns.columns())


def test_result_becomes_one_row_with_all_its_numbers(space: SimpleNamespace, tmp_path: Path) -> None:
    publish(tmp_path, "acme/Alpha-7B", 40, answers=["b", "a", "never shown"])
    table, left_out = space.collect.collect_with_problems(tmp_path)
    assert not left_out
    (row,) = rows_of(table)
    made = results("acme/Alpha-7B", 40)
    assert row["group"] == "1-8B" and row["language"] == "en" and row["judge"] == JUDGE
    assert row["overall.task"] == made["scores"]["overall"]["value"]
    assert row["overall.s.low"] < row["overall.s"] < row["overall.s.high"]
    for config, cell in made["scores"]["configs"].items():
        assert row[f"{config}.task"] == cell["task"]["value"]
        assert row[f"{config}.task.low"] == cell["intervals"]["task_100"]["low"]
        assert (row[f"{config}.task.n"], row[f"{config}.expected"]) == (cell["n"], cell["expected"])
        assert row[f"{config}.checks"] == 0.8 and row[f"{config}.ss"] == 0.8
        assert [row[f"{config}.sample_{i}"] for i in (1, 2)] == ["b", "a"]
    for dimension, names in DIMENSIONS.items():
        mean = sum(row[f"{name}.task.low"] for name in names) / len(names)
        assert row[f"{dimension}.task.low"] == pytest.approx(mean)
    assert row["target_usd"] == 1.25 and row["judge_usd"] is None
    assert "h2htalk run" in row["command"]


def test_floors_once_and_the_papers_rows_apart(space: SimpleNamespace, tmp_path: Path) -> None:
    for name in ("acme/a", "acme/b", "acme/c"):
        publish(tmp_path, name, 40)
    table = space.collect.collect(tmp_path)
    floors = rows_of(table, "floor")
    assert [row["model_id"] for row in floors] == list(FLOORS)
    for row in floors:
        assert row["overall.s"] is not None and row["overall.task"] is None
        assert all((row[f"{config}.task"] is None) == (config in JUDGED) for config in CONFIGS)
    reported = rows_of(table, "reported")
    assert len(reported) == 37
    assert all(
        not row["comparable"] and "not comparable" in row["not_comparable_because"] for row in reported
    )
    ours = json.loads((SPACE / "published_table2.json").read_text())
    theirs = Path(__file__).resolve().parents[1] / "metrics" / "published_table2.json"
    if theirs.is_file():
        assert ours == json.loads(theirs.read_text())


def test_latest_of_model_revision_and_signature_wins(space: SimpleNamespace, tmp_path: Path) -> None:
    publish(tmp_path, "acme/a", 40, time="20261101T000000Z")
    publish(tmp_path, "acme/a", 50, time="20261102T000000Z")
    publish(tmp_path, "acme/a", 30, time="20261103T000000Z", revision="other")
    publish(tmp_path, "acme/a", 20, time="20261104T000000Z", signature=SIGNATURE.replace("bge-m3", "other"))
    found = {(row["revision"], row["time"][:8]) for row in rows_of(space.collect.collect(tmp_path))}
    assert found == {("abc123", "20261102"), ("other", "20261103"), ("abc123", "20261104")}


def test_a_later_run_without_judge_does_not_replace_the_judged_one(
    space: SimpleNamespace, tmp_path: Path
) -> None:
    publish(tmp_path, "acme/a", 40, time="20261101T000000Z")
    path = publish(tmp_path, "acme/a", 45, time="20261102T000000Z")
    record = json.loads(path.read_text())
    record["results"]["judge"] = None
    path.write_text(json.dumps(record))
    assert {row["judge"] for row in rows_of(space.collect.collect(tmp_path))} == {JUDGE, ""}


def change(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(record: dict[str, Any]) -> None:
        *path, last = key.split(".")
        for part in path:
            record = record[part]
        record[last] = value

    return apply


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (change("model_id", "<script>alert(1)</script>"), "model_id"),
        (change("model_id", "acme/other"), "belongs at"),
        (change("results.scores.overall.value", float("nan")), "value"),
        (change("results.scores.overall.value", 101.0), "value"),
        (change("results.scores.configs.DialogueBase.n", 10**6), "more scores"),
        (change("results.signature", "emb:none"), "signature_hash"),
        (change("results.judge.signature", "<b>judge</b>"), "signature"),
        (change("results.extra", 1), "extra"),
        (change("results.not_comparable_because", ["<img src=x>"]), "not_comparable_because"),
        (change("results.comparable", False), "comparable"),
        (change("complete", False), "complete"),
    ],
)
def test_hostile_file_is_named_and_left_out(
    space: SimpleNamespace, tmp_path: Path, fault: Callable[[dict[str, Any]], None], named: str
) -> None:
    publish(tmp_path, "acme/good", 40)
    path = publish(tmp_path, "acme/bad", 99)
    record = json.loads(path.read_text())
    fault(record)
    path.write_text(json.dumps(record))
    table, left_out = space.collect.collect_with_problems(tmp_path)
    assert [row["model_id"] for row in rows_of(table)] == ["acme/good"]
    assert len(left_out) == 1 and left_out[0].startswith("results/acme__bad/") and named in left_out[0]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"a": ' * 5_000, b" " * (3 << 20)]
)
def test_broken_file_is_named_and_left_out(space: SimpleNamespace, tmp_path: Path, content: bytes) -> None:
    path = publish(tmp_path, "acme/bad", 40)
    path.write_bytes(content)
    table, left_out = space.collect.collect_with_problems(tmp_path)
    assert not rows_of(table) and len(left_out) == 1


def test_link_is_left_out_and_foreign_evidence_is_not_shown(space: SimpleNamespace, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    path = publish(tmp_path, "acme/a", 40, answers=["mine"])
    path.with_name("20270101T000000Z.json").symlink_to(secret)
    publish(tmp_path / "other", "acme/a", 40, answers=["somebody else's"])
    shutil.copy(next((tmp_path / "other").rglob("*.parquet")), path.with_suffix(".parquet"))
    shutil.rmtree(tmp_path / "other")
    table, left_out = space.collect.collect_with_problems(tmp_path)
    assert len(left_out) == 1 and "plain file" in left_out[0]
    (row,) = rows_of(table)
    assert row["DialogueBase.sample_1"] is None and not row["evidence"]


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("a/SmolLM2-135M-Instruct", "<1B"), ("a/Qwen2-1.5B-Instruct", "1-8B"), ("a/Llama-3.1-8B", "8-31B"),
        ("a/Qwen2.5-32B", "32B+"), ("a/Qwen3-30B-A3B", "8-31B"), ("a/Mixtral-8x7B", "32B+"),
        ("a/Qwen2.5-7B-Instruct-1M", "1-8B"), ("a/model-4bit", "unknown"), ("a/gpt-4o", "unknown"),
        ("7b/model", "1-8B"), ("a/Marco-o1", "unknown"),
    ],
)  # fmt: skip
def test_size_group_is_read_off_the_name(space: SimpleNamespace, name: str, group: str) -> None:
    assert space.collect.size_group(name) == group


def test_run_folder_is_collected_and_marked(space: SimpleNamespace, built: Path, tmp_path: Path) -> None:
    with ChatServer() as server:
        done = run_cli("run", "--model", server.url, "--judge", server.url, "--dataset", built, "--sample", "2",
                       "--embedder", "none", "--out", tmp_path / "runs" / "one")  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = tmp_path / "board.parquet"
    command = [sys.executable, str(SPACE / "collect.py"), str(tmp_path / "runs"), str(out)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 results, 0 files left out" in said.stdout
    board = space.data.read(out)
    (row,) = board.of_kind("result")
    assert row["model_id"] == "test/model" and not row["complete"] and not row["comparable"]
    assert row["overall.lexical"] is not None and row["overall.s"] is None
    assert "incomplete" in space.ranking.status(row, "lexical")
    assert row["DialogueBase.lexical.n"] == row["DialogueBase.expected"] == 2 < row["DialogueBase.size"]
    assert space.cells.percent(space.cells.coverage(row, "overall", "lexical")) != "100 %"
    assert not space.ranking.ranks(board.rows, "lexical")
    assert space.filters.first_slice(board).measure == "lexical"


# -- ranking ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def board_file(space: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six rankable results of one instrument, one each of what must not be ranked with them, hostile texts."""
    folder = tmp_path_factory.mktemp("board")
    for number, size in enumerate(("0.5B", "3B", "7B", "14B", "72B", "large")):
        publish(
            folder, f"acme/Model-{size}", 30 + 5 * number, half=0.6, answers=["(nods) I am here.", HOSTILE]
        )
    publish(folder, "acme/Incomplete-7B", 60, missing=3)
    publish(folder, "acme/Selfjudged-7B", 61, comparable=False)
    publish(folder, "acme/Unjudged-7B", 62, judge=None)
    publish(folder, "acme/Otherjudge-7B", 63, judge=JUDGE.replace("made/judge", "other/judge"))
    publish(folder, "acme/Otherembedder-7B", 64, signature=SIGNATURE.replace("bge-m3", "other"))
    publish(folder, "acme/Otherdataset-7B", 65, fingerprint="fedcba9876543210")
    table = space.collect.collect(folder)
    # The schema lets no markup in; the page must not rely on it.
    hostile = dict(rows_of(table)[-1]) | {
        "model_id": HOSTILE, "revision": HOSTILE, "failures": HOSTILE, "command": HOSTILE, "complete": False,
        "judge": JUDGE, "signature": SIGNATURE, "fingerprint": "0123456789abcdef",
    }  # fmt: skip
    more = pa.Table.from_pylist([hostile], schema=table.schema)
    path = folder / "board.parquet"
    pq.write_table(pa.concat_tables([table, more]), path)
    return path


def test_no_ranking_mixes_instruments(space: SimpleNamespace, board_file: Path) -> None:
    board = space.data.read(board_file)
    for row in board.of_kind("result"):
        chosen = space.data.instrument(row, "task")
        rows = [r for r in space.ranking.in_slice(board.rows, chosen) if r["kind"] == "result"]
        for name in ("signature", "judge", "fingerprint", "prompt_version", "language"):
            assert len({r[name] for r in rows}) == 1
    first = space.filters.first_slice(board)
    placed = space.ranking.ranks(space.ranking.in_slice(board.rows, first), "task")
    assert sorted(rank.rank for rank in placed.values()) == [1, 2, 3, 4, 5, 6]
    assert {board.rows[number]["kind"] for number in placed} == {"result"}


def test_impossible_choice_moves_to_one_that_exists(space: SimpleNamespace, board_file: Path) -> None:
    board = space.data.read(board_file)
    first = space.filters.first_slice(board)
    wanted = first._replace(fingerprint="fedcba9876543210 aaaabbbbcccc", judge="no such")
    now, values = space.ranking.options(board.of_kind("result"), wanted)
    assert now.fingerprint == wanted.fingerprint and now.judge == JUDGE
    assert values["judge"] == [JUDGE]


def test_rank_intervals_follow_the_overlaps(space: SimpleNamespace) -> None:
    def row(number: int, value: float, low: float | None, high: float | None) -> dict[str, Any]:
        return {"row": number, "kind": "result", "complete": True, "comparable": True, "overall.task": value,
                "overall.task.low": low, "overall.task.high": high}  # fmt: skip

    rows = [row(0, 50, 48, 52), row(1, 49, 47, 51), row(2, 40, 39, 41), row(3, 40, 39, 41)]
    assert space.ranking.ranks(rows, "task") == {0: (1, 1, 2), 1: (2, 1, 2), 2: (3, 3, 4), 3: (3, 3, 4)}
    rows.append(row(4, 45, None, None))
    assert space.ranking.ranks(rows, "task")[4] == (3, 1, 5), "an unknown interval allows every rank"
    rows[0]["complete"] = False
    assert 0 not in space.ranking.ranks(rows, "task")
    assert space.ranking.leaders(rows, "overall.task", "task") == {1: 1, 4: 2, 2: 3, 3: 3}


def test_tab_appears_only_with_its_columns(space: SimpleNamespace, board_file: Path) -> None:
    board = space.data.read(board_file)
    assert [tab.title for tab in space.tabs.shown(board)] == ["Leaderboard", "Compare", "Model", "About"]
    assert not board.has(["safety."]) and not board.has(["judge_agreement"])
    table = pq.read_table(board_file)
    for values, there in (([0.5] * table.num_rows, True), ([None] * table.num_rows, False)):
        column = pa.array(values, pa.float64())
        assert space.data.Board(table.append_column("safety.violations", column)).has(["safety."]) is there


def test_another_version_of_the_table_is_refused(
    space: SimpleNamespace, board_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "old.parquet"
    pq.write_table(pq.read_table(board_file).replace_schema_metadata(None), path)
    with pytest.raises(space.data.DataError, match="version unknown"):
        space.data.read(path)
    path.write_bytes(b"not parquet")
    with pytest.raises(space.data.DataError):
        space.data.read(path)


def test_page_imports_nothing_of_the_harness() -> None:
    for path in SPACE.rglob("*.py"):
        if path.name != "collect.py":
            assert "h2htalk_" not in path.read_text(encoding="utf-8").replace("h2htalk_leaderboard", ""), path


# -- the page --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(board_file: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = os.environ | {"H2HTALK_LEADERBOARD": str(board_file), "GRADIO_SERVER_PORT": str(port)}
    server = subprocess.Popen([sys.executable, "app.py"], cwd=SPACE, env=env, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "the page did not start"
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        assert "H2HTALK_TESTS_NEED_ALL" not in os.environ, "Chromium is not installed"
        pytest.skip("no Chromium")
    with api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open the page; at the end nothing may have left this machine, and no script of a result have run."""
    contexts: list[Any] = []
    requests: list[str] = []
    faults: list[str] = []

    def open_page(width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        page.wait_for_selector("#board [role=gridcell]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults
    away = [url for url in requests if not url.startswith((address, "data:", "blob:"))]
    assert requests and not away


def column(page: Any, number: int) -> list[str]:
    cells = page.locator(f'#board [role=gridcell][data-col="{number}"]')
    return [text.strip() for text in cells.all_inner_texts()]


def until(page: Any, condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("did not happen within five seconds")


def tab(page: Any, name: str) -> None:
    found = page.get_by_role("tab", name=name)
    if found.is_visible():
        found.click()
    else:
        page.locator(".overflow-menu button").first.click()
        page.locator(".overflow-dropdown button", has_text=name).click()


def test_table_loads_with_ranks_marks_and_colours(opened: Callable[..., Any]) -> None:
    page = opened()
    models = column(page, 1)
    assert models[0] == "acme/Model-large" and column(page, 0)[:6] == ["1", "2", "3", "4", "5", "6"]
    assert "acme/Incomplete-7B" in models and column(page, 0)[models.index("acme/Incomplete-7B")] == "–"
    assert "floor: constant" in models
    for other in ("judge", "embedder", "dataset"):
        assert f"acme/Other{other}-7B" not in models
    colours = page.evaluate(
        "[...document.querySelectorAll('#board [role=gridcell][data-col=\"2\"]')].map(e => e.style.backgroundColor)"
    )
    assert len(set(colours[:3])) == 3 and all(colours[:3]) and not any(colours[3:])
    assert "[" in column(page, 2)[0]
    page.locator("#board .search-input").fill("Qwen2.5-72B-Instruct-LoRA")
    until(page, lambda: column(page, 1) == ["Qwen2.5-72B-Instruct-LoRA (reported)"])
    assert column(page, 0) == ["–"]


def test_filters_change_the_table(opened: Callable[..., Any]) -> None:
    page = opened()
    page.locator("#groups").get_by_label("1-8B").uncheck()
    until(page, lambda: "acme/Model-3B" not in column(page, 1))
    assert "acme/Model-14B" in column(page, 1)
    page.locator("#beside").get_by_label("floors").uncheck()
    until(page, lambda: not any(name.startswith("floor") for name in column(page, 1)))
    page.locator("#measure").get_by_label("S only").check()
    until(page, lambda: not any("reported" in name for name in column(page, 1)))
    page.locator("#groups").get_by_label("1-8B").check()
    page.get_by_role("button", name="Dataset, language").click()
    page.locator("#judge input").click()
    page.get_by_role("option", name="other/judge").click()
    until(page, lambda: column(page, 1) == ["acme/Otherjudge-7B"])
    page.locator("#fingerprint input").click()
    page.get_by_role("option", name="fedcba9876543210").click()
    until(page, lambda: column(page, 1) == ["acme/Otherdataset-7B"])
    assert "fedcba9876543210" in page.locator("#instrument").inner_text()


def test_sorting_by_a_column(opened: Callable[..., Any]) -> None:
    page = opened()
    page.locator('#board th[data-heading="2"]').hover()
    page.locator('#board th[data-heading="2"] .cell-menu-button').click()
    page.get_by_role("menuitem", name="Sort descending").click()
    until(page, lambda: column(page, 0)[0] == "–")

    def values() -> list[float]:
        return [float(text.split("\n")[0]) for text in column(page, 2) if text != "–"]

    assert values() == sorted(values(), reverse=True)


def test_compare_draws_what_is_chosen(opened: Callable[..., Any]) -> None:
    page = opened()
    tab(page, "Compare")
    assert page.locator("#charts svg").count() == 2
    assert page.locator("#charts .legend li").count() == 3
    page.locator("#picked input").click()
    page.get_by_role("option", name="acme/Model-0.5B").click()
    until(page, lambda: page.locator("#charts .legend li").count() == 4)
    assert "Model-0.5B" in page.locator("#charts .legend").inner_text()
    page.locator("#picked input").fill("Other")
    assert page.get_by_role("option", name="Otherjudge").count() == 0


def test_model_page_shows_everything_escaped(opened: Callable[..., Any]) -> None:
    page = opened()
    tab(page, "Model")
    page.locator("#model input").click()
    page.get_by_role("option", name="script").click()
    until(page, lambda: "<script>" in page.locator("#result h2").inner_text())
    assert HOSTILE in page.locator("#result .facts").inner_text()
    page.locator("#model input").click()
    page.get_by_role("option", name="acme/Model-7B").click()
    until(page, lambda: page.locator("#result h2").inner_text() == "acme/Model-7B")
    page.locator("#result summary").first.click()
    assert HOSTILE in page.locator("#result .answer").nth(1).inner_text()
    assert SIGNATURE in page.locator("#result .facts").inner_text()
    assert page.locator("#result script, #result img, #result a").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_does_not_scroll_sideways(opened: Callable[..., Any], scheme: str) -> None:
    page = opened(390, is_mobile=True, has_touch=True, color_scheme=scheme)
    for name in ("Leaderboard", "Compare", "Model", "About"):
        tab(page, name)
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    assert "no clearance" in page.inner_text("body")

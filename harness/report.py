"""Report: results as a terminal table and as one HTML file that opens without network."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

from .data import Dataset
from .errors import StoreError
from .score import RESULTS, unique
from .store import GENERATIONS, JUDGMENTS, read_json
from .table import Line, heading, lines, main_value, main_view, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

    from h2htalk_metric.uncertainty import PairedDifference

REPORT: Final = "report.html"
_TEMPLATE = Path(__file__).parent / "report_template.html"
_SAMPLES = 3


def load(folder: Path) -> dict[str, Any]:
    """The results of a run folder.

    Raises:
        StoreError: it has not been scored.
    """
    results = read_json(folder / RESULTS)
    if results is None:
        raise StoreError(f"{folder}: no {RESULTS}; run `h2htalk score {folder}` first")
    return results


def _headers(results: dict[str, Any]) -> list[str]:
    return [heading(results), "95 %", "S", "J", "J<τ", "judge<τ", "checks", "n", "coverage"]


def _cells(line: Line, view: str) -> list[str]:
    interval = f"{line.interval[0]:.1f} … {line.interval[1]:.1f}" if line.interval else ""
    judged = "" if line.judged is None else f" ({line.judged} judged)"
    only = line.kind == "config"
    return [
        number(main_value(line, view)),
        interval,
        number(line.s),
        number(line.j) if line.judged is not None else "",
        percent(line.human_flags) if line.judged is not None else "",
        percent(line.judge_flags) if line.judged is not None else "",
        percent(line.checks) if only else "",
        f"{line.n}/{line.expected}{judged}",
        percent(line.n / line.expected if line.expected else None),
    ]


def notes(results: dict[str, Any]) -> list[str]:
    """What must be read with the table."""
    found = []
    if results["not_comparable_because"]:
        found.append(
            "NOT COMPARABLE with other results: " + "; ".join(results["not_comparable_because"]) + "."
        )
    view = main_view(results)
    if view == "s":
        found.append("No judge: the levels I-III show S, not J; averages are of S.")
    elif view == "lexical":
        found.append("No embedder: scores are the mean of the six lexical parts, which is not S.")
    failed = results["failures"]
    for role, label in (("target", "no answer"), ("judge", "no judgment"), ("judge_unscored", "unscored")):
        if failed[role]:
            kinds = ", ".join(f"{kind} {n}" for kind, n in failed[role].items())
            found.append(f"{label}: {kinds} (left out of every mean, see coverage).")
    if results["beaten_by_constant"]:
        names = ", ".join(results["beaten_by_constant"])
        found.append(f"One constant answer scores at least as well in: {names}.")
    if results["truncated"]:
        found.append(f"{results['truncated']} answers were cut at the token limit.")
    return found


def terminal(results: dict[str, Any]) -> RenderableType:
    """The table for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    model = results["model"]
    table = Table(title=f"H2HTalk · {model['model']}", title_justify="left", pad_edge=False)
    table.add_column("config")
    for name in _headers(results):
        table.add_column(name, justify="right", no_wrap=True)
    view = main_view(results)
    for line in lines(results):
        style = "" if line.kind == "config" else "bold"
        table.add_row(line.label, *_cells(line, view), style=style, end_section=line.kind == "average")
    tail = [Text(note, style="yellow") for note in notes(results)]
    tail.append(Text(f"signature {results['signature']}", style="dim"))
    if results["judge"]:
        tail.append(Text(f"judge     {results['judge']['signature']}", style="dim"))
    tail.append(Text(f"dataset   {results['dataset']['fingerprint']}", style="dim"))
    return Group(table, *tail)


def comparison_table(
    first: str,
    second: str,
    view: str,
    differences: dict[str, PairedDifference],
    effects: dict[str, float | None],
) -> RenderableType:
    """Paired differences by config for a terminal; p-values are adjusted over the configs (Holm)."""
    from rich.table import Table

    label = {"task": "task score", "s": "S", "lexical": "S, lexical part"}[view]
    table = Table(title=f"{first} − {second} ({label}, 0-100)", title_justify="left", pad_edge=False)
    table.add_column("config")
    for name in ("difference", "95 %", "p (Holm)", "n", "pairs of people", "dropped", "detectable"):
        table.add_column(name, justify="right")
    for config, found in differences.items():
        interval = "–" if found.low is None or found.high is None else f"{found.low:.2f} … {found.high:.2f}"
        p = "–" if found.p_adjusted is None else f"{found.p_adjusted:.4f}"
        counts = (str(found.n), str(found.n_clusters), str(found.n_dropped))
        table.add_row(config, number(found.diff), interval, p, *counts, number(effects.get(config)))
    return table


def floors_table(floors: dict[str, dict[str, Any]], view: str) -> RenderableType:
    """Trivial systems by config for a terminal. ``view``: ``s`` or ``lexical``."""
    from rich.table import Table

    label = "S" if view == "s" else "S, lexical part"
    table = Table(title=f"Floors and ceiling ({label}, 0-100)", title_justify="left", pad_edge=False)
    table.add_column("config")
    for name in floors:
        table.add_column(name, justify="right")
    first = next(iter(floors.values()))
    for config in first["configs"]:
        table.add_row(config, *(number(floor["configs"][config][view]) for floor in floors.values()))
    table.add_row("Overall", *(number(floor["overall"][view]) for floor in floors.values()), style="bold")
    return table


def _table_html(headers: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in headers)
    body = "".join(
        f'<tr class="{kind}">' + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for kind, cells in rows
    )
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _parts_html(results: dict[str, Any]) -> str:
    names = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_1", "rouge_l", "ss")
    labels = ("config", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-1", "ROUGE-L", "SS")
    rows = []
    for config, cell in results["scores"]["configs"].items():
        values = [number(None if cell[name] is None else 100 * cell[name]) for name in names]
        rows.append(("config", [config, *values]))
    return _table_html(labels, rows)


def _floors_html(results: dict[str, Any]) -> str:
    view = "lexical" if main_view(results) == "lexical" else "s"
    floors = results["floors"]
    rows = []
    for config, cell in results["scores"]["configs"].items():
        lexical = None if cell["s_lexical"] is None else 100 * cell["s_lexical"]
        ours = lexical if view == "lexical" else cell["s_100"]
        others = [number(floors[name]["configs"][config][view]) for name in floors]
        rows.append(("config", [config, number(ours), *others]))
    overall = results["scores"]["lexical" if view == "lexical" else "s_only"]["overall"]["value"]
    totals = [number(floors[name]["overall"][view]) for name in floors]
    rows.append(("overall", ["Overall", number(overall), *totals]))
    return _table_html(("config", "this model, S" if view == "s" else "this model, lexical", *floors), rows)


def _checks_html(results: dict[str, Any]) -> str:
    rows = [
        ("config", [config, percent(found["checks"]), percent(found["all_passed"]),
                    ", ".join(f"{kind} {percent(rate)}" for kind, rate in found["by_kind"].items())])
        for config, found in results["checks"].items()
    ]  # fmt: skip
    return _table_html(("config", "checks passed", "answers that pass all", "by kind"), rows)


def _samples_html(folder: Path, dataset: Dataset, scores: dict[str, dict[str, Any]]) -> str:
    generations, judgments = unique(folder / GENERATIONS), unique(folder / JUDGMENTS)
    shown: dict[str, int] = {}
    parts = []
    for row in dataset.rows:
        config, identity = row["config"], row["id"]
        if identity not in generations or shown.get(config, 0) >= _SAMPLES:
            continue
        shown[config] = shown.get(config, 0) + 1
        score = scores.get(identity, {})
        facts = [f"S {number(None if score.get('s') is None else 100 * score['s'])}"]
        judgment = judgments.get(identity)
        if judgment:
            verdict = judgment["unscored"] or f"{judgment['score']:.1f} of 5"
            facts.append(f"judge: {verdict}. {judgment['reason']}")
        last = row["messages"][-1]["content"]
        parts.append(
            f"<details><summary>{html.escape(identity)} "
            f"<small>{html.escape(' · '.join(facts))}</small></summary>"
            f"<dl><dt>last message</dt><dd>{html.escape(last)}</dd>"
            f"<dt>answer</dt><dd>{html.escape(generations[identity]['text'])}</dd>"
            f"<dt>reference</dt><dd>{html.escape(row['reference'])}</dd></dl></details>"
        )
    return "".join(parts)


def write_html(folder: Path, dataset: Dataset) -> Path:
    """Write ``report.html`` beside the results; everything in it is inline and escaped.

    Raises:
        StoreError: the run has not been scored.
    """
    import pyarrow.parquet as pq

    from .score import SCORES

    results = load(folder)
    scores = {row["id"]: row for row in pq.read_table(folder / SCORES).to_pylist()}
    view = main_view(results)
    rows = [(line.kind, [line.label, *_cells(line, view)]) for line in lines(results)]
    facts = {
        "model": f"{results['model']['model']}@{results['model']['revision'] or 'unknown revision'}",
        "dataset": f"{results['dataset']['fingerprint']} ({results['dataset']['authored_by']})",
        "signature": results["signature"],
        "judge": results["judge"]["signature"] if results["judge"] else "none",
        "SAP": ", ".join((results["settings"]["sap"] or {}).get("principles", [])) or "off",
    }
    page = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=html.escape(f"H2HTalk · {results['model']['model']}"),
        notes="".join(f"<p class=note>{html.escape(note)}</p>" for note in notes(results)),
        facts="".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items()),
        table=_table_html(["config", *_headers(results)], rows),
        parts=_parts_html(results),
        floors=_floors_html(results),
        checks=_checks_html(results),
        samples=_samples_html(folder, dataset, scores),
    )
    path = folder / REPORT
    path.write_text(page, encoding="utf-8")
    return path

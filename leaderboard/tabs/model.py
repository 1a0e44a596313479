"""One result in full: every number, how it was made, what it cost, and some answers."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

import gradio as gr
from cells import LABELS, ORDER, coverage, percent, score
from columns import CONFIGS, MEASURES, PARTS, SAMPLES
from data import Board, Row, full_title
from filters import Filters
from ranking import status

from tabs import Tab


def _table(headers: Iterable[str], rows: Iterable[tuple[bool, Iterable[str]]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in headers)
    body = "".join(
        f"<tr{' class=strong' if strong else ''}>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for strong, cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _scores(row: Row) -> str:
    headers = ["", *MEASURES.values(), "checks", "all checks", "judged", "J<τ", "judge<τ", "coverage"]
    lines = []
    for scope in ORDER:
        config = scope in CONFIGS
        rates = [row[f"{scope}.{n}"] for n in ("checks", "all_passed")] if config else [None, None]
        flags = [row[f"{scope}.{n}"] for n in ("human_flags", "judge_flags")] if config else [None, None]
        judged = row[f"{scope}.n_judged"] if config else None
        shares = (coverage(row, scope, measure) for measure in MEASURES)
        lines.append((not config, [
            LABELS[scope], *(score(row, scope, measure) for measure in MEASURES), *map(_rate, rates),
            str(judged) if judged else "", *map(_rate, flags),
            percent(max((share for share in shares if share is not None), default=None)),
        ]))  # fmt: skip
    return _table(headers, lines)


def _rate(value: float | None) -> str:
    return "" if value is None else percent(value)


def _parts(row: Row) -> str:
    def cell(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.2f}"

    labels = ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-1", "ROUGE-L", "SS"]
    return _table(
        ["", *labels], ((False, [name, *(cell(row[f"{name}.{part}"]) for part in PARTS)]) for name in CONFIGS)
    )


def cost(row: Row, role: str) -> str:
    """What a role used; what a server did not say is unknown, not zero."""
    prompt, completion, usd = (
        row[f"{role}_{name}"] for name in ("prompt_tokens", "completion_tokens", "usd")
    )
    if prompt is None and completion is None and usd is None:
        return "unknown"
    tokens = [f"{value:,}" if value is not None else "unknown" for value in (prompt, completion)]
    text = f"{tokens[0]} tokens in, {tokens[1]} out"
    if usd is not None:
        text += f", {usd:.2f} USD"
    return f"{text} ({row[f'{role}_price']})" if row[f"{role}_price"] else text


def facts(row: Row) -> dict[str, str]:
    """What must be known to read a result."""
    checked = "published" if row["evidence"] else "not published: nobody can recompute this result"
    sampling = f"temperature {row['temperature']:g}" if row["temperature"] is not None else "unknown"
    if row["top_p"] is not None:
        sampling += f", top-p {row['top_p']:g}"
    return {
        "Status": status(row, "task"),
        "Revision": row["revision"] or "unknown",
        "Size group": row["group"],
        "Published": row["time"],
        "Signature": row["signature"],
        "Judge": row["judge"] or "none",
        "Dataset": f"{row['fingerprint']}, prompts {row['prompt_version']} ({row['authored_by']})",
        "SAP": row["sap"] or "off",
        "Sampling": sampling,
        "Command": row["command"],
        "Cost, target": cost(row, "target"),
        "Cost, judge": cost(row, "judge") if row["judge"] else "no judge",
        "Failures": row["failures"] or "none",
        "Cut at the token limit": str(row["truncated"]),
        "A constant answer is as good in": row["beaten_by_constant"] or "no task",
        "Answers": checked,
    }


def _samples(board: Board, row: Row) -> str:
    found = board.samples(row)
    parts = []
    for config in CONFIGS:
        answers = [
            f"<p><small>{html.escape(found.get(f'{config}.sample_{i}_id', ''))}</small></p>"
            f'<div class="answer">{html.escape(found[f"{config}.sample_{i}"])}</div>'
            for i in range(1, SAMPLES + 1)
            if f"{config}.sample_{i}" in found
        ]
        if answers:
            parts.append(f"<details><summary>{config}</summary>{''.join(answers)}</details>")
    return "".join(parts) or '<p class="soft">No answers were published with this result.</p>'


def page(board: Board, row: Row) -> str:
    """A result as HTML, everything in it escaped."""
    listed = "".join(
        f"<dt>{html.escape(key)}</dt><dd{' class=mono' if key in ('Signature', 'Judge', 'Command') else ''}>"
        f"{html.escape(value)}</dd>"
        for key, value in facts(row).items()
    )
    return (
        f'<div class="page"><h2>{html.escape(row["model_id"])}</h2><dl class="facts">{listed}</dl>'
        f"<h3>Scores</h3>{_scores(row)}<h3>The seven parts of S</h3>{_parts(row)}"
        '<h3>Some answers</h3><p class="soft">The first two of each task by id, in the model\'s words.</p>'
        f"{_samples(board, row)}</div>"
    )


def build(board: Board, filters: Filters) -> None:
    """Make the tab."""
    results = board.of_kind("result")
    known = {row["row"] for row in results}

    def show(number: Any) -> str:
        return page(board, board.rows[number]) if number in known else ""

    choices = [(full_title(row), row["row"]) for row in results]
    first = choices[0][1] if choices else None
    picked = gr.Dropdown(choices, value=first, label="Result", elem_id="model", info="All instruments.")
    shown = gr.HTML(show(first), elem_id="result")
    picked.input(show, picked, shown, api_visibility="private", show_progress="hidden")


TAB = Tab("Model", 20, build)

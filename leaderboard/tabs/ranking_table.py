"""The main table: ranked results of one instrument, with floors and the paper's rows beside them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final

import gradio as gr
from cells import COLOURS, HEADERS, TYPES, WIDTHS, table
from columns import GROUPS, MEASURES
from data import Board, Row, Slice
from filters import Filters
from ranking import in_slice, rankable

from tabs import Tab

FLOORS: Final = "floors"
REPORTED: Final = "the paper's rows"
_SWATCHES: Final = " ".join(
    f'<span class="swatch" style="background:{colour}"></span> {word}'
    for colour, word in zip(COLOURS.values(), ("best", "second", "third"), strict=True)
)


def select(board: Board, chosen: Slice, groups: Sequence[str], beside: Sequence[str]) -> list[Row]:
    """The rows to show. The paper's rows have task scores only."""
    kinds = {"result", *(["floor"] if FLOORS in beside else [])}
    rows = [row for row in in_slice(board.rows, chosen) if row["kind"] in kinds]
    if REPORTED in beside and chosen.measure == "task":
        rows += board.of_kind("reported")
    return [row for row in rows if row["kind"] == "floor" or row["group"] in groups]


def captions(rows: Sequence[Row], chosen: Slice) -> tuple[str, str]:
    """What the table holds, and by which instrument, as HTML."""
    ranked = sum(rankable(row, chosen.measure) for row in rows)
    results = sum(row["kind"] == "result" for row in rows)
    if not results:
        text = "No result for this choice."
    else:
        text = f"{ranked} ranked of {results} results; {_SWATCHES} among the ranked ones shown."
    facts = (
        f"Measure: {MEASURES[chosen.measure]}. Judge: {chosen.judge or 'none'}. "
        f"Dataset: {chosen.fingerprint}. Signature: {chosen.signature}"
    )
    return f'<div class="page"><p>{text}</p></div>', f'<p class="mono soft">{html.escape(facts)}</p>'


def build(board: Board, filters: Filters) -> None:
    """Make the tab."""
    with gr.Row():
        groups = gr.CheckboxGroup(
            list(GROUPS), value=list(GROUPS), label="Size", elem_id="groups", min_width=300
        )
        beside = gr.CheckboxGroup([FLOORS, REPORTED], value=[FLOORS, REPORTED], label="Show beside, unranked",
                                  elem_id="beside", min_width=300)  # fmt: skip

    def update(
        given: Sequence[str], sizes: Sequence[str], more: Sequence[str]
    ) -> tuple[dict[str, Any], str, str]:
        chosen = Slice(*given)
        rows = select(board, chosen, sizes, more)
        return table(rows, chosen.measure), *captions(rows, chosen)

    value, text, facts = update(filters.first, GROUPS, (FLOORS, REPORTED))
    note = gr.HTML(text, elem_id="caption")
    shown = gr.Dataframe(value, headers=list(HEADERS), datatype=list(TYPES), column_widths=list(WIDTHS),
                         interactive=False, wrap=True, show_search="search", pinned_columns=2, max_height=720,
                         buttons=["copy", "fullscreen"], show_label=False, elem_id="board")  # fmt: skip
    gr.HTML(
        '<p class="soft">Scores are 0 to 100, with their 95 % interval in brackets and their coverage where '
        "it is not full. <b>Ranks</b>: the best and the worst rank that the intervals allow. Rows in italics "
        "have no rank; <i>Status</i>, the last column, says why. ⋮ in a column's head sorts and filters.</p>"
    )
    instrument = gr.HTML(facts, elem_id="instrument")
    filters.watch(update, [groups, beside], [shown, note, instrument])


TAB = Tab("Leaderboard", 0, build)

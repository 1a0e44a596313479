"""Some results of one instrument side by side: a radar and a bar chart over the eleven tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import gradio as gr
from cells import name
from charts import PALETTE, Series, bars, legend, radar
from columns import CONFIGS
from data import Board, Row, Slice, title
from filters import Filters
from ranking import in_slice, ranks, status

from tabs import Tab

MOST: Final = len(PALETTE)
_SHORT: Final = {"Dialogue": "Dial. ", "Recollection": "Rec. ", "Itinerary": "Itin. "}


def axis(config: str) -> str:
    """A config's name, short enough for a chart's edge."""
    for dimension, short in _SHORT.items():
        if config.startswith(dimension):
            return short + config.removeprefix(dimension)
    return config


def series(row: Row, measure: str) -> Series:
    """A row's scores by config."""
    names = [f"{config}.{measure}" for config in CONFIGS]
    state = status(row, measure)
    text = name(row) if state == "ranked" or row["kind"] == "floor" else f"{name(row)} ({state})"
    return Series(
        text, [row[n] for n in names], [row[f"{n}.low"] for n in names], [row[f"{n}.high"] for n in names]
    )


def charts(rows: Sequence[Row], measure: str) -> str:
    """Both charts of these rows."""
    if not rows:
        return '<p class="soft">Choose results to compare.</p>'
    lines = [series(row, measure) for row in rows[:MOST]]
    axes = [axis(config) for config in CONFIGS]
    drawn = f'<div class="charts">{radar(axes, lines)}{bars(axes, lines)}</div>'
    return f'<div class="page">{legend(lines)}{drawn}</div>'


def _choices(board: Board, chosen: Slice) -> list[tuple[str, int]]:
    rows = in_slice(board.rows, chosen)
    places = ranks(rows, chosen.measure)
    last = len(rows) + 1
    rows = sorted(rows, key=lambda row: places[row["row"]].rank if row["row"] in places else last)
    return [(title(row), row["row"]) for row in rows]


def build(board: Board, filters: Filters) -> None:
    """Make the tab."""

    def start(chosen: Slice) -> tuple[list[tuple[str, int]], list[int]]:
        choices = _choices(board, chosen)
        return choices, [number for _, number in choices[:3]]

    def draw(given: Sequence[str], numbers: Sequence[int]) -> str:
        chosen = Slice(*given)
        # A number from the browser shows nothing that is not of this instrument.
        allowed = {number for _, number in _choices(board, chosen)}
        return charts([board.rows[number] for number in numbers if number in allowed], chosen.measure)

    def reset(given: Sequence[str]) -> tuple[Any, str]:
        choices, numbers = start(Slice(*given))
        return gr.Dropdown(choices=choices, value=numbers), draw(given, numbers)

    choices, numbers = start(filters.first)
    picked = gr.Dropdown(choices, value=numbers, multiselect=True, max_choices=MOST, elem_id="picked",
                         label=f"Results of the instrument chosen above, at most {MOST}")  # fmt: skip
    drawn = gr.HTML(draw(filters.first, numbers), elem_id="charts")
    gr.HTML('<p class="soft">Whiskers are 95 % intervals. Where they overlap, the order of two models is not '
            "settled.</p>")  # fmt: skip
    picked.input(draw, [filters.chosen, picked], drawn, api_visibility="private", show_progress="hidden")
    filters.watch(reset, [], [picked, drawn])


TAB = Tab("Compare", 10, build)

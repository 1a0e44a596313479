"""How to read the table, how not to, and how to be in it."""

from __future__ import annotations

from pathlib import Path

import gradio as gr
from data import Board
from filters import Filters

from tabs import Tab

TEXT = Path(__file__).with_name("about.md")


def build(board: Board, filters: Filters) -> None:
    """Make the tab."""
    gr.Markdown(TEXT.read_text(encoding="utf-8"))


TAB = Tab("About", 90, build)

"""The leaderboard's page (gradio 6): filters above, tabs below, one Parquet file behind."""

from __future__ import annotations

import os
from pathlib import Path

# Read when gradio is imported: the page talks to nobody.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import filters  # noqa: E402
import gradio as gr  # noqa: E402
import tabs  # noqa: E402
from data import Board, DataError, load  # noqa: E402

# Fonts that are there already; gradio's own would be fetched.
FONTS = ["Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif"]
HERE = Path(__file__).resolve().parent
INTRO = """# H2HTalk leaderboard
How near language models' answers come to good answers of an emotional companion, over eleven tasks. **A high
score is no clearance to use a model with people in distress.** How to read the numbers: see *About*."""


def build(board: Board) -> gr.Blocks:
    """The page over a table."""
    with gr.Blocks(title="H2HTalk leaderboard", analytics_enabled=False) as page:
        gr.Markdown(INTRO)
        chosen = filters.build(board)
        for tab in tabs.shown(board):
            with gr.Tab(tab.title):
                tab.build(board, chosen)
    return page


def unavailable(reason: str) -> gr.Blocks:
    """The page when there is nothing to show."""
    with gr.Blocks(title="H2HTalk leaderboard", analytics_enabled=False) as page:
        gr.Markdown(INTRO)
        gr.Textbox(reason, label="The results cannot be read", interactive=False)
    return page


def main() -> None:
    """Serve the page."""
    try:
        page = build(load())
    except DataError as error:
        page = unavailable(str(error))
    theme = gr.themes.Default(font=FONTS, font_mono=["Consolas", "Menlo", "monospace"])
    page.launch(
        theme=theme,
        css_paths=HERE / "page.css",
        ssr_mode=False,
        footer_links=[],
        show_error=False,
        quiet=True,
    )


if __name__ == "__main__":
    main()

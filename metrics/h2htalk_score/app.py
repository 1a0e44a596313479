"""The metric's Space: a table of answers and references in, scores out (gradio 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import evaluate
import gradio as gr

HERE = Path(__file__).resolve().parent
LEXICAL_ONLY = "none (lexical parts only, no download)"
EMBEDDERS = [LEXICAL_ONLY, "BAAI/bge-m3", "sentence-transformers/all-MiniLM-L6-v2"]
BY_LANGUAGE = "by language"
TOKENIZERS = [BY_LANGUAGE, "13a", "zh", "jieba", "char"]
COLUMNS = ["prediction", "reference", "config", "judge score"]
ROWS: list[list[Any]] = [
    [
        "(smiles) That sounds like a long day. Do you want to tell me about it?",
        "(pulls up a chair) What a long day. Tell me about it?",
        "DialogueBase",
        None,
    ],
    [
        "1. 14:00 We browse the poetry shelf.\n2. 15:30 Mango ice, because you like it.",
        "1. 14:00 We look through the poetry shelf.\n2. 15:15 Mango ice at the corner, your favourite.",
        "ItineraryAdvanced",
        4,
    ],
    ["", "", "", None],
    ["", "", "", None],
]
INTRO = """# H2HTalk score
S compares each answer with its reference; J adds a judge's rubric score (0 to 5) for the three itinerary
levels. Fill in a row per answer; *config* and *judge score* may stay empty. What a score means, and what it
must not be used for, is in the card below."""


def rows_to_arguments(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Turn the table into arguments of `compute`; rows without any text are left out.

    Raises:
        ValueError: Some rows have a config and some do not, or a judge score is not a number.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    used = [row for row in cells if row[0] or row[1]]
    configs = [row[2].strip() for row in used]
    if any(configs) and not all(configs):
        raise ValueError("give every row a config, or none")
    scores = [_number(row[3], index) for index, row in enumerate(used)]
    return {
        "predictions": [row[0] for row in used],
        "references": [row[1] for row in used],
        "configs": configs if any(configs) else None,
        "judge_scores": scores if any(score is not None for score in scores) else None,
    }


def _cell(value: object) -> str:
    # The table gives NaN for an empty number.
    return "" if value is None or value != value else str(value)


def _number(text: str, index: int) -> float | None:
    try:
        return float(text) if text.strip() else None
    except ValueError as error:
        raise ValueError(f"row {index}: judge score {text!r} is not a number") from error


def build() -> gr.Blocks:
    """Return the page; the metric is loaded from the files beside this one."""
    metric = evaluate.load(str(HERE / "h2htalk_score.py"))
    card = (HERE / "README.md").read_text(encoding="utf-8").split("---\n", 2)[-1]

    def run(
        rows: list[list[Any]], language: str, tokenizer: str, embedder: str, per_example: bool
    ) -> tuple[dict[str, Any], str]:
        try:
            result = metric.compute(
                **rows_to_arguments(rows),
                language=language,
                tokenizer=None if tokenizer == BY_LANGUAGE else tokenizer,
                embedder=None if embedder == LEXICAL_ONLY else embedder,
                per_example=per_example,
            )
        except (ValueError, ImportError, OSError) as error:
            raise gr.Error(str(error), duration=None, print_exception=False) from error
        return result, result["signature"]

    with gr.Blocks(title="H2HTalk score") as page:
        gr.Markdown(INTRO)
        table = gr.Dataframe(
            value=ROWS,
            headers=COLUMNS,
            datatype=["str", "str", "str", "number"],
            type="array",
            column_widths=["38%", "38%", "14%", "10%"],
            wrap=True,
            interactive=True,
            show_label=False,
        )
        with gr.Row():
            language = gr.Radio(["en", "zh"], value="en", label="language")
            tokenizer = gr.Dropdown(TOKENIZERS, value=BY_LANGUAGE, label="tokenizer")
            embedder = gr.Dropdown(EMBEDDERS, value=LEXICAL_ONLY, label="embedder (SS, and with it S and J)")
            per_example = gr.Checkbox(label="scores of every row")
        button = gr.Button("Score", variant="primary")
        signature = gr.Textbox(label="signature: report it with the score", buttons=["copy"], lines=2)
        output = gr.JSON(label="scores (null: there is no such score, which is not 0)")
        button.click(run, [table, language, tokenizer, embedder, per_example], [output, signature])
        with gr.Accordion("Metric card", open=False):
            gr.Markdown(card)
    return page


if __name__ == "__main__":
    build().launch()

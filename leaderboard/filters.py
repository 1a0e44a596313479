"""The choice of instrument above the tabs: measure, dataset, language, signature and judge.

Each list holds exactly one chosen value, so no ranking can mix two of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import gradio as gr
from columns import MEASURES
from data import Board, Slice
from ranking import options

_LABELS: Final = {
    "fingerprint": "Dataset and prompts",
    "language": "Language",
    "signature": "Signature",
    "judge": "Judge",
}


class Filters(NamedTuple):
    """The chosen slice as a component's value, and the slice with which the page opens."""

    chosen: gr.State
    first: Slice

    def watch(
        self, function: Callable[..., Any], more: Sequence[gr.components.Component], outputs: Sequence[Any]
    ) -> None:
        """Call ``function(slice, *more)`` when the slice or one of ``more`` changes."""
        triggers = [self.chosen.change, *(component.input for component in more)]
        gr.on(triggers, function, [self.chosen, *more], list(outputs), api_visibility="private",
              show_progress="hidden")  # fmt: skip


def _items(text: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in text.split("|") if ":" in part)


def label(field: str, value: str, hashes: dict[str, str]) -> str:
    """A value as the list shows it: signatures are long, their hash and embedder tell them apart."""
    if field == "signature":
        return f"{hashes.get(value, '')} · embedder {_items(value).get('emb', 'unknown')}"
    if field == "judge":
        items = _items(value)
        return f"{items.get('judge', value)} · rubric {items.get('rubric', '?')}" if value else "no judge"
    return value


def first_slice(board: Board) -> Slice:
    """The slice with which the page opens: the largest that has a task score, else the largest of all."""
    results = board.of_kind("result")
    for measure in MEASURES:
        scored = [row for row in results if row[f"overall.{measure}"] is not None]
        if scored:
            return options(scored, Slice(measure, "", "", "", ""))[0]
    return options(results, Slice("task", "", "", "", ""))[0]


def _distinct(field: str, values: Sequence[str], hashes: dict[str, str]) -> list[tuple[str, str]]:
    """Choices whose labels differ, whatever the values: equal labels are numbered."""
    seen: dict[str, int] = {}
    found = []
    for value in values:
        text = label(field, value, hashes)
        seen[text] = seen.get(text, 0) + 1
        found.append((text if seen[text] == 1 else f"{text} ({seen[text]})", value))
    return found


def build(board: Board) -> Filters:
    """Make the lists and what links them; each offers only what exists with those before it."""
    results = board.of_kind("result")
    hashes = {row["signature"]: row["signature_hash"] for row in results}
    first = first_slice(board)
    values = options(results, first)[1]
    measure = gr.Radio([(name, key) for key, name in MEASURES.items()], value=first.measure, label="Measure",
                       elem_id="measure")  # fmt: skip
    with (
        gr.Accordion("Dataset, language, signature, judge", open=False, elem_id="instrument-choice"),
        gr.Row(),
    ):
        lists = [
            gr.Dropdown(_distinct(field, values[field], hashes), label=title, elem_id=field, min_width=220,
                        value=getattr(first, field) if values[field] else None, filterable=False)
            for field, title in _LABELS.items()
        ]  # fmt: skip
    chosen = gr.State(tuple(first))

    def choose(*given: str | None) -> list[Any]:
        wanted = Slice(*(value or "" for value in given))
        now, can = options(results, wanted)
        updates = [
            gr.Dropdown(choices=_distinct(field, can[field], hashes), value=getattr(now, field))
            for field in _LABELS
        ]
        return [tuple(now), *updates]

    inputs = [measure, *lists]
    gr.on([item.input for item in inputs], choose, inputs, [chosen, *lists], api_visibility="private",
          show_progress="hidden")  # fmt: skip
    return Filters(chosen, first)

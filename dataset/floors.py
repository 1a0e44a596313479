"""Trivial systems: what a score is worth if nobody thinks.

Each is a function from a config's rows to predictions, so they are scored like any model: empty, the best
constant answer, echo of the input, shuffled references, and the reference itself (the ceiling).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from h2htalk_metric.lexical import iter_scores, mean_scores
from h2htalk_metric.tokenizer_registry import get, resolve

Rows = Sequence[Mapping[str, Any]]
SHORTLIST: Final = 48


def last_input(row: Mapping[str, Any]) -> str:
    """What an echo repeats: the last message's own content, without the prompt's wording."""
    if row["user_comment"]:
        return str(row["user_comment"])
    if row["config"].startswith("Dialogue") or row["config"] == "RecollectionSynthesis":
        return str(row["history"][-1]["content"])
    for name in ("day_overview", "current_activity"):
        if row[name] and row["config"] != "ItineraryInitialization":
            return str(row[name])
    return "\n".join(row["memories"]) or str(row["current_activity"])


def empty(rows: Rows) -> list[str]:
    """Nothing at all."""
    return ["" for _ in rows]


def echo(rows: Rows) -> list[str]:
    """The last user turn, or the task's input."""
    return [last_input(row) for row in rows]


def oracle(rows: Rows) -> list[str]:
    """The reference itself."""
    return [str(row["reference"]) for row in rows]


def shuffled(rows: Rows) -> list[str]:
    """Every row gets the reference of another row of its config."""
    order = list(range(len(rows)))
    random.Random(0).shuffle(order)
    following = {a: b for a, b in zip(order, order[1:] + order[:1], strict=True)}
    return [str(rows[following[index]]["reference"]) for index in range(len(rows))]


def _overlaps(texts: Sequence[str], language: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Mean unigram F of every text against all texts: a cheap stand-in that orders candidates."""
    tokenizer = get(resolve(language))
    counts = [Counter(tokenizer.tokenize_bleu(text.lower())) for text in texts]
    frequency = Counter(token for count in counts for token in count)
    # A word that stands in one text cannot help against any other.
    shared = [token for token, n in frequency.items() if n > 1]
    vocabulary = {token: i for i, token in enumerate(shared)}
    matrix = np.zeros((len(texts), len(vocabulary)), dtype=np.float32)
    for index, count in enumerate(counts):
        for token in count:
            if token in vocabulary:
                matrix[index, vocabulary[token]] = 1.0
    lengths = np.array([max(1, sum(count.values())) for count in counts], dtype=np.float32)
    common = matrix @ matrix.T
    means: np.ndarray[Any, np.dtype[np.float32]] = (2 * common / (lengths[:, None] + lengths[None, :])).mean(
        1
    )
    return means


def ranked_constants(references: Sequence[str], language: str = "en") -> list[tuple[str, float]]:
    """References given as the answer to every row, best first, with their mean lexical S.

    All references are ordered by unigram overlap with the others and the first ``SHORTLIST``, together
    with the most common and the shortest ones, are scored in full.
    """
    order = np.argsort(-_overlaps(references, language), kind="stable")
    candidates = [references[index] for index in order[:SHORTLIST]]
    candidates += [text for text, _ in Counter(references).most_common(2)]
    candidates += sorted(references, key=len)[:2]
    tokenizer = get(resolve(language))
    ranked = []
    for text in dict.fromkeys(candidates):
        scores, _ = mean_scores(iter_scores(((text, reference) for reference in references), tokenizer))
        ranked.append((text, scores.mean if scores else 0.0))
    return sorted(ranked, key=lambda pair: -pair[1])


def constant(rows: Rows) -> list[str]:
    """The best constant answer, given to every row; the row it was taken from gets the second best.

    Otherwise a small sample would be won by the one answer that is its own reference.
    """
    references = [str(row["reference"]) for row in rows]
    ranked = [text for text, _ in ranked_constants(references, str(rows[0]["language"]))]
    best, second = ranked[0], ranked[1] if len(ranked) > 1 else ""
    repeated = Counter(references)[best] > 1
    return [second if reference == best and not repeated else best for reference in references]


SYSTEMS: Final[dict[str, Callable[[Rows], list[str]]]] = {
    "empty": empty,
    "constant": constant,
    "echo": echo,
    "shuffled": shuffled,
    "reference": oracle,
}

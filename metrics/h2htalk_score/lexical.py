"""The six lexical parts of S in one pass: BLEU-1..4, ROUGE-1 and ROUGE-L.

A pair of texts becomes a few integers (`SegmentStats`); every score is a function of those. BLEU-n is the
cumulative sentence BLEU of sacrebleu with `smooth_method="floor"`, `smooth_value=0.1`; ROUGE is the F-measure
of rouge-score without stemmer. Both are equal to those libraries to 1e-9.

NLTK's `SmoothingFunction().method1` (epsilon 0.1) gives the same BLEU whenever the prediction has at least n
tokens. When it is shorter, NLTK counts each impossible order as a precision of 0.1/1; sacrebleu leaves those
orders out (effective order, the default here) or gives 0 (without it). The metric follows sacrebleu.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from .tokenizer_registry import Tokenizer

MAX_ORDER = 4
FLOOR = 0.1

# Up to so many different characters, counting each by itself is faster than counting all at once.
_FEW = 100
_HYP_ONLY, _REF_ONLY = "\0", "\1"


class LexicalScores(NamedTuple):
    """The six lexical parts, each in [0, 1]."""

    bleu_1: float
    bleu_2: float
    bleu_3: float
    bleu_4: float
    rouge_1: float
    rouge_l: float

    @property
    def mean(self) -> float:
        """The unweighted mean of the six."""
        return sum(self) / len(self)


ZERO = LexicalScores(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class SegmentStats:
    """Sufficient statistics of one prediction against one reference (counts of tokens or n-grams)."""

    matches: tuple[int, int, int, int]
    totals: tuple[int, int, int, int]
    hyp_len: int
    ref_len: int
    rouge_overlap: int
    rouge_lcs: int
    rouge_hyp_len: int
    rouge_ref_len: int


def _as_characters(hyp: list[str], ref: list[str]) -> tuple[str, str]:
    """Write each text as a string with one character a token, equal if and only if the tokens are.

    Tokens that the other text lacks match nothing; they become one character in `hyp` and another in `ref`.
    N-grams are then short strings, and the LCS works on machine words.
    """
    characters = {token: chr(code) for code, token in enumerate(set(hyp).intersection(ref), start=2)}
    look_up = characters.get
    return (
        "".join([look_up(token, _HYP_ONLY) for token in hyp]),
        "".join([look_up(token, _REF_ONLY) for token in ref]),
    )


def _overlap(hyp: str | list[str], ref: str | list[str]) -> int:
    """Return the size of the multiset intersection of two texts' characters or n-grams."""
    common = set(hyp).intersection(ref)
    if not common:
        return 0
    if isinstance(hyp, str) and len(common) <= _FEW:
        return sum([min(hyp.count(key), ref.count(key)) for key in common])
    hyp_common = list(filter(common.__contains__, hyp))
    if len(hyp_common) == len(common):
        # Each common item stands once in the prediction, so no count needs clipping.
        return len(common)
    hyp_counts, ref_counts = Counter(hyp_common), Counter(filter(common.__contains__, ref))
    return sum(map(min, map(hyp_counts.__getitem__, common), map(ref_counts.__getitem__, common)))


def _bleu_matches(hyp: str, ref: str) -> tuple[int, int, int, int]:
    """Return the clipped n-gram matches for n = 1..4 of texts from `_as_characters`."""
    matches = [_overlap(hyp, ref), 0, 0, 0]
    # An n-gram can match only where every token of it is in both texts: within these runs.
    hyp_runs, ref_runs = hyp.split(_HYP_ONLY), ref.split(_REF_ONLY)
    for n in range(2, MAX_ORDER + 1):
        hyp_runs = [run for run in hyp_runs if len(run) >= n]
        if not hyp_runs or not matches[n - 2]:
            # An n-gram that matches contains an (n-1)-gram that matches.
            break
        ref_runs = [run for run in ref_runs if len(run) >= n]
        matches[n - 1] = _overlap(_ngrams(hyp_runs, n), _ngrams(ref_runs, n))
    return matches[0], matches[1], matches[2], matches[3]


def _ngrams(runs: Iterable[str], n: int) -> list[str]:
    return [run[start : start + n] for run in runs for start in range(len(run) - n + 1)]


def segment_stats(prediction: str, reference: str, tokenizer: Tokenizer) -> SegmentStats:
    """Count what BLEU-1..4, ROUGE-1 and ROUGE-L of one pair need.

    Args:
        prediction: The model's text; may be empty.
        reference: The reference text.
        tokenizer: From `tokenizer_registry.get`.

    Returns:
        The statistics; an empty text has length 0 and no matches.
    """
    hyp, ref = _as_characters(tokenizer.tokenize_bleu(prediction), tokenizer.tokenize_bleu(reference))
    n_hyp = len(hyp)
    matches = _bleu_matches(hyp, ref)
    if tokenizer.rouge_name == tokenizer.name:
        rouge_hyp, rouge_ref, overlap = hyp, ref, matches[0]
    else:
        rouge_hyp, rouge_ref = _as_characters(
            tokenizer.tokenize_rouge(prediction), tokenizer.tokenize_rouge(reference)
        )
        overlap = _overlap(rouge_hyp, rouge_ref)
    return SegmentStats(
        matches,
        (n_hyp, max(n_hyp - 1, 0), max(n_hyp - 2, 0), max(n_hyp - 3, 0)),
        n_hyp,
        len(ref),
        overlap,
        LCSseq.similarity(rouge_hyp, rouge_ref) if overlap else 0,
        len(rouge_hyp),
        len(rouge_ref),
    )


def bleu_scores(stats: SegmentStats, effective_order: bool = True) -> tuple[float, float, float, float]:
    """Return cumulative sentence BLEU-1..4 in [0, 1] (uniform weights, floor 0.1, brevity penalty).

    Args:
        stats: From `segment_stats`.
        effective_order: Leave out orders longer than the prediction (True), or score them 0 (False).
    """
    if not stats.matches[0]:
        return (0.0, 0.0, 0.0, 0.0)
    penalty = 0.0 if stats.hyp_len >= stats.ref_len else 1.0 - stats.ref_len / stats.hyp_len
    scores = [0.0] * MAX_ORDER
    log_sum = 0.0
    for n, (match, total) in enumerate(zip(stats.matches, stats.totals, strict=True), start=1):
        if not total:
            if effective_order:
                scores[n - 1 :] = [scores[n - 2]] * (MAX_ORDER - n + 1)
            break
        log_sum += math.log((match or FLOOR) / total)
        scores[n - 1] = math.exp(penalty + log_sum / n)
    return scores[0], scores[1], scores[2], scores[3]


def _f_measure(common: int, hyp_len: int, ref_len: int) -> float:
    # 2PR/(P+R) with P = common/hyp_len and R = common/ref_len, without the intermediate divisions.
    return 2.0 * common / (hyp_len + ref_len) if common else 0.0


def scores_from_stats(stats: SegmentStats, effective_order: bool = True) -> LexicalScores:
    """Return the six lexical parts of one pair."""
    return LexicalScores(
        *bleu_scores(stats, effective_order),
        _f_measure(stats.rouge_overlap, stats.rouge_hyp_len, stats.rouge_ref_len),
        _f_measure(stats.rouge_lcs, stats.rouge_hyp_len, stats.rouge_ref_len),
    )


def record_name(index: int, ids: Sequence[str] | None = None) -> str:
    """Return how error messages name a record: `record 3 (id ItineraryBasic-0004)`."""
    return f"record {index}" + (f" (id {ids[index]})" if ids is not None else "")


def check_reference(reference: str, index: int, ids: Sequence[str] | None = None) -> None:
    """Refuse a reference that has no text, because every score against it would be meaningless.

    Raises:
        ValueError: The reference is empty or whitespace; the message names the record.
    """
    if not reference.strip():
        raise ValueError(f"{record_name(index, ids)}: the reference is empty")


def iter_scores(
    pairs: Iterable[tuple[str, str]],
    tokenizer: Tokenizer,
    effective_order: bool = True,
    ids: Sequence[str] | None = None,
) -> Iterator[LexicalScores]:
    """Score (prediction, reference) pairs one by one, holding no more than one pair.

    Args:
        pairs: Any iterable, also one that reads from disk as it goes.
        tokenizer: From `tokenizer_registry.get`.
        effective_order: See `bleu_scores`.
        ids: Names of the records for error messages, in the order of `pairs`.

    Yields:
        One `LexicalScores` a pair; all zero for an empty or whitespace prediction.

    Raises:
        ValueError: A reference is empty; the message names the record.
    """
    for index, (prediction, reference) in enumerate(pairs):
        check_reference(reference, index, ids)
        if not prediction.strip():
            yield ZERO
        else:
            yield scores_from_stats(segment_stats(prediction, reference, tokenizer), effective_order)


def mean_scores(scores: Iterable[LexicalScores]) -> tuple[LexicalScores | None, int]:
    """Return the mean of each part over a stream of scores, and how many there were (None and 0 for none)."""
    sums = [0.0] * len(ZERO)
    n = 0
    for parts in scores:
        n += 1
        sums = [total + part for total, part in zip(sums, parts, strict=True)]
    return (LexicalScores(*(total / n for total in sums)) if n else None), n

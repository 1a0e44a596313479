"""How fast the lexical parts are beside the libraries they equal, and how much memory a long stream needs.

Run as a script: `python benchmarks/bench_lexical.py`. Everything is measured in this one run, side by side,
on 4,650 generated English pairs (4,000 of 15-40 words, 650 of 120-250), in one process; ratios carry over to
other machines, seconds do not. Exits with 1 if a value differs by more than 1e-9 or a target is missed.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from h2htalk_metric.lexical import iter_scores, mean_scores
from h2htalk_metric.tokenizer_registry import get

Pair = tuple[str, str]
Rows = Sequence[Sequence[float]]
STREAMED = 100_000
TARGET_RATIO = 8.0
TARGET_MB = 300.0
ROUNDS = 3

_COMMON = """
I you the a to and it is that in of we me my your for with on this so be at have do not but let's can was just
what all about like don't there here will when how some more if day today out then up one they know good
little (smiles softly) (leans in) (laughs) 08:30 18:45 1,200 well-worn it's we'll e.g.
"""
_SYLLABLES = [
    "ba",
    "den",
    "fo",
    "gri",
    "hal",
    "ken",
    "lo",
    "mer",
    "nis",
    "ral",
    "sto",
    "tu",
    "vel",
    "win",
    "ya",
]


def _words(rng: random.Random) -> list[str]:
    """A vocabulary of about 8,000 words, frequent ones first."""
    rare = {"".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(1, 4))) for _ in range(12_000)}
    return [*_COMMON.split(), *sorted(rare, key=lambda word: (len(word), word))[:8000]]


def generate(n_short: int, n_long: int, seed: int = 0) -> Iterator[Pair]:
    """Yield pairs whose words follow Zipf's law, with the reference's own phrases in every prediction."""
    rng = random.Random(seed)
    vocabulary = _words(rng)
    # Zipf-Mandelbrot: the most frequent word is about one in twenty, as in English.
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(vocabulary))))

    def text(n_words: int) -> list[str]:
        words = rng.choices(vocabulary, cum_weights=weights, k=n_words)
        return [word + rng.choice([",", ".", "!", "?"]) if rng.random() < 0.14 else word for word in words]

    for index in range(n_short + n_long):
        low, high = (15, 40) if index < n_short else (120, 250)
        reference = text(rng.randint(low, high))
        prediction = text(rng.randint(low, high))
        start = rng.randrange(len(reference))
        prediction[start : start + 5] = reference[start : start + 5]
        yield " ".join(prediction), " ".join(reference)


class Timed:
    """CPU seconds of one way to do the work: the first run (nothing remembered yet) and the ones after it."""

    def __init__(self, work: Callable[[], Rows]) -> None:
        self._work = work
        self._seconds: list[float] = []
        self.rows: Rows = []

    def run(self) -> None:
        """Do the work once more. CPU time, because other processes may share the machine."""
        start = time.process_time()
        self.rows = self._work()
        self._seconds.append(time.process_time() - start)

    @property
    def first(self) -> float:
        """Seconds of the first run."""
        return self._seconds[0]

    @property
    def later(self) -> float:
        """Median seconds of the runs after the first."""
        return statistics.median(self._seconds[1:])


def _library_scorer(pairs: list[Pair]) -> Callable[[], Rows]:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    bleus = [
        BLEU(tokenize="13a", smooth_method="floor", smooth_value=0.1, max_ngram_order=n, effective_order=True)
        for n in (1, 2, 3, 4)
    ]
    rouge = RougeScorer(["rouge1", "rougeL"])

    def work() -> Rows:
        rows = []
        for prediction, reference in pairs:
            f_measures = rouge.score(reference, prediction)
            rows.append(
                [
                    *(bleu.sentence_score(prediction, [reference]).score / 100 for bleu in bleus),
                    f_measures["rouge1"].fmeasure,
                    f_measures["rougeL"].fmeasure,
                ]
            )
        return rows

    return work


def stream() -> float:
    """Score 100,000 pairs that exist one at a time; return the peak resident memory of this process in MB."""
    mean, n = mean_scores(iter_scores(generate(86_000, STREAMED - 86_000, seed=1), get("13a")))
    assert mean is not None and n == STREAMED
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Measure, print the table, and return the exit code."""
    # First of all, because a child process starts with its parent's high-water mark.
    start = time.perf_counter()
    child = subprocess.run([sys.executable, __file__, "--stream"], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    megabytes = float(child.stdout)
    pairs = list(generate(4000, 650))
    tokenizer = get("13a")
    ours = Timed(lambda: list(iter_scores(pairs, tokenizer)))
    libraries = Timed(_library_scorer(pairs))
    for _ in range(ROUNDS + 1):
        libraries.run()
        ours.run()
    difference = max(
        abs(mine - theirs)
        for row, library_row in zip(ours.rows, libraries.rows, strict=True)
        for mine, theirs in zip(row, library_row, strict=True)
    )
    ratio = libraries.later / ours.later
    print(f"{len(pairs):,} pairs, CPU seconds                  first run   later runs (median of {ROUNDS})")
    print(f"  sacrebleu x 4 orders + rouge-score      {libraries.first:9.2f} s  {libraries.later:9.2f} s")
    print(f"  h2htalk_metric                          {ours.first:9.2f} s  {ours.later:9.2f} s")
    first_ratio = libraries.first / ours.first
    print(f"  ratio (target {TARGET_RATIO:g})                       {first_ratio:9.1f} x  {ratio:9.1f} x")
    print(f"  largest difference of a value           {difference:9.1e}")
    print(
        f"{STREAMED:,} pairs streamed: {megabytes:.0f} MB resident (target {TARGET_MB:.0f}), {seconds:.1f} s"
    )
    ok = difference <= 1e-9 and ratio >= TARGET_RATIO and megabytes <= TARGET_MB
    print("targets met" if ok else "TARGET MISSED")
    return 0 if ok else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--stream"]:
        print(stream())
    else:
        sys.exit(main())

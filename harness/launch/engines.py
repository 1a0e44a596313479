"""The serving engines: the command that serves one model on some GPUs, bare or in a container."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Final

from ..errors import SettingsError

CONTAINERS: Final = ("none", "apptainer", "docker")


@dataclass(frozen=True)
class Engine:
    """How an engine is started; ``{model}``, ``{gpus}`` and ``{port}`` are filled in by the job.

    ``environment``: variables in shell syntax that keep shards on one node out of each other's way.
    """

    name: str
    command: tuple[str, ...]
    revision: str
    image: str
    environment: tuple[tuple[str, str], ...] = ()


ENGINES: Final = {
    engine.name: engine
    for engine in (
        Engine(
            "tgi",
            ("text-generation-launcher", "--model-id", "{model}", "--num-shard", "{gpus}",
             "--hostname", "0.0.0.0", "--port", "{port}"),
            "--revision",
            "ghcr.io/huggingface/text-generation-inference:3.3.5",
            (
                ("MASTER_PORT", "$((port + 50))"),
                ("PROMETHEUS_PORT", "$((port + 51))"),
                ("SHARD_UDS_PATH", "/tmp/h2htalk-$SLURM_JOB_ID"),
            ),
        ),
        Engine(
            "vllm",
            ("vllm", "serve", "{model}", "--tensor-parallel-size", "{gpus}", "--host", "0.0.0.0",
             "--port", "{port}"),
            "--revision",
            "vllm/vllm-openai:latest",
        ),
        Engine(
            "sglang",
            ("python3", "-m", "sglang.launch_server", "--model-path", "{model}", "--tp-size", "{gpus}",
             "--host", "0.0.0.0", "--port", "{port}"),
            "--revision",
            "lmsysorg/sglang:latest",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Serving:
    """One model's shards: what is served, by what, on how many GPUs each.

    ``extra``: further arguments of the engine. ``image``: instead of the engine's own.
    """

    model: str
    engine: str = "tgi"
    container: str = "none"
    shards: int = 1
    gpus: int = 1
    revision: str | None = None
    image: str | None = None
    extra: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name, value, known in (
            ("engine", self.engine, tuple(ENGINES)),
            ("container", self.container, CONTAINERS),
        ):
            if value not in known:
                raise SettingsError(f"unknown {name} {value!r}; known: {', '.join(known)}")
        if not self.model.strip() or self.model.startswith("-"):
            raise SettingsError(f"model {self.model!r}: must be a Hub id or a folder")


def command(serving: Serving) -> str:
    """The shell command of one shard, everything quoted; ``$port`` is a shell variable."""
    engine = ENGINES[serving.engine]
    values = {"model": serving.model, "gpus": str(serving.gpus), "port": "$port"}
    words = [word.format(**values) for word in engine.command]
    if serving.revision:
        words += [engine.revision, serving.revision]
    words += serving.extra
    quoted = ['"$port"' if word == "$port" else shlex.quote(word) for word in words]
    image = shlex.quote(serving.image or engine.image)
    if serving.container == "apptainer":
        source = image if "://" in image or image.endswith(".sif") else f"docker://{image}"
        return " ".join(["apptainer", "exec", "--nv", source, *quoted])
    if serving.container == "docker":
        # The token and the cache reach the container by name: no value stands in the script.
        flags = [
            *("--rm", "--gpus", "all", "--network", "host", "--ipc", "host"),
            *("--env", "HF_TOKEN", "--env", "CUDA_VISIBLE_DEVICES", "--env", "HF_HOME=/hf"),
            *(word for name, _ in engine.environment for word in ("--env", name)),
            *("--volume", '"${HF_HOME:-$HOME/.cache/huggingface}":/hf'),
            *("--name", '"h2htalk-$SLURM_JOB_ID"', "--entrypoint", quoted[0]),
        ]
        return " ".join(["docker", "run", *flags, image, *quoted[1:]])
    return " ".join(quoted)

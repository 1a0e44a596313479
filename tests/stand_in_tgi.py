"""Stands for a TGI container in the Slurm tests: TGI's command line, and the test server behind it.

    python stand_in_tgi.py --model-id ORG/NAME --port PORT [--revision SHA] [--num-shard N] [--hostname ADDRESS]

The model's name may ask for trouble: ``…-that-dies`` ends after some answers, ``…-that-never-starts`` at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.servers import ChatServer  # noqa: E402

_ANSWERS_BEFORE_DEATH = 20


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-id", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--revision", default="main")
    parser.add_argument("--num-shard", type=int, default=1)
    parser.add_argument("--hostname", default="127.0.0.1")
    options = parser.parse_args()
    if options.model_id.endswith("-that-never-starts"):
        sys.exit("no such model")
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if len(gpus.split(",")) != options.num_shard:
        sys.exit(f"asked for {options.num_shard} GPUs, sees {gpus!r}")
    info = {"model_id": options.model_id, "model_sha": options.revision, "version": "3.3.5",
            "model_dtype": "float16"}  # fmt: skip
    dies = options.model_id.endswith("-that-dies") and os.environ.get("SLURM_ARRAY_TASK_ID") == "0"
    time.sleep(0.3)
    with ChatServer(info=info, port=options.port, delay=0.02) as server:
        while not (dies and server.requests > _ANSWERS_BEFORE_DEATH):
            time.sleep(0.05)
        os._exit(1)


if __name__ == "__main__":
    main()

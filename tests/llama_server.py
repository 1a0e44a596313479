"""llama.cpp's own HTTP server on the embedded model's weights: prints its URL and serves until killed.

python llama_server.py CONTEXT    # tokens of context for each of four requests at a time
"""

from __future__ import annotations

import signal
import sys

import xllamacpp

from h2htalk_harness.embedded import gguf_file


def main() -> None:
    """Serve on a free port."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(gguf_file())
    parameters.n_parallel = 4
    parameters.n_ctx = parameters.n_parallel * int(sys.argv[1])
    parameters.port = 0
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"URL {server.listening_address}\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()

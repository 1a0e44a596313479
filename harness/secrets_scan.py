"""What may never be published: anything in a folder that looks like a token, or is one of this machine's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# Shapes of secrets: a file that holds one is not sent.
_SECRETS: Final = {
    "Hugging Face token": re.compile(rb"\bhf_[A-Za-z0-9]{20,}\b"),
    "API key": re.compile(rb"\bsk-[A-Za-z0-9_-]{20,}\b"),
    "access key": re.compile(rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "password in a URL": re.compile(rb"https?://[^/\s:@\"]+:[^/\s@\"]+@"),
}


def secrets(folder: Path) -> list[str]:
    """``file: kind`` for everything in ``folder`` that looks like a secret."""
    own = [value.encode() for value in _own_tokens()]
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = _readable(path)
        where = path.relative_to(folder).as_posix()
        found += [f"{where}: {kind}" for kind, pattern in _SECRETS.items() if pattern.search(content)]
        if any(token in content for token in own):
            found.append(f"{where}: a token from this machine's environment")
    return found


def _readable(path: Path) -> bytes:
    """What a reader of the file would see: a Parquet file is compressed, so its values are."""
    if path.suffix != ".parquet":
        return path.read_bytes()
    import pyarrow.parquet as pq

    return repr(pq.read_table(path).to_pydict()).encode("utf-8", "surrogatepass")


def _own_tokens() -> Iterator[str]:
    from huggingface_hub import get_token

    names = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "H2HTALK_API_KEY")
    for value in {*(os.environ.get(name) for name in names), get_token()}:
        # Shorter ones are test values, and would be found in ordinary text.
        if value and len(value) >= 12:
            yield value

"""A disk cache of text embeddings that many processes may read and write at once.

Layout: ``<root>/<model>/<sha256>.emb``, immutable segments named by the hash of their own bytes. A writer
fills a temporary file, syncs it and renames it into place, so a reader sees a whole segment or none: no lock
is held, a process killed half-way leaves only a temporary file, and the scheme also holds on network file
systems, where SQLite's WAL mode does not work. A segment whose bytes do not hash to its name, or whose
dimension is not the model's, is set aside and its texts are embedded again.

Segment bytes: magic (8), dimension and row count (uint32, little-endian), ``count`` keys (32 bytes each:
SHA-256 of the UTF-8 text), then ``count`` rows of ``dimension`` float32, little-endian.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import struct
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]

_LOG = logging.getLogger(__name__)
_MAGIC = b"H2HEMB01"
_HEADER = struct.Struct("<8sII")
_KEY_BYTES = 32
_STALE_SECONDS = 86_400.0


def default_cache_dir() -> Path:
    """``$H2HTALK_CACHE``, else ``h2htalk/embeddings`` under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    own = os.environ.get("H2HTALK_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification tells programs to ignore a relative path.
    home = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return home / "h2htalk" / "embeddings"


def text_key(text: str) -> bytes:
    """SHA-256 of the UTF-8 bytes of ``text`` (32 bytes)."""
    return hashlib.sha256(text.encode("utf-8")).digest()


def write_atomically(path: Path, payload: bytes) -> None:
    """Write ``payload`` so that ``path`` holds either all of it or what it held before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".tmp-{os.getpid()}-{uuid.uuid4().hex}"
    try:
        with temporary.open("xb") as handle:
            handle.write(payload)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def files_digest(folder: Path, files: Sequence[Path], records: Path | None = None) -> str:
    """SHA-256 over names and contents of ``files`` in ``folder``, as hexadecimal digits.

    Args:
        folder: What the names are relative to.
        files: The files, in the order to hash them.
        records: Cache root in which the digest is remembered, for as long as sizes and times stay the same.

    Raises:
        OSError: A file cannot be read.
    """
    names = [path.relative_to(folder).as_posix() for path in files]
    stats = [path.stat() for path in files]
    state = [[n, s.st_size, s.st_mtime_ns, s.st_ctime_ns] for n, s in zip(names, stats, strict=True)]
    record = None
    if records is not None:
        place = hashlib.sha256("\0".join([str(folder), *names]).encode()).hexdigest()
        record = records / "folders" / f"{place[:32]}.json"
        # Not there, or not what was written: hash again.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(record.read_text(encoding="utf-8"))
            if known["state"] == state:
                return str(known["sha256"])
    digest = hashlib.sha256()
    for name, path, stat in zip(names, files, stats, strict=True):
        digest.update(f"{name}\0{stat.st_size}\0".encode())
        with path.open("rb") as handle:
            while chunk := handle.read(1 << 20):
                digest.update(chunk)
    if record is not None:
        # A folder that cannot be written costs a second next time, no more.
        with contextlib.suppress(OSError):
            write_atomically(record, json.dumps({"state": state, "sha256": digest.hexdigest()}).encode())
    return digest.hexdigest()


class EmbeddingCache:
    """Embeddings of one model, in one folder.

    Args:
        root: Folder of all caches.
        model: Everything that changes a vector (name, revision, pooling, dtype, backend, length limit).
        dimension: Length of the model's vectors.
        max_segments: With more segment files than this, they are merged into one when the cache is opened.
    """

    def __init__(self, root: Path, model: str, dimension: int, max_segments: int = 64) -> None:
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", model)[:60].strip("-.")
        self.folder = root / f"{slug}-{hashlib.sha256(model.encode('utf-8')).hexdigest()[:16]}"
        self.dimension = dimension
        self._max_segments = max_segments
        self._rows: dict[bytes, Vector] = {}
        self._seen: set[str] = set()

    def get(self, texts: Iterable[str]) -> dict[str, Vector]:
        """Vectors of those ``texts`` that are stored, each float32 of shape ``(dimension,)``."""
        self._refresh()
        found = ((text, self._rows.get(text_key(text))) for text in texts)
        return {text: row for text, row in found if row is not None}

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Store ``vectors`` as one new segment.

        A cache that cannot be written (full disk, read-only folder) is logged and not fatal: the vectors are
        right, they are only not kept.

        Raises:
            ValueError: A vector does not have the cache's dimension or is not finite.
        """
        rows = {text_key(text): np.asarray(row, dtype="<f4") for text, row in vectors.items()}
        for text, row in zip(vectors, rows.values(), strict=True):
            if row.shape != (self.dimension,) or not np.isfinite(row).all():
                raise ValueError(f"not a finite vector of length {self.dimension}: that of {text[:60]!r}")
        fresh = {key: row for key, row in rows.items() if key not in self._rows}
        if fresh:
            self._rows.update(fresh)
            self._write(fresh)

    def _write(self, rows: Mapping[bytes, Vector]) -> str | None:
        """Write one segment and return its file name, or None where the folder cannot be written."""
        # Sorted, so that two processes that merge or store the same rows write the same file.
        keys = sorted(rows)
        header = _HEADER.pack(_MAGIC, self.dimension, len(keys))
        payload = header + b"".join(keys) + b"".join(rows[key].tobytes() for key in keys)
        name = f"{hashlib.sha256(payload).hexdigest()}.emb"
        try:
            write_atomically(self.folder / name, payload)
        except OSError as error:
            _LOG.warning("embedding cache %s cannot be written: %s", self.folder, error)
            return None
        self._seen.add(name)
        return name

    def _refresh(self) -> None:
        """Read segments that appeared since the last look, from this process or another."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder))
        except OSError:
            return
        segments = [name for name in names if name.endswith(".emb")]
        for name in segments:
            if name not in self._seen:
                self._read(name)
        self._remove_stale(name for name in names if name.startswith(".tmp-"))
        if len(segments) > self._max_segments and (merged := self._write(self._rows)) is not None:
            # Only what was read, and so is in the merged segment, may go.
            for name in self._seen.intersection(segments) - {merged}:
                self._remove(name)

    def _read(self, name: str) -> None:
        """Take over the rows of one segment, unless it went away meanwhile or a check fails."""
        path = self.folder / name
        try:
            payload = path.read_bytes()
        except OSError as error:
            _LOG.info("embedding cache segment %s cannot be read: %s", path, error)
            return
        self._seen.add(name)
        problem = self._problem(path.stem, payload)
        if problem is not None:
            _LOG.warning("embedding cache: %s set aside (%s), its texts are embedded again", path, problem)
            # In a folder that cannot be written it stays, and is refused again next time.
            with contextlib.suppress(OSError):
                os.replace(path, path.with_suffix(".corrupt"))
            return
        _, dimension, count = _HEADER.unpack_from(payload)
        start = _HEADER.size + count * _KEY_BYTES
        matrix = np.frombuffer(payload, dtype="<f4", offset=start).reshape(count, dimension)
        keys = (payload[at : at + _KEY_BYTES] for at in range(_HEADER.size, start, _KEY_BYTES))
        self._rows.update(zip(keys, matrix, strict=True))

    def _problem(self, digest: str, payload: bytes) -> str | None:
        """What is wrong with a segment's bytes, or None."""
        if hashlib.sha256(payload).hexdigest() != digest:
            return "checksum does not match"
        if len(payload) < _HEADER.size:
            return "no header"
        magic, dimension, count = _HEADER.unpack_from(payload)
        if magic != _MAGIC:
            return "unknown format"
        if dimension != self.dimension:
            return f"dimension {dimension} instead of {self.dimension}"
        if len(payload) != _HEADER.size + count * (_KEY_BYTES + 4 * dimension):
            return "size does not match the header"
        return None

    def _remove_stale(self, names: Iterable[str]) -> None:
        """Remove what killed writers left, once it is too old to belong to a living one."""
        for name in names:
            with contextlib.suppress(OSError):
                if time.time() - (self.folder / name).stat().st_mtime > _STALE_SECONDS:
                    self._remove(name)

    def _remove(self, name: str) -> None:
        try:
            (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            _LOG.info("%s stays in %s: %s", name, self.folder, error)

"""Reading the built dataset: a local folder or a Hub repository, row by row or all at once."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from h2htalk_data.catalog import CONFIGS

from .errors import SettingsError
from .store import read_json

_HUB_NAME = re.compile(r"^[\w.-]+/[\w.-]+(?:@[\w./-]+)?$")
_PART = re.compile(r"^(\d+)/(\d+)$")
# Rows decoded at a time: enough to be quick, few enough to keep a run's memory flat.
_BATCH: Final = 64


@dataclass(frozen=True)
class Part:
    """One of ``count`` equal shares of the selected rows, ``number`` from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def parse_part(text: str | None) -> Part | None:
    """Read ``i/n``.

    Raises:
        SettingsError: not of this form, or i is not within 1..n.
    """
    if text is None:
        return None
    match = _PART.match(text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise SettingsError(f"--part {text!r}: must be i/n with i from 1 to n, as in 2/4")
    return Part(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class Dataset:
    """The selected rows of a built dataset in a fixed order, and what the whole dataset is.

    ``sizes``: rows of every config of the dataset, selected or not; the weights of the overall score.
    ``files``: Parquet file by selected config. ``chosen``: indexes of the selected rows by config.
    """

    source: str
    fingerprint: str
    prompt_version: str
    sizes: dict[str, int]
    files: dict[str, Path]
    chosen: dict[str, Sequence[int]]

    def __len__(self) -> int:
        return sum(len(self.chosen[config]) for config in self.files)

    def stream(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """The selected rows one after another, read in small batches; only ``columns`` if given."""
        import pyarrow.parquet as pq

        for config, path in self.files.items():
            indexes = self.chosen[config]
            wanted, first = iter(indexes), 0
            following = next(wanted, None)
            # Read ahead in threads, a file of any size takes a hundred megabytes more.
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
                for batch in file.iter_batches(_BATCH, columns=columns, use_threads=False):
                    offsets = []
                    while following is not None and following < first + len(batch):
                        offsets.append(following - first)
                        following = next(wanted, None)
                    first += len(batch)
                    if len(offsets) == len(batch):
                        yield from batch.to_pylist()
                    elif offsets:
                        yield from batch.take(offsets).to_pylist()
                    if following is None:
                        break

    def only(self, configs: Collection[str]) -> Dataset:
        """The selected rows of some configs."""
        return replace(self, files={name: path for name, path in self.files.items() if name in configs})

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All selected rows with all columns."""
        return list(self.stream())


def parse_configs(text: str | None) -> list[str]:
    """Config names from a comma-separated list; all eleven for None or ``all``.

    Raises:
        SettingsError: for a name that is not a config, with the known ones.
    """
    if text is None or text == "all":
        return list(CONFIGS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in CONFIGS]
    if unknown or not names:
        raise SettingsError(f"unknown config {', '.join(unknown) or repr(text)}; known: {', '.join(CONFIGS)}")
    return [name for name in CONFIGS if name in names]


def locate(source: str) -> Path:
    """Folder of a built dataset: ``source`` itself, or a snapshot of the Hub repository it names.

    Raises:
        SettingsError: no such folder and not a Hub name, or the Hub does not have it.
    """
    folder = Path(source)
    if (folder / "fingerprint.json").is_file():
        return folder
    if folder.exists() or not _HUB_NAME.match(source):
        raise SettingsError(
            f"{source}: no built dataset here; run `h2htalk build` in a checkout, "
            "or name a Hub dataset as ORG/NAME"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    name, _, revision = source.partition("@")
    try:
        return Path(snapshot_download(name, repo_type="dataset", revision=revision or None))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise SettingsError(f"{source}: the Hub does not give it: {str(error).splitlines()[0]}") from error


def load(
    source: str,
    configs: Sequence[str],
    *,
    sample: int | None = None,
    seed: int = 0,
    part: Part | None = None,
) -> Dataset:
    """The rows of ``configs``; nothing but the manifest and the files' lengths is read yet.

    Args:
        sample: so many of each config, drawn by ``seed`` and kept in file order.
        part: of the rows so selected, every ``count``-th from ``number`` on.

    Raises:
        SettingsError: the folder is not a built dataset.
    """
    folder = locate(source)
    manifest = read_json(folder / "fingerprint.json")
    if manifest is None or "configs" not in manifest:
        raise SettingsError(f"{folder}: fingerprint.json is missing; run `h2htalk build`")
    sizes = {config: int(manifest["configs"][config]["n"]) for config in CONFIGS}
    files, chosen = {}, {}
    before = 0
    for config in configs:
        path = folder / manifest["configs"][config]["file"]
        if not path.is_file():
            raise SettingsError(f"{path}: file not found; run `h2htalk build`")
        indexes: Sequence[int] = range(sizes[config])
        if sample is not None and sample < len(indexes):
            indexes = sorted(random.Random(f"{seed}:{config}").sample(indexes, sample))
        files[config] = path
        selected = len(indexes)
        if part is not None:
            indexes = indexes[(part.number - 1 - before) % part.count :: part.count]
        before += selected
        chosen[config] = indexes
    return Dataset(
        source=source,
        fingerprint=manifest["fingerprint"],
        prompt_version=manifest["prompt_version"],
        sizes=sizes,
        files=files,
        chosen=chosen,
    )

"""Reading the built dataset: a local folder or a Hub repository, as plain rows."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from h2htalk_data.catalog import CONFIGS

from .errors import SettingsError
from .store import read_json

_HUB_NAME = re.compile(r"^[\w.-]+/[\w.-]+(?:@[\w./-]+)?$")


@dataclass(frozen=True)
class Dataset:
    """Selected rows in a fixed order, and what the whole dataset is.

    ``sizes``: rows of every config of the dataset, selected or not; the weights of the overall score.
    """

    source: str
    fingerprint: str
    prompt_version: str
    sizes: dict[str, int]
    rows: list[dict[str, Any]]


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


def load(source: str, configs: Sequence[str], *, sample: int | None = None, seed: int = 0) -> Dataset:
    """Rows of ``configs``; with ``sample``, so many of each, drawn by ``seed`` and kept in file order.

    Raises:
        SettingsError: the folder is not a built dataset.
    """
    from h2htalk_data import table

    folder = locate(source)
    manifest = read_json(folder / "fingerprint.json")
    if manifest is None or "configs" not in manifest:
        raise SettingsError(f"{folder}: fingerprint.json is missing; run `h2htalk build`")
    rows: list[dict[str, Any]] = []
    for config in configs:
        path = folder / manifest["configs"][config]["file"]
        if not path.is_file():
            raise SettingsError(f"{path}: file not found; run `h2htalk build`")
        config_rows = table.read(path)
        if sample is not None and sample < len(config_rows):
            chosen = sorted(random.Random(f"{seed}:{config}").sample(range(len(config_rows)), sample))
            config_rows = [config_rows[index] for index in chosen]
        rows += config_rows
    return Dataset(
        source=source,
        fingerprint=manifest["fingerprint"],
        prompt_version=manifest["prompt_version"],
        sizes={config: manifest["configs"][config]["n"] for config in CONFIGS},
        rows=rows,
    )

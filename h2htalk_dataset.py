"""The H2HTalk dataset: eleven configs, one split ``test``, one record schema.

What a user meets first. The schema is in ``dataset/records.py``, the configs in
``dataset/catalog.py``, the checks in ``dataset/checks.py``, the prompts' wording in
``dataset_card/prompts/``. From a checkout::

    from h2htalk_dataset import H2HTalk
    builder = H2HTalk(config_name="ItineraryAdvanced")
    builder.download_and_prepare()
    builder.as_dataset(split="test")

After ``h2htalk build``: ``datasets.load_dataset("h2htalk", "ItineraryAdvanced")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets

from h2htalk_data import rows
from h2htalk_data.build import split_card
from h2htalk_data.catalog import CONFIGS
from h2htalk_data.checks import CHECKS, Check, failures
from h2htalk_data.paths import card_folder
from h2htalk_data.records import Authored, Pair, Persona, Scenario
from h2htalk_data.sources import SourceError, read
from h2htalk_data.table import SCHEMA

__all__ = [
    "CHECKS",
    "CONFIGS",
    "Authored",
    "Check",
    "H2HTalk",
    "H2HTalkConfig",
    "Pair",
    "Persona",
    "Scenario",
    "SourceError",
    "failures",
    "read",
]


class H2HTalkConfig(datasets.BuilderConfig):  # type: ignore[misc]
    """A task of the benchmark. ``dimension``: Dialogue, Recollection or Itinerary."""

    def __init__(self, name: str = "", dimension: str = "", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.dimension = dimension


class H2HTalk(datasets.GeneratorBasedBuilder):  # type: ignore[misc]
    """Builds a config straight from the authored files, validating all of them.

    Args:
        config_name: one of the eleven names in ``CONFIGS``.
        card: folder of the authored files; the checkout's ``dataset_card`` by default.

    Raises:
        SourceError: when the files are wrong; every line names file, line and field.
    """

    BUILDER_CONFIG_CLASS = H2HTalkConfig
    BUILDER_CONFIGS = [
        H2HTalkConfig(name=config.name, dimension=config.dimension, description=f"{config.size} scenarios")
        for config in CONFIGS.values()
    ]

    def __init__(self, *args: Any, card: Path | str | None = None, **options: Any) -> None:
        self._card = Path(card) if card else card_folder()
        # The cache folder is named by this digest, so edited sources are never answered from it.
        options.setdefault("hash", rows.source_digest(self._card))
        super().__init__(*args, **options)

    def _info(self) -> datasets.DatasetInfo:
        metadata, _ = split_card((self._card / "README.md").read_text(encoding="utf-8"), self._card)
        return datasets.DatasetInfo(
            description="H2HTalk: can a language model be a good emotional companion?",
            features=datasets.Features.from_arrow_schema(SCHEMA),
            license=str(metadata.get("license", "")),
            version=str(metadata["version"]),
        )

    def _split_generators(self, dl_manager: Any) -> list[Any]:
        return [datasets.SplitGenerator(name=datasets.Split.TEST)]

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for row in rows.rows(self._card)[self.config.name]:
            yield row["id"], row

"""From per-record scores to the table: config, dimension average, overall.

Config: mean over its scored records. Dimension average: unweighted mean of the dimension's configs. Overall:
mean over all scenarios, that is, the mean of the eleven configs weighted by how many scenarios each has in
the dataset. The weights stay those of the dataset when only a sample of it was run, so that a sample
estimates the same number. A record without a score is left out of its mean, shows in the coverage, and is
never counted as 0. An average over configs needs all of them: without one it has no value, and says which are
missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Config(NamedTuple):
    """One task: how many scenarios the full benchmark has of it, and where it belongs."""

    name: str
    dimension: str
    size: int
    level: int | None = None


CONFIGS: dict[str, Config] = {
    config.name: config
    for config in (
        Config("DialogueBase", "Dialogue", 1882),
        Config("DialogueEmotion", "Dialogue", 99),
        Config("DialogueSchedule", "Dialogue", 533),
        Config("RecollectionSynthesis", "Recollection", 412),
        Config("RecollectionRefinement", "Recollection", 589),
        Config("RecollectionInitialization", "Recollection", 102),
        Config("ItineraryBasic", "Itinerary", 207, 1),
        Config("ItineraryMiddle", "Itinerary", 444, 2),
        Config("ItineraryAdvanced", "Itinerary", 143, 3),
        Config("ItineraryResponse", "Itinerary", 163),
        Config("ItineraryInitialization", "Itinerary", 76),
    )
}
DIMENSIONS: dict[str, tuple[str, ...]] = {
    dimension: tuple(name for name, config in CONFIGS.items() if config.dimension == dimension)
    for dimension in ("Dialogue", "Recollection", "Itinerary")
}
JUDGED = tuple(name for name, config in CONFIGS.items() if config.level is not None)
OFFICIAL_SIZES: dict[str, int] = {name: config.size for name, config in CONFIGS.items()}


@dataclass(frozen=True, slots=True)
class Cell:
    """A mean with what it stands on.

    Attributes:
        value: The mean, or None if there is nothing (or not everything) to average.
        n: Records that have a score.
        expected: Records that should have one.
        missing: Configs whose absence leaves an average without a value.
    """

    value: float | None
    n: int
    expected: int
    missing: tuple[str, ...] = ()

    @property
    def coverage(self) -> float | None:
        """n / expected, or None when nothing was expected."""
        return self.n / self.expected if self.expected else None

    def as_dict(self) -> dict[str, object]:
        """Return the cell for JSON."""
        return {
            "value": self.value,
            "n": self.n,
            "expected": self.expected,
            "coverage": self.coverage,
            "missing": list(self.missing),
        }


@dataclass(frozen=True, slots=True)
class Table:
    """The eleven configs (those given), the three dimension averages and the overall score."""

    configs: dict[str, Cell]
    dimensions: dict[str, Cell]
    overall: Cell


def check_config(name: object, where: str = "") -> str:
    """Return `name` if it is one of the eleven.

    Raises:
        ValueError: It is not; the message lists the valid names.
    """
    if not isinstance(name, str) or name not in CONFIGS:
        prefix = f"{where}: " if where else ""
        raise ValueError(f"{prefix}unknown config {name!r}; valid: {', '.join(CONFIGS)}")
    return name


def check_sizes(sizes: Mapping[str, int], where: str = "dataset_sizes") -> dict[str, int]:
    """Return config sizes in canonical order.

    Raises:
        ValueError: A config is unknown or a size is not a positive whole number.
    """
    for name, size in sizes.items():
        check_config(name, where)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{where}: {name} must be a positive whole number, not {size!r}")
    return {name: sizes[name] for name in CONFIGS if name in sizes}


def config_cell(values: Sequence[float | None], expected: int | None = None) -> Cell:
    """Average one config.

    Args:
        values: One score a record; None for a record without a score.
        expected: How many records should have been scored; the number of `values` by default.

    Raises:
        ValueError: There are more values than expected (a record was counted twice).
    """
    scored = [value for value in values if value is not None]
    total = len(values) if expected is None else expected
    if len(scored) > total:
        raise ValueError(f"{len(scored)} scored records where {total} were expected: some are counted twice")
    return Cell(math.fsum(scored) / len(scored) if scored else None, len(scored), total)


def _average(cells: Mapping[str, Cell], names: Sequence[str], weights: Mapping[str, float]) -> Cell:
    present = {name: cells[name] for name in names if name in cells}
    values = {name: cell.value for name, cell in present.items() if cell.value is not None}
    missing = tuple(name for name in names if name not in values)
    value = None
    if not missing:
        total = math.fsum(weights[name] for name in names)
        value = math.fsum(weights[name] * values[name] for name in names) / total
    return Cell(
        value,
        sum(cell.n for cell in present.values()),
        sum(cell.expected for cell in present.values()),
        missing,
    )


def aggregate(cells: Mapping[str, Cell], sizes: Mapping[str, int] | None = None) -> Table:
    """Form the dimension averages and the overall score from config cells.

    Args:
        cells: Any of the eleven configs.
        sizes: Scenarios of each config in the dataset: the weights of the overall score. The published counts
            (`OFFICIAL_SIZES`) by default; they need not be what was run.

    Returns:
        The table. A dimension (the overall score) has a value only if all its (all eleven) configs have one.

    Raises:
        ValueError: A config is unknown, a size is not a positive whole number, or a scored config has none.
    """
    for name in cells:
        check_config(name)
    weights = dict(OFFICIAL_SIZES) if sizes is None else check_sizes(sizes)
    for name in cells:
        if name not in weights:
            raise ValueError(f"dataset_sizes: no size for {name}, which was scored")
    configs = {name: cells[name] for name in CONFIGS if name in cells}
    equal = dict.fromkeys(CONFIGS, 1.0)
    dimensions = {dimension: _average(configs, names, equal) for dimension, names in DIMENSIONS.items()}
    return Table(configs, dimensions, _average(configs, tuple(CONFIGS), weights))


def table_from_means(means: Mapping[str, float], sizes: Mapping[str, int] | None = None) -> Table:
    """Form a table from config means alone, for instance those of a published table.

    Args:
        means: Config scores.
        sizes: As for `aggregate`; also taken as the n of each config.
    """
    counts = OFFICIAL_SIZES if sizes is None else sizes
    cells = {check_config(name): Cell(mean, counts[name], counts[name]) for name, mean in means.items()}
    return aggregate(cells, sizes)

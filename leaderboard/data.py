"""The leaderboard's data: one Parquet file, local or from the results dataset, read once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from columns import VERSION, columns, sample_columns

Row = dict[str, Any]
FILE: Final = "leaderboard.parquet"
LOCAL: Final = "H2HTALK_LEADERBOARD"
REMOTE: Final = "H2HTALK_RESULTS"
# Written beside the page when it is published for an organisation.
REPO_FILE: Final = Path(__file__).with_name("results_repo.txt")


class DataError(RuntimeError):
    """There is no table, or not one that this page can show."""


class Slice(NamedTuple):
    """One instrument: rows that may stand in one ranking share all of it."""

    measure: str
    fingerprint: str
    language: str
    signature: str
    judge: str


class Board:
    """The rows of the table; sample answers stay in Arrow until somebody opens a model."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        long = set(sample_columns())
        self.columns = tuple(table.column_names)
        names = [name for name in table.column_names if name not in long]
        self.rows: list[Row] = table.select(names).to_pylist()
        for number, row in enumerate(self.rows):
            row["row"] = number

    def of_kind(self, *kinds: str) -> list[Row]:
        """Rows of these kinds, in the table's order."""
        return [row for row in self.rows if row["kind"] in kinds]

    def has(self, needs: Iterable[str]) -> bool:
        """Whether the table holds all these columns with anything in them.

        A name that ends in a point stands for any column that begins with it.
        """
        return all(any(self._filled(name) for name in self._matching(need)) for need in needs)

    def _matching(self, need: str) -> list[str]:
        return [name for name in self.columns if name == need or (need[-1] == "." and name.startswith(need))]

    def _filled(self, name: str) -> bool:
        column = self._table.column(name)
        return bool(column.null_count < len(column))

    def samples(self, row: Row) -> dict[str, str]:
        """The sample answers of a row by column name."""
        names = [name for name in sample_columns() if name in self.columns]
        found: Row = self._table.select(names).slice(row["row"], 1).to_pylist()[0]
        return {name: value for name, value in found.items() if value is not None}


def title(row: Row) -> str:
    """A row's name in a list of one instrument."""
    if row["kind"] == "floor":
        return f"floor: {row['model_id']}"
    return f"{row['model_id']} @ {row['revision'] or 'unknown revision'}"


def full_title(row: Row) -> str:
    """A result's name in the list of all."""
    day = f"{row['time'][:4]}-{row['time'][4:6]}-{row['time'][6:8]}"
    return " · ".join((title(row), row["signature_hash"], row["fingerprint"], day))


def instrument(row: Row, measure: str) -> Slice:
    """The slice that a result belongs to, by a measure."""
    return Slice(
        measure,
        f"{row['fingerprint']} {row['prompt_version']}",
        row["language"],
        row["signature"],
        row["judge"],
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def read(path: Path) -> Board:
    """The table in a Parquet file.

    Raises:
        DataError: it cannot be read, or was written by another version of ``collect.py``.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: {_first_line(error)}") from error
    version = (table.schema.metadata or {}).get(b"h2htalk_leaderboard", b"").decode()
    missing = [name for name in columns() if name not in table.column_names]
    if version != VERSION or missing:
        raise DataError(f"{path}: is of version {version or 'unknown'}, this page reads {VERSION}")
    return Board(table)


def load() -> Board:
    """The table that the environment names.

    Raises:
        DataError: it names none, or one that cannot be had.
    """
    if local := os.environ.get(LOCAL):
        return read(Path(local))
    repo = os.environ.get(REMOTE) or (
        REPO_FILE.read_text(encoding="utf-8").strip() if REPO_FILE.is_file() else ""
    )
    if not repo:
        raise DataError(f"set {LOCAL} to a Parquet file or {REMOTE} to a results dataset")
    # Slow to import, and not needed for a local file.
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return read(Path(hf_hub_download(repo, FILE, repo_type="dataset")))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise DataError(f"{repo}: {_first_line(error)}") from error

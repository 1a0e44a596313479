"""The Arrow schema of the built dataset, one for all configs, and its Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_STRING = pa.string()
_TURNS = pa.list_(pa.struct([("role", _STRING), ("content", _STRING)]))
_VOTE = pa.struct(
    [
        ("reader", _STRING),
        ("kind", _STRING),
        *((name, pa.bool_()) for name in ("accurate", "consistent", "compliant", "distinct")),
    ]
)

SCHEMA = pa.schema(
    [
        *((name, _STRING) for name in ("id", "config", "dimension", "language", "persona_id", "cluster")),
        ("user", pa.struct([("name", _STRING), ("profile", _STRING)])),
        *((name, _STRING) for name in ("interaction", "emotion", "need")),
        ("complexity", pa.int32()),
        ("topic", _STRING),
        ("history", _TURNS),
        *((name, pa.list_(_STRING)) for name in ("memories", "hobbies", "today_schedule")),
        *((name, _STRING) for name in ("current_activity", "day_overview", "user_comment")),
        ("messages", _TURNS),
        ("reference", _STRING),
        (
            "gold_memories",
            pa.list_(pa.struct([("content", _STRING), ("category", _STRING), ("importance", pa.int32())])),
        ),
        ("checks", pa.list_(pa.struct([("kind", _STRING), ("value", pa.list_(_STRING))]))),
        (
            "provenance",
            pa.struct(
                [
                    *((name, _STRING) for name in ("author", "author_kind", "written")),
                    ("rewritten", pa.bool_()),
                    ("votes", pa.list_(_VOTE)),
                ]
            ),
        ),
        ("prompt_version", _STRING),
        ("canary", _STRING),
    ]
)


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows as one zstd Parquet file, without the schema metadata that older readers reject."""
    table = pa.Table.from_pylist(rows, schema=SCHEMA).replace_schema_metadata(None)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")


def read(path: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """Rows of a Parquet file as plain values."""
    rows: list[dict[str, Any]] = pq.read_table(path, columns=columns).to_pylist()
    return rows

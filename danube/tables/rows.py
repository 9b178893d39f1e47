"""The columns of a topic as a table: names, order and types. What is not wanted is not built."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]

_TIME = pa.timestamp("us", tz="UTC")
_MAP = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    arrow_type: pa.DataType
    nullable: bool = False


COLUMNS = (
    Column("topic", pa.string()),
    Column("partition", pa.int32(), nullable=True),
    Column("offset", pa.int64()),
    Column("append_time", _TIME),
    Column("publish_time", _TIME, nullable=True),
    Column("producer_name", pa.string()),
    Column("key", pa.string(), nullable=True),
    Column("attributes", _MAP),
    Column("schema_id", pa.int64(), nullable=True),
    Column("schema_version", pa.int64(), nullable=True),
    Column("value", pa.binary()),
)
"""In the order of a row."""

COLUMN_NAMES = tuple(column.name for column in COLUMNS)


def chosen(names: Sequence[str]) -> tuple[Column, ...]:
    """The columns of these names, in the order of a row."""
    return tuple(column for column in COLUMNS if column.name in names)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """Schema of the Arrow batches."""
    return pa.schema([pa.field(column.name, column.arrow_type, nullable=column.nullable) for column in chosen(names)])

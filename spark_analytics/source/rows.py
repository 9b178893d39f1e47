"""The columns of the data source `danube`: names, order and types, for Spark and for Arrow, in one place.

`columns` is a choice of them; Spark does not push projections down to Python, so what is not wanted is not built.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]

_TIME = pa.timestamp("us", tz="UTC")
_MAP = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as both sides call its type."""

    name: str
    spark_type: str
    arrow_type: pa.DataType
    nullable: bool = False


COLUMNS = (
    Column("topic", "STRING", pa.string()),
    Column("partition", "INT", pa.int32(), nullable=True),
    Column("offset", "BIGINT", pa.int64()),
    Column("append_time", "TIMESTAMP", _TIME),
    Column("publish_time", "TIMESTAMP", _TIME, nullable=True),
    Column("producer_name", "STRING", pa.string()),
    Column("key", "STRING", pa.string(), nullable=True),
    Column("attributes", "MAP<STRING, STRING>", _MAP),
    Column("schema_id", "BIGINT", pa.int64(), nullable=True),
    Column("schema_version", "BIGINT", pa.int64(), nullable=True),
    Column("value", "BINARY", pa.binary()),
)
"""In the order of a row."""

COLUMN_NAMES = tuple(column.name for column in COLUMNS)


def chosen(names: Sequence[str]) -> tuple[Column, ...]:
    """The columns of these names, in the order of a row."""
    return tuple(column for column in COLUMNS if column.name in names)


def spark_schema(names: Sequence[str]) -> str:
    """Schema for Spark, as DDL."""
    return ", ".join(
        f"`{column.name}` {column.spark_type}{'' if column.nullable else ' NOT NULL'}" for column in chosen(names)
    )


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """Schema of the Arrow batches; the same as Spark makes of `spark_schema`."""
    return pa.schema([pa.field(column.name, column.arrow_type, nullable=column.nullable) for column in chosen(names)])

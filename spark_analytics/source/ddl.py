"""Types of Arrow as Spark writes them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from danube.tables.rows import chosen

_PLAIN: Final[Mapping[Any, str]] = {
    pa.string(): "STRING", pa.binary(): "BINARY", pa.bool_(): "BOOLEAN", pa.int32(): "INT", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}  # fmt: skip


def columns_ddl(names: Sequence[str]) -> str:
    """The chosen columns of a topic."""
    return ", ".join(
        f"`{column.name}` {type_ddl(column.arrow_type)}{'' if column.nullable else ' NOT NULL'}"
        for column in chosen(names)
    )


def type_ddl(kind: Any) -> str:  # noqa: ANN401 - pyarrow has no types
    """One type that a topic's table has."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<{type_ddl(kind.key_type)}, {type_ddl(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{type_ddl(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {type_ddl(field.type)}' for field in fields)}>"
    return _PLAIN[kind]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

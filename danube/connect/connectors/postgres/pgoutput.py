"""Decoder of pgoutput, the format of logical replication (version 1): bytes in, changes out. Pure."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from danube.model.untrusted_json import decode_json

Row = dict[str, Any]
_INTEGERS = {20, 21, 23, 26}
_FLOATS = {700, 701}
_BOOLEAN, _JSONS = 16, {114, 3802}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type_id: int
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is from here on in the stream."""

    name: str
    """With its schema."""
    columns: tuple[Column, ...]

    def key_of(self, row: Mapping[str, Any]) -> Row:
        """The columns of a row that identify it."""
        return {column.name: row.get(column.name) for column in self.columns if column.is_key}


@dataclass(frozen=True, slots=True)
class Change:
    """One row that was inserted (c), updated (u) or deleted (d), or a table that was truncated (t)."""

    operation: str
    relation: Relation
    before: Row | None = None
    """The whole row with REPLICA IDENTITY FULL, else its key, and of an update only where that changed."""
    after: Row | None = None
    unchanged: tuple[str, ...] = ()
    """Large columns that an update left alone: Postgres sends no value."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins."""

    lsn: int
    """Of its commit."""
    time_us: int
    """Since 2000."""


@dataclass(frozen=True, slots=True)
class Commit:
    """It is complete."""

    end_lsn: int


Event = Begin | Commit | Change


def value_of(text: str | None, type_id: int) -> Any:  # noqa: ANN401 - JSON
    """A value as JSON has it: numbers of fixed size, truth values and JSON; text for all others, also for numeric."""
    if text is None:
        return None
    if type_id in _INTEGERS:
        return int(text)
    if type_id == _BOOLEAN:
        return text in {"t", "true"}
    if type_id in _FLOATS and text not in {"NaN", "Infinity", "-Infinity"}:
        return float(text)
    return _json(text) if type_id in _JSONS else text


def _json(text: str) -> Any:  # noqa: ANN401 - JSON
    """The value; the text as it is where a reader of JSON might not hold it, such as a number of 30 digits."""
    try:
        return decode_json(text)
    except ValueError:
        return text


@dataclass(slots=True)
class Decoder:
    """Decodes messages in their order; it knows the tables that were described."""

    relations: dict[int, Relation] = field(default_factory=dict)

    def decode(self, message: bytes) -> Iterator[Event]:
        """The events of one message. Raises ValueError for what is none."""
        reader = _Reader(message)
        match kind := reader.byte():
            case "B":
                yield Begin(*reader.unpack("!qq"))
            case "C":
                reader.unpack("!bq")
                yield Commit(reader.unpack("!q")[0])
            case "R":
                self._describe(reader)
            case "I" | "U" | "D":
                yield self._change(kind, reader)
            case "T":
                count, _ = reader.unpack("!ib")
                for relation_id in reader.unpack(f"!{count}I"):
                    yield Change("t", self.relations[relation_id])
            case "Y" | "O" | "M":
                return
            case _:
                raise ValueError(f"pgoutput has no message {kind!r}: is the server newer than version 1 of the format?")

    def _describe(self, reader: "_Reader") -> None:
        (relation_id,) = reader.unpack("!I")
        name = f"{reader.text() or 'pg_catalog'}.{reader.text()}"
        _, count = reader.unpack("!bh")
        columns = []
        for _ in range(count):
            (flags,) = reader.unpack("!b")
            column = reader.text()
            type_id, _modifier = reader.unpack("!Ii")
            columns.append(Column(column, type_id, bool(flags & 1)))
        self.relations[relation_id] = Relation(name, tuple(columns))

    def _change(self, kind: str, reader: "_Reader") -> Change:
        relation = self.relations[reader.unpack("!I")[0]]
        before: Row | None = None
        after: Row | None = None
        unchanged: tuple[str, ...] = ()
        part = reader.byte()
        if part in {"K", "O"}:
            before, _ = reader.row(relation)
            if part == "K":
                before = relation.key_of(before)
            part = reader.byte() if kind == "U" else ""
        if part == "N":
            after, unchanged = reader.row(relation)
        return Change({"I": "c", "U": "u", "D": "d"}[kind], relation, before, after, unchanged)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> str:
        self._at += 1
        return chr(self._data[self._at - 1])

    def unpack(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def text(self) -> str:
        end = self._data.index(0, self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def row(self, relation: Relation) -> tuple[Row, tuple[str, ...]]:
        """Values by column, and the columns that have none because they are unchanged."""
        row, unchanged = Row(), []
        (count,) = self.unpack("!h")
        for column in relation.columns[:count]:
            kind = self.byte()
            if kind == "u":
                unchanged.append(column.name)
                continue
            text = None
            if kind == "t":
                (size,) = self.unpack("!i")
                text = self._data[self._at : self._at + size].decode()
                self._at += size
            row[column.name] = value_of(text, column.type_id)
        return row, tuple(unchanged)

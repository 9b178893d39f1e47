"""A topic as a table of DuckDB, which asks it for columns and a condition as it asks any dataset of Arrow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]

from danube.model.errors import PreconditionFailedError, UnsupportedError
from danube.model.topic import TopicName
from danube.objects.place import ObjectPlace
from danube.query.bounds import Usage
from danube.query.pruning import kept, slice_rows, sliced, times_in
from danube.tables.decoding import DECODED, TopicSchema
from danube.tables.link import Link
from danube.tables.planning import OffsetRange, Positions, batch_ranges
from danube.tables.reading import SliceReader
from danube.tables.rows import COLUMN_NAMES, arrow_schema

Expression: TypeAlias = Any  # pyarrow has no types
RecordBatch: TypeAlias = Any

_KNOWN_WITHOUT_MESSAGES = {"topic", "partition", "offset"}
_OFFSETS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The part that all tables of one query share."""

    link: Link
    usage: Usage
    start: Positions
    end: Positions
    folder: Path | ObjectPlace | None = None
    """Shared folder or bucket of the brokers, whose segments are read in their place."""


@dataclass(frozen=True, slots=True)
class _Stream:
    """A scan, as DuckDB reads it."""

    schema: pa.Schema
    batches: Iterator[RecordBatch]

    def to_reader(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The batches, for one reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches)


class TopicTable(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """The messages of a topic, or of all its partitions, that were there when the query began.

    The fields of values that a schema describes are columns of their own beside `decoded`, unless a message has a
    column of that name.
    """

    def __init__(self, source: Source, topic: TopicName) -> None:
        """Ask for the topic's bounds and its schema. Raises TopicNotFoundError, DanubeError."""
        self._source = source
        self._topic = str(topic)
        states = source.link.states(self._topic, (*source.start.times_ms, *source.end.times_ms))
        self._ranges = batch_ranges(states, source.start, source.end, fail_on_data_loss=False)
        self._indices = {each.topic: source.link.partition_index(each.topic) for each in self._ranges}
        self._decoding = _schema_of(source.link, self._topic)
        decoded = [] if self._decoding is None else [pa.field(DECODED, self._decoding.shape().arrow)]
        fields = [field for each in decoded for field in _fields(each.type)]
        self._typed = tuple(field.name for field in fields)
        self._schema = pa.schema([*arrow_schema(COLUMN_NAMES), *decoded, *fields])

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Expression | None = None,  # noqa: A002 - Arrow's name
        **_: object,
    ) -> _Stream:
        """The rows for which the condition holds, in the columns that are wanted. DuckDB asks for it."""
        names = tuple(columns or self._schema.names)
        schema = pa.schema([self._schema.field(name) for name in names])
        return _Stream(schema, self._batches(names, filter))

    def _batches(self, names: Sequence[str], condition: Expression | None) -> Iterator[RecordBatch]:
        usage = self._source.usage
        text = "" if condition is None else str(condition)
        needed = [name for name in self._schema.names if name in names or name in text]
        try:
            ranges = self._wanted(condition)
            usage.plan(sum(each.rows for each in ranges))
            for batch in self._read(ranges, needed):
                chosen = batch if condition is None else batch.filter(condition)
                yield chosen.select(list(names))
        except Exception as error:
            usage.failure = usage.failure or error
            raise

    def _wanted(self, condition: Expression | None) -> list[OffsetRange]:
        times = times_in(condition)
        states = self._source.link.states(self._topic, times) if times else []
        offsets_at = {state.topic: state.offsets_at for state in states}
        rows = slice_rows(sum(each.rows for each in self._ranges))
        slices = [
            piece
            for each in self._ranges
            for piece in sliced(each, offsets_at.get(each.topic, {}), self._indices[each.topic], rows)
        ]
        return kept(slices, condition, self._schema)

    def _read(self, ranges: Sequence[OffsetRange], needed: Sequence[str]) -> Iterator[RecordBatch]:
        if {*needed} <= _KNOWN_WITHOUT_MESSAGES:
            yield from self._offsets(ranges, needed)
            return
        is_typed = any(name == DECODED or name in self._typed for name in needed)
        reader = SliceReader(
            endpoint=self._source.link.endpoint,
            link=self._source.link,
            columns=[name for name in COLUMN_NAMES if name in needed],
            on_fetched=lambda batch: self._source.usage.read(batch.end - batch.first, len(batch.body)),
            fail_on_data_loss=False,
            decoding=self._decoding if is_typed else None,
            folder=self._source.folder,
        )
        for wanted in ranges:
            for batch in reader.read(wanted):
                yield self._spread(batch) if is_typed and self._typed else batch

    def _offsets(self, ranges: Sequence[OffsetRange], needed: Sequence[str]) -> Iterator[RecordBatch]:
        """Rows of which only the place is wanted: every offset of a range is a message, so nothing is fetched."""
        schema = pa.schema([self._schema.field(name) for name in needed or ["offset"]])
        for wanted in ranges:
            for start in range(wanted.start, wanted.end, _OFFSETS_AT_ONCE):
                offsets = pa.array(np.arange(start, min(wanted.end, start + _OFFSETS_AT_ONCE), dtype=np.int64))
                same = {"topic": wanted.topic, "partition": self._indices[wanted.topic]}
                arrays = [
                    pa.repeat(pa.scalar(same[each.name], each.type), len(offsets)) if each.name in same else offsets
                    for each in schema
                ]
                self._source.usage.check_time()
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _spread(self, batch: RecordBatch) -> RecordBatch:
        """The batch with the fields of its decoded values as columns."""
        values = batch[DECODED]
        spread = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
        arrays = [*batch.columns, *(spread[name] for name in self._typed)]
        fields = [self._schema.field(name) for name in self._typed]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*batch.schema, *fields]))


def _schema_of(link: Link, topic: str) -> TopicSchema | None:
    """The schema of a topic; None without one, or with one that is not decoded."""
    try:
        schema = TopicSchema.of(link, topic)
        schema.shape()
    except (PreconditionFailedError, UnsupportedError):
        return None
    return schema


def _fields(kind: Any) -> list[Any]:  # noqa: ANN401 - pyarrow has no types
    """The fields of values that become columns."""
    taken = {*COLUMN_NAMES, DECODED}
    return [field for field in kind if field.name not in taken] if pa.types.is_struct(kind) else []

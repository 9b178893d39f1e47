"""Stored batches -> Arrow columns.

A batch of payloads costs some array operations, whatever it holds: lengths become offsets, the payloads stay where they
are, and what the records share is written once and repeated by Arrow. Batches of whole messages are taken apart one by
one; brokers make them of messages that came singly.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from danube.model.calls.client import ReceivedMessage
from danube.model.calls.stream import FetchedBatch
from danube.storage.batches.batch import (
    HEADER_BYTES,
    LENGTH_BYTES,
    BatchHeader,
    RecordKind,
    RecordView,
    check,
    plain_body,
)
from danube.tables.rows import arrow_schema, chosen
from danube.wire import decode

Array: TypeAlias = Any  # pyarrow has no types

_US_PER_MS = 1_000
_TIME_MS_END = 253_402_300_800_000  # the year 10000: Spark's timestamps end before it
_INT64_BITS = 64
_INT64_END = 2**63


class ColumnBuilder:
    """Builds the chosen columns of one topic."""

    def __init__(self, topic: str, columns: Sequence[str], partition: int | None = None) -> None:
        self.schema = arrow_schema(columns)
        self._topic = topic
        self._partition = partition
        self._columns = chosen(columns)
        self._repeated: dict[str, tuple[object, Array]] = {}

    def build(self, batch: FetchedBatch) -> Array:
        """A RecordBatch of the records that were asked for. Raises InvalidBatchError for a damaged body."""
        header = check(batch.body)
        batch = replace(batch, body=plain_body(batch.body))
        is_payloads = header.kind is RecordKind.PAYLOADS
        arrays = self._of_payloads(batch, header) if is_payloads else self._of_messages(batch)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _of_payloads(self, batch: FetchedBatch, header: BatchHeader) -> list[Array]:
        shared = decode.received_message(batch.body[HEADER_BYTES : HEADER_BYTES + header.shared_bytes])
        values = self._of_batch(batch) | _of_message(shared)
        return [
            _payloads(batch, header)
            if column.name == "value"
            else _offsets(batch)
            if column.name == "offset"
            else self._repeat(column.name, column.arrow_type, values[column.name], batch.end - batch.first)
            for column in self._columns
        ]

    def _of_messages(self, batch: FetchedBatch) -> list[Array]:
        records = RecordView(batch.body).slice(batch.first, batch.end)
        messages = [decode.received_message(record) for record in records]
        of_batch = self._of_batch(batch)
        return [
            self._repeat(column.name, column.arrow_type, of_batch[column.name], len(messages))
            if column.name in of_batch
            else _offsets(batch)
            if column.name == "offset"
            else pa.array([_READ[column.name](message) for message in messages], type=column.arrow_type)
            for column in self._columns
        ]

    def _of_batch(self, batch: FetchedBatch) -> dict[str, object]:
        return {
            "topic": self._topic,
            "partition": self._partition,
            "append_time": _time_us(batch.append_time_ms) or 0,
        }

    def _repeat(self, name: str, kind: Array, value: object, count: int) -> Array:
        """The same value `count` times; what was made for the batch before is used again where it can be."""
        known = self._repeated.get(name)
        if known is None or known[0] != value or len(known[1]) < count:
            known = self._repeated[name] = (value, _repeated(value, kind, count))
        return known[1].slice(0, count)


def _repeated(value: object, kind: Array, count: int) -> Array:
    if value is None:
        return pa.nulls(count, kind)
    if pa.types.is_primitive(kind) and kind.bit_width == _INT64_BITS:
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(np.full(count, value, dtype=np.int64))])
    return pa.array([value], type=kind).take(pa.array(np.zeros(count, dtype=np.int32)))


def _offsets(batch: FetchedBatch) -> Array:
    return pa.array(np.arange(batch.base_offset + batch.first, batch.base_offset + batch.end, dtype=np.int64))


def _payloads(batch: FetchedBatch, header: BatchHeader) -> Array:
    """The payloads where they lie in the body, under offsets counted from the first of them."""
    at = HEADER_BYTES + header.shared_bytes
    lengths = np.frombuffer(batch.body, dtype="<u4", count=header.count, offset=at)
    ends = np.zeros(header.count + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    ends = ends[batch.first : batch.end + 1]
    first = int(ends[0])
    payloads = pa.py_buffer(batch.body).slice(at + LENGTH_BYTES * header.count + first, int(ends[-1]) - first)
    offsets = pa.py_buffer((ends - first).astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), batch.end - batch.first, [None, offsets, payloads])


def _of_message(message: ReceivedMessage) -> dict[str, object]:
    return {name: read(message) for name, read in _READ.items()}


def _time_us(time_ms: int) -> int | None:
    """Microseconds; None for a time that no calendar has: publish times are what clients claim."""
    return time_ms * _US_PER_MS if 0 <= time_ms < _TIME_MS_END else None


def _int64(number: int | None) -> int | None:
    """None for what Spark's numbers cannot hold: the wire's go twice as far, and no registry gives such an id."""
    return number if number is not None and number < _INT64_END else None


_READ: Mapping[str, Callable[[ReceivedMessage], object]] = {
    "publish_time": lambda message: _time_us(message.publish_time_ms),
    "producer_name": lambda message: message.producer_name,
    "key": lambda message: message.routing_key,
    "attributes": lambda message: sorted(message.attributes.items()),  # a repeated task gives the same rows
    "schema_id": lambda message: _int64(message.schema_id),
    "schema_version": lambda message: _int64(message.schema_version),
    "value": lambda message: message.payload,
}
"""What stands in a message, by column."""

"""Pruning: the slices of a topic in which a condition can hold. Pure.

Arrow decides. Each slice is a fragment that guarantees its offsets, its partition, and the side of a time that it lies
on; Arrow drops the fragments whose guarantee contradicts the condition. A time is found in the condition's text, which
says where to cut and never what to drop: a cut too many costs a slice, and nothing else.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any, Final, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]
from pyarrow import fs

from danube.tables.planning import OffsetRange

Expression: TypeAlias = Any  # pyarrow has no types

SLICE_ROWS: Final = 8_192
"""Messages of one slice: a few stored batches."""
SLICES_MAX: Final = 4_000
"""Slices of one table; beyond it they become larger."""
TIMES_MAX: Final = 8
"""Times of one condition that are asked for."""

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_TYPE: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets of one partition, and a time on each side: appended at or after `since_ms`, and before `until_ms`."""

    wanted: OffsetRange
    partition: int | None
    since_ms: int | None = None
    until_ms: int | None = None


def times_in(condition: Expression | None) -> tuple[int, ...]:
    """The times (ms) that stand in a condition, at most TIMES_MAX; a part of a ms counts as the next one, too."""
    found: set[int] = set()
    for day, time, fraction in _TIME.findall("" if condition is None else str(condition)):
        try:
            at = datetime.fromisoformat(f"{day}T{time}+00:00")
        except ValueError:
            continue
        exact_us = (at - _EPOCH) // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0"))
        found |= {exact_us // 1_000, -(-exact_us // 1_000)}
    return tuple(sorted(time_ms for time_ms in found if time_ms >= 0)[:TIMES_MAX])


def sliced(wanted: OffsetRange, offsets_at: Mapping[int, int], partition: int | None, rows: int) -> Iterator[Slice]:
    """A range in slices of at most `rows`, cut at the first offset of each time (ms)."""
    cuts = [(min(max(offset, wanted.start), wanted.end), time_ms) for time_ms, offset in offsets_at.items()]
    start, since_ms = wanted.start, None
    for end, until_ms in [*sorted(cuts), (wanted.end, None)]:
        for at in range(start, end, rows):
            piece = replace(wanted, start=at, end=min(end, at + rows))
            yield Slice(piece, partition, since_ms, until_ms)
        start, since_ms = max(start, end), until_ms


def kept(slices: Sequence[Slice], condition: Expression | None, schema: pa.Schema) -> list[OffsetRange]:
    """The ranges in which the condition can hold, in order; those that touch are one."""
    if condition is None or not slices:
        return _joined([each.wanted for each in slices])
    dataset = ds.FileSystemDataset.from_paths(
        [str(number) for number in range(len(slices))],
        schema=schema,
        format=ds.ParquetFileFormat(),
        filesystem=fs.LocalFileSystem(),
        partitions=[_guarantee(each) for each in slices],
    )
    numbers = sorted(int(fragment.path) for fragment in dataset.get_fragments(condition))
    return _joined([slices[number].wanted for number in numbers])


def slice_rows(messages: int) -> int:
    """Messages of one slice, in a table with so many."""
    return max(SLICE_ROWS, -(-messages // SLICES_MAX))


def _guarantee(piece: Slice) -> Expression:
    offset, time, partition = ds.field("offset"), ds.field("append_time"), ds.field("partition")
    parts = [offset >= piece.wanted.start, offset < piece.wanted.end]
    if piece.since_ms is not None:
        parts.append(time >= _moment(piece.since_ms))
    if piece.until_ms is not None:
        parts.append(time < _moment(piece.until_ms))
    parts.append(
        partition.is_null() if piece.partition is None else partition == pa.scalar(piece.partition, pa.int32())
    )
    return reduce(and_, parts)


def _moment(time_ms: int) -> pa.Scalar:
    return pa.scalar(time_ms * 1_000, pa.int64()).cast(_TIME_TYPE)


def _joined(ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    joined: list[OffsetRange] = []
    for each in ranges:
        if joined and joined[-1].topic == each.topic and joined[-1].end == each.start:
            joined[-1] = replace(joined[-1], end=each.end)
        else:
            joined.append(each)
    return joined

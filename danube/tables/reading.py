"""One slice of a topic -> Arrow batches, through the stream of stored batches that brokers offer. Runs on workers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from danube.model.calls.stream import FetchedBatch
from danube.model.errors import DanubeError, PreconditionFailedError, UnavailableError
from danube.model.limits.broker import MIB
from danube.objects.place import ObjectPlace
from danube.tables.columns import ColumnBuilder
from danube.tables.decoding import DECODED, NEEDED, Decoder, TopicSchema
from danube.tables.link import Endpoint, Link, link_to
from danube.tables.planning import OffsetRange, first_readable
from danube.tables.segments import segment_folder

RecordBatch: TypeAlias = Any  # pyarrow has no types

ARROW_BATCH_BYTES = 1 * MIB
"""Stored batches smaller than this are joined: each batch of Arrow costs its reader about the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceReader:
    """Reads slices: what a worker needs to know beside the slice itself."""

    endpoint: Endpoint
    link: Link | None = None
    """The way to the cluster; None takes that of this process. It cannot be sent to a worker."""
    columns: Sequence[str]
    fail_on_data_loss: bool
    on_fetched: Callable[[FetchedBatch], None] | None = None
    """Called with each stored batch before it is built, to count it; it may raise."""
    decoding: TopicSchema | None = None
    """The schema of the column `decoded`; None for none."""
    folder: Path | ObjectPlace | None = None
    """Shared folder, or bucket, whose segments are read in place of the broker, as far as they go."""

    def read(self, wanted: OffsetRange) -> Iterator[RecordBatch]:
        """The records of a slice, each once and in order, as Arrow batches.

        Raises PreconditionFailedError when the topic is another one by now or has lost records of the slice,
        InvalidBatchError for a damaged body, and whatever the broker refuses with.
        """
        wanted = wanted if self.folder is not None else self._check(wanted)
        if not wanted.rows:
            return
        partition = self._link.partition_index(wanted.topic) if "partition" in self.columns else None
        if self.decoding is None:
            builder = ColumnBuilder(wanted.topic, self.columns, partition)
            yield from _joined(map(builder.build, self._fetched(wanted)))
            return
        builder = ColumnBuilder(wanted.topic, [*self.columns, *NEEDED], partition)
        decoder = Decoder(self._link, self.decoding)
        built = map(builder.build, self._fetched(wanted))
        yield from (decoder.add_to(batch).select([*self.columns, DECODED]) for batch in _joined(built))

    def _fetched(self, wanted: OffsetRange) -> Iterator[FetchedBatch]:
        for batch in contiguous(wanted, self._batches(wanted)):
            if self.on_fetched is not None:
                self.on_fetched(batch)
            yield batch

    @property
    def _link(self) -> Link:
        return self.link or link_to(self.endpoint)

    def _batches(self, wanted: OffsetRange) -> Iterator[list[FetchedBatch]]:
        """From the segments, and from the broker what is not in them."""
        rest = wanted
        if self.folder is not None:
            segments = segment_folder(self.folder)
            manifest = segments.manifest(wanted.topic_id)
            middle = max(wanted.start, min(wanted.end, manifest.end_offset))
            yield from segments.batches(replace(wanted, end=middle), manifest)
            rest = self._check(replace(wanted, start=middle)) if middle < wanted.end else replace(wanted, start=middle)
        if rest.rows:
            yield from self._link.batches(rest)

    def _check(self, wanted: OffsetRange) -> OffsetRange:
        """The slice as far as it is still there."""
        state = self._link.state(wanted.topic)
        if state.topic_id != wanted.topic_id:
            raise PreconditionFailedError(
                f"{wanted.topic} was deleted and created again after this read was planned: load it again"
            )
        start = first_readable(state, wanted.start, fail_on_data_loss=self.fail_on_data_loss)
        return OffsetRange(wanted.topic, wanted.topic_id, min(start, wanted.end), wanted.end)


def contiguous(wanted: OffsetRange, answers: Iterator[list[FetchedBatch]]) -> Iterator[FetchedBatch]:
    """The batches, with every offset of the slice once. Raises UnavailableError where one is missing."""
    at = wanted.start
    for batch in (batch for answer in answers for batch in answer):
        if batch.base_offset + batch.first != at:
            raise _gap(wanted, at)
        at = batch.base_offset + batch.end
        yield batch
    if at != wanted.end:
        raise _gap(wanted, at)


def _gap(wanted: OffsetRange, at: int) -> DanubeError:
    return UnavailableError(f"the broker did not send offset {at} of {wanted.topic}: read again")


def _joined(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """The same rows; small batches that follow each other become one."""
    waiting: list[RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= ARROW_BATCH_BYTES:
            yield _join(waiting)
            waiting, size = [], 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[RecordBatch]) -> RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

"""Delivery: stored batches as StreamMessages, one per record, with its offset appended.

A stored message is not parsed again: protobuf takes the last value of a field, so the encoded offset is appended.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby

from danube.broker.dispatch.events import KeyRun
from danube.model.limits.broker import BATCH_WINDOWS_BYTES_MAX, KEY_CHARS_MAX
from danube.storage.batches.batch import RecordKind, RecordView
from danube.storage.batches.stored_batch import StoredBatch
from danube.wire.decode import effective_key
from danube.wire.encode import record_of_payload, stamp_offset


class BatchWindows:
    """All batch windows of a broker within one bound; beyond it, the oldest are cleared and read again."""

    def __init__(self, bytes_max: int = BATCH_WINDOWS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._filled: dict[BatchWindow, int] = {}
        self.bytes = 0
        """Of the batches in them; a batch in several windows counts in each."""

    def resize(self, window: "BatchWindow", size: int) -> None:
        """A window has so many bytes now."""
        self.bytes += size - self._filled.pop(window, 0)
        if size:
            self._filled[window] = size
        while self.bytes > self._bytes_max and len(self._filled) > 1:
            next(iter(self._filled)).clear()


class BatchWindow:
    """The batches read last, by offset; slicing the same batch again costs nothing but the slice."""

    def __init__(self, windows: BatchWindows | None = None) -> None:
        self._windows = windows or BatchWindows()
        self._batches: Sequence[StoredBatch] = ()
        self._bases: list[int] = []
        self._view: RecordView | None = None
        self._viewed: StoredBatch | None = None

    def put(self, batches: Sequence[StoredBatch]) -> None:
        """Replace the batches."""
        self._batches = batches
        self._bases = [batch.base_offset for batch in batches]
        self._windows.resize(self, sum(len(batch.body) for batch in batches))

    def clear(self) -> None:
        """Remove all batches."""
        self.put(())
        self._view = self._viewed = None

    def batch_at(self, offset: int) -> StoredBatch | None:
        """The batch with this offset, or None if it is not held."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return None
        batch = self._batches[index]
        return batch if offset < batch.end_offset else None

    def messages(self, batch: StoredBatch, start: int, end: int) -> Iterator[bytes]:
        """Offsets `[start, end)` of the batch, each as an encoded StreamMessage."""
        view = self._view_of(batch)
        records = view.slice(start - batch.base_offset, end - batch.base_offset)
        if view.header.kind is RecordKind.PAYLOADS:
            records = [record_of_payload(view.shared, record) for record in records]
        return (b"".join((record, stamp_offset(offset))) for offset, record in enumerate(records, start))

    def keys(self, batch: StoredBatch, start: int, end: int) -> tuple[KeyRun, ...]:
        """The keys of offsets `[start, end)` of the batch: one run for payloads of one producer, read once."""
        view = self._view_of(batch)
        if view.header.kind is RecordKind.PAYLOADS:
            return (KeyRun(start, end, dispatch_key(view.shared)),)
        records = view.slice(start - batch.base_offset, end - batch.base_offset)
        runs = []
        for key, run in groupby(map(dispatch_key, records)):
            run_end = start + sum(1 for _ in run)
            runs.append(KeyRun(start, run_end, key))
            start = run_end
        return tuple(runs)

    def _view_of(self, batch: StoredBatch) -> RecordView:
        if self._view is None or self._viewed is not batch:
            self._view, self._viewed = RecordView(batch.body), batch
        return self._view


def dispatch_key(message: bytes) -> str:
    """The effective key of an encoded StreamMessage, as far as dispatch goes by it: the first KEY_CHARS_MAX of it."""
    return effective_key(message)[:KEY_CHARS_MAX]

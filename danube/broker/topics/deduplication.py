"""De-duplication: a batch that a producer sends again is stored once and answered with its first offset.

The topic's log knows the durable batches (`danube/storage/batches/producer_state.py`). This module knows those that the
journal has not settled: a stream may break, and the same batch arrive on another one before.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from danube.model.errors import DanubeError, InvalidBatchError, SequenceError
from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX
from danube.storage.batches.batch import BatchHeader
from danube.storage.batches.producer_state import SequencedBatch, sequenced_batch
from danube.storage.batches.stored_batch import AppendDone
from danube.storage.log.topic_log import TopicLog

Append = Callable[[bytes, int, AppendDone], None]
"""`ReliableTopic.publish_batch`."""


@dataclass(slots=True, eq=False)
class _Pending:
    batch: SequencedBatch
    waiting: list[AppendDone] = field(default_factory=list)
    """One for each stream that sent it."""


class Sequences:
    """The sequenced batches of one topic: each is appended once, in order."""

    def __init__(self, log: TopicLog, append: Append) -> None:
        self._log = log
        self._append = append
        self._pending: dict[int, deque[_Pending]] = {}
        """By producer id, where there are any. Bounded by the journal's backlog."""

    def publish(self, body: bytes, done: AppendDone) -> None:
        """Append a checked batch, unless it is stored or pending; `done` gets its offset in any case.

        Raises as `TopicLog.append_batch`, and SequenceError.
        """
        batch = sequenced_batch(body)
        if batch is None:
            raise InvalidBatchError("the batch is not numbered, and its stream was opened for de-duplication")
        queue = self._pending.get(batch.numbering_id)
        due = queue[-1].batch.end_sequence if queue else self._log.next_sequence(batch.numbering_id)
        if batch.base_sequence == due:
            self._append_next(batch, body, done)
        elif (again := _find(queue, batch)) is not None:
            again.waiting.append(done)
        elif (offset := self._log.offset_of(batch)) is not None:
            self._log.confirm(offset, done)
        else:
            raise _out_of_sequence(batch, due)

    def _append_next(self, batch: SequencedBatch, body: bytes, done: AppendDone) -> None:
        pending = _Pending(batch, [done])
        self._append(body, batch.records, lambda result: self._settled(pending, result))
        self._pending.setdefault(batch.numbering_id, deque()).append(pending)

    def _settled(self, pending: _Pending, result: int | DanubeError) -> None:
        """The log settles in order. After a failed append the later ones fail too, and their sequence is due again."""
        queue = self._pending[pending.batch.numbering_id]
        queue.popleft()
        if not queue:
            del self._pending[pending.batch.numbering_id]
        for done in pending.waiting:
            done(result)


class SequencedStream:
    """One stream's batches, which continue one sequence without a gap."""

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        self._due: int | None = None

    def check(self, header: BatchHeader) -> None:
        """Check the next batch of the stream. Raises InvalidBatchError, SequenceError."""
        if header.producer_id != self._producer_id:
            raise InvalidBatchError(
                "the producer id of a batch is not the one that its stream was opened with: each stream with "
                "de-duplication takes the batches of one sequence"
            )
        if self._due not in {None, header.base_sequence}:
            raise SequenceError(
                f"record {self._due} was due and a batch that begins with {header.base_sequence} came: number records "
                "one by one, and send all that is unacknowledged in order"
            )
        self._due = header.base_sequence + header.count


def _find(queue: deque[_Pending] | None, batch: SequencedBatch) -> _Pending | None:
    return next((pending for pending in queue or () if pending.batch == batch), None)


def _out_of_sequence(batch: SequencedBatch, due: int) -> SequenceError:
    if batch.base_sequence > due:
        return SequenceError(
            f"a batch begins with record {batch.base_sequence}, and {due} is the next that can be stored: what was "
            "before it is not stored, or is remembered no more. Look at the topic's last messages before sending on"
        )
    return SequenceError(
        f"a batch begins with record {batch.base_sequence}, and {due} is the next that can be stored: it is none of "
        f"the last {DEDUPLICATION_BATCHES_MAX} batches, or its content is another. Send batches again as they were"
    )

"""The protocol of a topic's log, whatever keeps the bytes.

Promises of every implementation:
- offsets of a topic are contiguous from 0 for its whole life;
- `done` is called after the batch is as durable as its topic's durability says, never before;
- `durable_end`, `read` and `on_durable` show nothing that is not durable;
- a body whose checksum or counts are wrong is refused before it is written;
- a failed append leaves nothing behind: its offsets go to the next one;
- an append that fails makes later ones to the same topic that are still pending fail, too: stored batches keep the
  order of appends, also when all failed ones are appended again.
All calls are made, and all callbacks run, on the event loop's thread.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from danube.model.errors import DanubeError
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import SequencedBatch

if TYPE_CHECKING:
    from danube.objects.use import TopicObjects


@dataclass(slots=True)
class StoredBatch:
    """One record batch as it stands in the log. Never changed; frozen, it would cost five times as much to make."""

    base_offset: int
    count: int
    append_time_ms: int
    """Broker clock; never goes back within a topic."""
    body: bytes
    """As drawn in `docs/formats/batch.md`."""

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStorageStats:
    """Size and age of one topic's log, without asking a disk."""

    start_offset: int
    end_offset: int
    body_bytes: int
    """Of all batches that can be read."""
    segments: int
    segment_file_bytes: int
    oldest_append_ms: int | None
    """Of the first record that can be read; None when there is none."""
    newest_append_ms: int | None
    unsynced_bytes: int
    """Of batches that are acknowledged and not synced; 0 with durability fsync."""


AppendDone = Callable[[int | DanubeError], None]
"""Called once with the offset of the (first) record, or with the error."""

Saved = Callable[[DanubeError | None], None]
"""Called once, when durable or when it failed."""


class BatchLog(Protocol):
    """The log of a topic, also one in a journal alone."""

    @property
    def topic_id(self) -> int:
        """The topic's id, which is never used again, not even by a topic of the same name."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read; retention moves it on."""

    @property
    def durable_end(self) -> int:
        """The offset after the last durable record."""

    @property
    def body_bytes(self) -> int:
        """Bytes of the bodies of all batches that can be read."""

    def append_record(self, record: bytes, done: AppendDone) -> None:
        """Add one encoded StreamMessage to the batch that is being formed for the next round.

        Raises OverloadedError when the backlog is at its bound, StorageUnavailableError when the journal has stopped.
        """

    def append_batch(self, body: bytes, done: AppendDone) -> None:
        """Append a client-made batch. Raises as `append_record`, and InvalidBatchError when the body is wrong."""

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        """Batches from the one that holds `offset`, as far as they are in memory; None when that one is not.

        At least one batch, then as many as fit in `bytes_max`; empty at the durable end.
        """

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        """The same, wherever the batches are.

        Raises OffsetTrimmedError below `start_offset`, DamagedDataError, StorageUnavailableError.
        """

    def save_cursor(self, subscription_id: int, cursor: Cursor, saved: Saved | None = None) -> None:
        """Write a subscription's cursor with a coming round; the last one wins.

        With `saved` a round is started for it; without, it waits up to CURSOR_INTERVAL_S for one.
        """

    def cursor(self, subscription_id: int) -> Cursor | None:
        """The last cursor saved for the subscription, restarts included; None when there never was one."""

    def forget_cursor(self, subscription_id: int) -> None:
        """Drop the cursor of a deleted subscription, also one that waits to be written."""

    def forget_other_cursors(self, subscription_ids: Container[int]) -> None:
        """Drop the cursors of all subscriptions but these; a start recovers the last cursors of deleted ones."""

    def next_sequence(self, numbering_id: int) -> int:
        """The sequence number after the last durable one of a row, restarts included; 0 of an unknown row."""

    def offset_of(self, batch: SequencedBatch) -> int | None:
        """The offset of this very batch, if it is durable and one of the last DEDUPLICATION_BATCHES_MAX of its row."""

    def on_durable(self, listener: Callable[[int], None]) -> None:
        """Have `listener` called with `durable_end` once a round in which it grew."""

    def close(self) -> None:
        """Drop listeners and memory; the data stays."""


class TopicLog(BatchLog, Protocol):
    """The log of one topic, wherever its batches are kept."""

    def set_durability(self, durability: Durability | None) -> None:
        """Set when appends are acknowledged; None is the broker's setting.

        Appends and cursors that wait at a change to fsync are acknowledged after their sync. In a shared folder
        everything is, whatever is set.
        """

    def confirm(self, offset: int, done: AppendDone) -> None:
        """Acknowledge the batch at `offset` once more, when it is as durable as appends are now.

        Raises StorageUnavailableError when the journal has stopped, ShuttingDownError.
        """

    @property
    def stats(self) -> TopicStorageStats:
        """Size and age."""

    @property
    def objects(self) -> "TopicObjects | None":
        """The topic in an object store; None where there is none."""

    async def offset_at(self, append_time_ms: int) -> int:
        """The first offset of the first batch appended at this time or later; `durable_end` when there is none.

        Raises DamagedDataError, StorageUnavailableError.
        """

    async def append_time_ms(self, offset: int) -> int | None:
        """Append time of the durable record at this offset; None when there is none. Raises as `offset_at`."""

    def append_time_at_hand(self, offset: int) -> int | None:
        """The same, when memory knows it; None also when it does not."""

    def segment_newest_ms(self, offset: int) -> int | None:
        """Append time of the newest record in the segment of this one; None while it is in no segment."""

    def on_trimmed(self, listener: Callable[[int], None]) -> None:
        """Have `listener` called with `start_offset` when retention has moved it."""

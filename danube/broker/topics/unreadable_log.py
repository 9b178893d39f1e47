"""The log of a topic whose history cannot be read: the topic is there, and can be described and deleted."""

from collections.abc import Callable, Container
from typing import NoReturn

from danube.model.errors import StorageUnavailableError
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import SequencedBatch
from danube.storage.log.protocol import AppendDone, Saved, StoredBatch, TopicStorageStats


class UnreadableTopicLog:
    """A `TopicLog` that keeps nothing, and changes nothing of what is there: it may be repaired, or restored."""

    start_offset = durable_end = body_bytes = 0
    stats = TopicStorageStats(
        start_offset=0,
        end_offset=0,
        body_bytes=0,
        segments=0,
        segment_file_bytes=0,
        oldest_append_ms=None,
        newest_append_ms=None,
        unsynced_bytes=0,
    )

    def __init__(self, topic_id: int, reason: str) -> None:
        """`reason` is what clients are told."""
        self.topic_id = topic_id
        self._reason = reason

    def refusal(self) -> StorageUnavailableError:
        """What everybody gets who wants something of it."""
        return StorageUnavailableError(self._reason)

    def append_record(self, record: bytes, done: AppendDone) -> None:  # noqa: ARG002 - refused
        self._refuse()

    def append_batch(self, body: bytes, done: AppendDone) -> None:  # noqa: ARG002 - refused
        self._refuse()

    def set_durability(self, durability: Durability | None) -> None:
        """It acknowledges nothing."""

    def confirm(self, offset: int, done: AppendDone) -> None:  # noqa: ARG002 - refused
        self._refuse()

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch] | None:  # noqa: ARG002 - there is nothing
        return None

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:  # noqa: ARG002 - refused
        self._refuse()

    async def offset_at(self, append_time_ms: int) -> int:  # noqa: ARG002 - refused
        self._refuse()

    async def append_time_ms(self, offset: int) -> int | None:  # noqa: ARG002 - refused
        self._refuse()

    def append_time_at_hand(self, offset: int) -> int | None:  # noqa: ARG002 - there is nothing
        return None

    def save_cursor(self, subscription_id: int, cursor: Cursor, saved: Saved | None = None) -> None:  # noqa: ARG002 - refused
        if saved is not None:
            saved(self.refusal())

    def cursor(self, subscription_id: int) -> Cursor | None:  # noqa: ARG002 - there is nothing
        return None

    def forget_cursor(self, subscription_id: int) -> None:
        """It has none."""

    def forget_other_cursors(self, subscription_ids: Container[int]) -> None:
        """It has none."""

    def next_sequence(self, numbering_id: int) -> int:  # noqa: ARG002 - refused
        self._refuse()

    def offset_of(self, batch: SequencedBatch) -> int | None:  # noqa: ARG002 - there is nothing
        return None

    def on_durable(self, listener: Callable[[int], None]) -> None:
        """Nothing will be."""

    def on_trimmed(self, listener: Callable[[int], None]) -> None:
        """Nothing will be."""

    def close(self) -> None:
        """There is nothing to let go of."""

    def _refuse(self) -> NoReturn:
        raise self.refusal()

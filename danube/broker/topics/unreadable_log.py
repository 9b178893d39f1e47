"""Log of a topic whose history cannot be read: the topic is served, and can be described and deleted."""

from typing import NoReturn

from danube.model.errors import StorageUnavailableError
from danube.model.subscription import Cursor
from danube.storage.log.protocol import Saved, TopicStorageStats


class UnreadableTopicLog:
    """A `TopicLog` that stores nothing and changes nothing: the history may be repaired or restored."""

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

    objects = None

    def __init__(self, topic_id: int, reason: str) -> None:
        """`reason` is the text that clients get."""
        self.topic_id = topic_id
        self._reason = reason

    def refusal(self) -> StorageUnavailableError:
        """The error of every use."""
        return StorageUnavailableError(self._reason)

    def save_cursor(self, subscription_id: int, cursor: Cursor, saved: Saved | None = None) -> None:  # noqa: ARG002 - refused
        if saved is not None:
            saved(self.refusal())

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise self.refusal()

    def _none(self, *_: object, **__: object) -> None:
        """Return nothing."""

    append_record = append_batch = confirm = read = offset_at = append_time_ms = next_sequence = _refuse
    read_hot = append_time_at_hand = segment_newest_ms = cursor = offset_of = _none
    set_durability = forget_cursor = forget_other_cursors = on_durable = on_trimmed = close = _none

"""Topics of a storage: those it keeps, those it refuses, those that were deleted."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from danube.model.errors import DanubeError, StorageChangedError
from danube.model.topic import TopicName
from danube.storage.log.histories import TopicHistories
from danube.storage.quarantine import TopicQuarantine


@dataclass(slots=True)
class StoredTopics:
    """State of the topics of one broker."""

    histories: TopicHistories = field(default_factory=TopicHistories)
    refused: dict[int, DanubeError] = field(default_factory=dict)
    """Topics whose manifests cannot be read: all their files stay as they are."""
    names: dict[int, TopicName] = field(default_factory=dict)
    """As far as they are known; for the log."""
    quarantine: TopicQuarantine = field(init=False)
    opened: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    """Topics with a tombstone in metadata: nothing of them is needed."""
    unnamed: set[int] = field(default_factory=set)
    """Topics with messages here that metadata does not name as this broker's: they are kept, and served by nobody."""
    stale: set[int] = field(default_factory=set)
    """Another broker changed their records: they are loaded again before anything is built upon them."""

    owned: set[int] | None = None
    """In a shared folder those that this broker owns; None where all are its own."""
    in_transit: set[int] = field(default_factory=set)
    """On their way to this broker or away from it, or it is unknown whether they arrived: the journal keeps their
    records."""

    def __post_init__(self) -> None:
        self.quarantine = TopicQuarantine(self.names)

    def is_owned(self, topic_id: int) -> bool:
        """True if this broker flushes the topic, and goes by its own manifest."""
        return self.owned is None or topic_id in self.owned

    def are_owned(self, topic_ids: frozenset[int]) -> bool:
        """True if this broker owns all of them."""
        return self.owned is None or topic_ids <= self.owned

    def disown(self, topic_id: int) -> None:
        """Give the topic up to another broker, which has taken it over."""
        self.quarantine.add_for_good(topic_id, "another broker has taken it over")
        if self.owned is not None:
            self.owned.discard(topic_id)

    def is_dead(self, topic_id: int) -> bool:
        """True if metadata has a tombstone of the topic, so nothing of it is needed."""
        return topic_id in self.deleted

    def quarantine_topic(self, topic_id: int, error: Exception, now_s: float) -> None:
        """Leave a topic out for a while, unless it is deleted or another broker's."""
        if not self.is_dead(topic_id) and self.is_owned(topic_id):
            self.quarantine.add(topic_id, error, now_s)

    def mark_stale(self, topic_ids: Iterable[int]) -> None:
        """Another broker changed the records of these topics, or may have."""
        self.stale.update(topic_id for topic_id in topic_ids if not self.is_dead(topic_id))

    def mark_committed(self, topic_id: int) -> None:
        """Metadata names a new manifest of the topic; a topic that was deleted meanwhile is dropped again."""
        if self.is_dead(topic_id):
            self.histories.forget(topic_id)
        self.quarantine.clear(topic_id)

    def forget(self, topic_id: int) -> None:
        """Drop a deleted topic."""
        self.deleted.add(topic_id)
        self.unnamed.discard(topic_id)
        self.opened.discard(topic_id)
        if self.owned is not None:
            self.owned.discard(topic_id)
        self.stale.discard(topic_id)
        self.refused.pop(topic_id, None)
        self.histories.forget(topic_id)
        self.quarantine.remove(topic_id)
        self.names.pop(topic_id, None)


def changed_by_another() -> StorageChangedError:
    """The fault of a topic whose record another broker changed."""
    return StorageChangedError("another broker has changed its storage record")


class Readable(Container[int]):
    """Topics whose records in the journal are read: not deleted, and their history is not refused."""

    def __init__(self, deleted: Container[int], refused: Container[int]) -> None:
        self._deleted = deleted
        self._refused = refused

    def __contains__(self, topic_id: object) -> bool:
        return topic_id not in self._refused and topic_id not in self._deleted

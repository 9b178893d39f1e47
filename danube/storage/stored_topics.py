"""Which topics a storage keeps, which it cannot, and which are gone."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from danube.model.errors import DanubeError, StorageChangedError
from danube.model.topic import TopicName
from danube.storage.flush.manifest_versions import Histories
from danube.storage.quarantine import Troubles


@dataclass(slots=True)
class StoredTopics:
    """What is known of the topics of one broker."""

    known: Container[int] | None = None
    """Those that existed when the storage was opened; None is all."""
    histories: Histories = field(default_factory=Histories)
    refused: dict[int, DanubeError] = field(default_factory=dict)
    """Their manifests cannot be read: everything of them stays as it is."""
    names: dict[int, TopicName] = field(default_factory=dict)
    """Of those whose name was said; for the log."""
    troubles: Troubles = field(init=False)
    opened: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    """Since the storage was opened, of those that are known: no other takes memory once it is gone."""
    lost: set[int] = field(default_factory=set)
    """Somebody else changed their records: what is known of them is looked up again before it is built upon."""

    owned: set[int] | None = None
    """In a shared folder those that this broker owns; None where all are its own."""
    begun: set[int] = field(default_factory=set)
    """On their way to this broker or away from it, or nobody knows whether they came or went: what its journal has of
    them is kept."""

    def __post_init__(self) -> None:
        self.troubles = Troubles(self.names)

    def is_owned(self, topic_id: int) -> bool:
        """Whether this broker cuts the topic, and goes by its own manifest."""
        return self.owned is None or topic_id in self.owned

    def are_owned(self, topic_ids: frozenset[int]) -> bool:
        """Whether all of them are this broker's."""
        return self.owned is None or topic_ids <= self.owned

    def take_over(self, topic_id: int) -> None:
        """Another broker has the topic now: what is stored of it is that one's to change."""
        self.troubles.leave(topic_id, "another broker has taken it over")
        if self.owned is not None:
            self.owned.discard(topic_id)

    def is_dead(self, topic_id: int) -> bool:
        """Whether nothing of the topic is needed: it was deleted, now or before the storage was opened."""
        if topic_id in self.deleted:
            return True
        return self.known is not None and topic_id not in self.known and topic_id not in self.opened

    def quarantine(self, topic_id: int, error: Exception, now_s: float) -> None:
        """Leave a topic out for a while; one that is dead has no troubles, and those of another's are that one's."""
        if not self.is_dead(topic_id) and self.is_owned(topic_id):
            self.troubles.note(topic_id, error, now_s)

    def note_lost(self, topic_ids: Iterable[int]) -> None:
        """Somebody else changed the records of these topics, or may have; of dead ones nobody needs to know."""
        self.lost.update(topic_id for topic_id in topic_ids if not self.is_dead(topic_id))

    def note_published(self, topic_id: int) -> None:
        """Metadata names a new generation of the topic; one that was deleted meanwhile is not remembered again."""
        if self.is_dead(topic_id):
            self.histories.forget(topic_id)
        self.troubles.clear(topic_id)

    def forget(self, topic_id: int) -> None:
        """The topic is deleted."""
        if self.known is None or topic_id in self.known:  # others are dead once they are not among the opened ones
            self.deleted.add(topic_id)
        self.opened.discard(topic_id)
        if self.owned is not None:
            self.owned.discard(topic_id)
        self.lost.discard(topic_id)
        self.refused.pop(topic_id, None)
        self.histories.forget(topic_id)
        self.troubles.forget(topic_id)
        self.names.pop(topic_id, None)


def changed_by_another() -> StorageChangedError:
    """The trouble of a topic that lost against another change of its record."""
    return StorageChangedError("somebody else has changed its storage record")


class Readable(Container[int]):
    """The topics whose records in the journal can be understood: known, and their history is not refused."""

    def __init__(self, known: Container[int] | None, refused: Container[int]) -> None:
        self._known = known
        self._refused = refused

    def __contains__(self, topic_id: object) -> bool:
        return topic_id not in self._refused and (self._known is None or topic_id in self._known)

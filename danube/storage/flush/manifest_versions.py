"""What the manifests say, in memory: of each topic that has a history, the newest generation that metadata names."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from danube.metadata.records.storage import TopicStorage
from danube.storage.segment.manifest import Manifest
from danube.storage.takeover.previous_owner_tail import PreviousOwnerTail

_log = logging.getLogger(__name__)

Trimmed = Callable[[int], None]
"""Called with the first offset that can still be read."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """One topic's history at one moment. A new one takes its place whole, so a reader sees before or after."""

    record: TopicStorage
    """Which generation metadata names."""
    manifest: Manifest
    foreign: tuple[PreviousOwnerTail, ...] = ()
    """What is still kept in journals of former owners, between the segments and the broker's own journal."""
    body_bytes: int = field(init=False)
    """Of the manifest's segments."""
    file_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "body_bytes", self.manifest.body_bytes)
        object.__setattr__(self, "file_bytes", self.manifest.file_bytes)

    def covered_to(self, journal_id: int) -> int:
        """The position of a journal below which nothing of the topic is needed, as far as its record tells.

        What is there is in segments, or of an epoch that is all in segments: of such the record tells nothing any more.
        """
        begun = next((one.position for one in self.record.epochs if one.journal_id == journal_id), 0)
        return max(begun, self.manifest.journals.get(journal_id, 0))


def remaining_tails(parts: Iterable[PreviousOwnerTail], manifest: Manifest) -> tuple[PreviousOwnerTail, ...]:
    """Those of which something is not in segments."""
    return tuple(part for part in parts if part.end_offset > manifest.end_offset)


class Histories:
    """The histories of all topics of a broker; a topic without one costs nothing."""

    def __init__(self, found: Iterable[History] = ()) -> None:
        self._of = {history.record.topic_id: history for history in found}
        self._with_older = {topic_id for topic_id, history in self._of.items() if len(history.record.epochs) > 1}
        self._listeners: dict[int, tuple[Trimmed, ...]] = {}
        self._beginnings: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._of)

    @property
    def with_older_epochs(self) -> frozenset[int]:
        """The topics of which metadata says that something is, or may be, in journals of former owners."""
        return frozenset(self._with_older)

    def has_older_epochs(self, topic_id: int) -> bool:
        """Whether a topic is one of these."""
        return topic_id in self._with_older

    def __iter__(self) -> Iterator[History]:
        return iter(list(self._of.values()))

    def get(self, topic_id: int) -> History | None:
        """What there is of a topic; None before its first cut."""
        return self._of.get(topic_id)

    def begin_at(self, topic_id: int, offset: int) -> None:
        """What is below this offset may be gone at any moment: nobody is to begin there, until the next `put`."""
        self._beginnings[topic_id] = offset

    def beginning(self, topic_id: int) -> int:
        """What `begin_at` said last; 0 when it said nothing."""
        return self._beginnings.get(topic_id, 0)

    def put(self, history: History) -> None:
        """Have what metadata names count from here on, and tell who listens when its start moved."""
        topic_id = history.record.topic_id
        self._beginnings.pop(topic_id, None)
        before = self._of.get(topic_id)
        self._of[topic_id] = history
        if len(history.record.epochs) > 1:
            self._with_older.add(topic_id)
        else:
            self._with_older.discard(topic_id)
        start_offset = history.manifest.start_offset
        if start_offset > (before.manifest.start_offset if before else 0):
            for listener in self._listeners.get(topic_id, ()):
                _call(listener, start_offset)

    def forget(self, topic_id: int) -> None:
        """Let go of a topic that is gone."""
        self._of.pop(topic_id, None)
        self._with_older.discard(topic_id)
        self._listeners.pop(topic_id, None)
        self._beginnings.pop(topic_id, None)

    def listen(self, topic_id: int, listener: Trimmed) -> None:
        """Have `listener` called when the topic's start moves."""
        self._listeners[topic_id] = (*self._listeners.get(topic_id, ()), listener)

    def unlisten(self, topic_id: int, gone: Iterable[Trimmed]) -> None:
        """Call these no more."""
        left = tuple(one for one in self._listeners.get(topic_id, ()) if one not in gone)
        if left:
            self._listeners[topic_id] = left
        else:
            self._listeners.pop(topic_id, None)


def _call(listener: Trimmed, start_offset: int) -> None:
    try:
        listener(start_offset)
    except Exception:
        _log.exception("a listener to a topic's start failed: %r", listener)

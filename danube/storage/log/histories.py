"""The newest manifest of each topic that metadata names, in memory, with the tails in former owners' journals."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from danube.metadata.records.storage import TopicStorage
from danube.storage.log.parts import PreviousOwnerTail
from danube.storage.segment.manifest import Manifest

_log = logging.getLogger(__name__)

Trimmed = Callable[[int], None]
"""Called with the first offset that can still be read."""


@dataclass(frozen=True, slots=True, eq=False)
class TopicHistory:
    """One topic's history at one moment; it is replaced as a whole, so a reader sees before or after."""

    record: TopicStorage
    """Its manifest version is the one that metadata names."""
    manifest: Manifest
    tails: tuple[PreviousOwnerTail, ...] = ()
    """Parts in former owners' journals, between the segments and the broker's own journal."""
    body_bytes: int = field(init=False)
    """Of the manifest's segments."""
    file_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "body_bytes", self.manifest.body_bytes)
        object.__setattr__(self, "file_bytes", self.manifest.file_bytes)

    def covered_to(self, journal_id: int) -> int:
        """The position of a journal below which nothing of the topic is needed.

        Records there are in segments, or of an epoch that is all in segments, which the record names no more.
        """
        begun = next((one.position for one in self.record.epochs if one.journal_id == journal_id), 0)
        return max(begun, self.manifest.journals.get(journal_id, 0))


def remaining_tails(parts: Iterable[PreviousOwnerTail], manifest: Manifest) -> tuple[PreviousOwnerTail, ...]:
    """Tails with something that is not in segments."""
    return tuple(part for part in parts if part.end_offset > manifest.end_offset)


class TopicHistories:
    """The histories of all topics of a broker; a topic without one costs nothing."""

    def __init__(self, found: Iterable[TopicHistory] = ()) -> None:
        self._of = {history.record.topic_id: history for history in found}
        self._with_older = {topic_id for topic_id, history in self._of.items() if len(history.record.epochs) > 1}
        self._listeners: dict[int, tuple[Trimmed, ...]] = {}
        self._beginnings: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._of)

    @property
    def with_older_epochs(self) -> frozenset[int]:
        """Topics with records that are, or may be, in journals of former owners."""
        return frozenset(self._with_older)

    def has_older_epochs(self, topic_id: int) -> bool:
        """True if a topic has such records."""
        return topic_id in self._with_older

    def __iter__(self) -> Iterator[TopicHistory]:
        return iter(list(self._of.values()))

    def get(self, topic_id: int) -> TopicHistory | None:
        """The history of a topic; None before its first flush."""
        return self._of.get(topic_id)

    def begin_at(self, topic_id: int, offset: int) -> None:
        """Records below this offset may be removed at any moment: no reader starts there until the next `put`."""
        self._beginnings[topic_id] = offset

    def beginning(self, topic_id: int) -> int:
        """The offset of the last `begin_at`, or 0."""
        return self._beginnings.get(topic_id, 0)

    def put(self, history: TopicHistory) -> None:
        """Replace a topic's history, and call its listeners when its start moved.

        An older record takes the place of no newer one: metadata's answer to a flush can come after the topic has left
        and come back, under a new epoch. Its manifest counts if it is newer than the one that is known.
        """
        topic_id = history.record.topic_id
        before = self._of.get(topic_id)
        if before is not None and history.record.revision < before.record.revision:
            if history.manifest.version <= before.manifest.version:
                return
            history = replace(history, record=before.record)
        self._beginnings.pop(topic_id, None)
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
        """Drop a topic."""
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

"""Quarantine: a topic with a storage fault is left out for a while and logged once; the others go on."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from danube.model.errors import DanubeError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.model.topic import TopicName

TopicNames = Mapping[int, TopicName]
"""By topic id, as far as they are known."""

FAULTS = (DanubeError, OSError, ValueError)
"""Faults of one topic: damage, a disk that fails, more of something than there may be."""

_log = logging.getLogger(__name__)


def called(topic_id: int, names: TopicNames) -> str:
    """A topic in a log line: `topic /default/orders (id 4)`, or `topic 4`; its files are named after the id."""
    name = names.get(topic_id)
    return f"topic {topic_id}" if name is None else f"topic {name} (id {topic_id})"


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: object
    """Logged once; the words of one fault may differ from time to time."""
    retry_s: float
    """Monotonic time; never is infinity."""


class TopicQuarantine:
    """The topics that are left out, why, and until when."""

    def __init__(self, names: TopicNames) -> None:
        """`names` may change; the log goes by their content then."""
        self._names = names
        self._entries: dict[int, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def is_active(self, topic_id: int, now_s: float) -> bool:
        """True until it is time to try the topic again."""
        entry = self._entries.get(topic_id)
        return entry is not None and now_s < entry.retry_s

    def add(self, topic_id: int, error: Exception, now_s: float) -> None:
        """Leave the topic out for FLUSH_RETRY_S; another kind of fault than last time is logged."""
        kind = (type(error), getattr(error, "errno", None))
        self._add(topic_id, str(error) or type(error).__name__, _Entry(kind, now_s + FLUSH_RETRY_S))

    def add_for_good(self, topic_id: int, reason: str) -> None:
        """Leave the topic out for good."""
        self._add(topic_id, reason, _Entry(reason, float("inf")))

    def clear(self, topic_id: int) -> None:
        """Take the topic in again, as it worked."""
        if self._entries.pop(topic_id, None) is not None:
            _log.warning("the storage of %s is kept in order again", called(topic_id, self._names))

    def remove(self, topic_id: int) -> None:
        """Forget the topic without a word: it was deleted or changed its owner."""
        self._entries.pop(topic_id, None)

    def _add(self, topic_id: int, reason: str, entry: _Entry) -> None:
        before = self._entries.get(topic_id)
        if before is None or before.kind != entry.kind:
            _log.error("what is stored of %s stays as it is: %s", called(topic_id, self._names), reason)
        self._entries[topic_id] = entry

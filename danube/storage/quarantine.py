"""Topics whose storage is in trouble: each is left out for a while, said once, and no other suffers from it."""

import logging
from dataclasses import dataclass

from danube.model.errors import DanubeError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.storage.topic_names import TopicNames, called

_log = logging.getLogger(__name__)

FAULTS = (DanubeError, OSError, ValueError)
"""What may be wrong with one topic: damage, a disk that fails, more of something than there may be."""


@dataclass(frozen=True, slots=True)
class _Quarantined:
    kind: object
    """What is said once; the words of one fault may differ from time to time."""
    retry_s: float
    """Monotonic time; never is infinity."""


class Troubles:
    """Which topics are left out, why, and until when."""

    def __init__(self, names: TopicNames) -> None:
        """`names` may change; what is said of a topic goes by what is in it then."""
        self._names = names
        self._of: dict[int, _Quarantined] = {}

    def __len__(self) -> int:
        return len(self._of)

    def leaves_out(self, topic_id: int, now_s: float) -> bool:
        """Whether it is not yet time to try the topic again."""
        trouble = self._of.get(topic_id)
        return trouble is not None and now_s < trouble.retry_s

    def note(self, topic_id: int, error: Exception, now_s: float) -> None:
        """Leave the topic out for a while; another kind of fault than last time is said."""
        kind = (type(error), getattr(error, "errno", None))
        self._leave_out(topic_id, str(error) or type(error).__name__, _Quarantined(kind, now_s + FLUSH_RETRY_S))

    def leave(self, topic_id: int, reason: str) -> None:
        """Leave the topic out for good."""
        self._leave_out(topic_id, reason, _Quarantined(reason, float("inf")))

    def clear(self, topic_id: int) -> None:
        """It worked."""
        if self._of.pop(topic_id, None) is not None:
            _log.warning("the storage of %s is kept in order again", called(topic_id, self._names))

    def forget(self, topic_id: int) -> None:
        """The topic is gone."""
        self._of.pop(topic_id, None)

    def _leave_out(self, topic_id: int, reason: str, trouble: _Quarantined) -> None:
        before = self._of.get(topic_id)
        if before is None or before.kind != trouble.kind:
            _log.error("what is stored of %s stays as it is: %s", called(topic_id, self._names), reason)
        self._of[topic_id] = trouble

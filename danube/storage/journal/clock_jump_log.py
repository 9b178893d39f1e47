"""Says, now and then, that messages are stamped with a time that the clock has not reached."""

import logging
from datetime import UTC, datetime

from danube.model.limits.broker import CLAMP_WARNING_INTERVAL_S
from danube.storage.journal.round import Round

_log = logging.getLogger(__name__)


class StampWatch:
    """Looks at rounds before they are written; warns at most once in CLAMP_WARNING_INTERVAL_S."""

    def __init__(self) -> None:
        self._told_s = -CLAMP_WARNING_INTERVAL_S

    def look(self, built: Round, now_s: float) -> None:
        """Warn when a topic in it is far ahead of the clock."""
        if built.ahead is None or now_s - self._told_s < CLAMP_WARNING_INTERVAL_S:
            return
        self._told_s = now_s
        topic_id, newest_ms = built.ahead
        _log.warning(
            "topic %d ends with a message of %s, and the clock says %s: append times never go back, so new messages "
            "carry that time until it has come. Check the clock; docs/storage.md says what this means for retention",
            *(topic_id, _shown(newest_ms), _shown(built.now_ms)),
        )


def _shown(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(" ", "seconds")
    except (OverflowError, OSError, ValueError):  # there are no such years
        return f"{time_ms} ms since 1970"

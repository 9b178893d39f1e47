"""What goes wrong at the Raft port, told in the log once and not all the time. It decides, and logs nothing itself."""

from collections import OrderedDict

from danube.model.limits.metadata import RAFT_LOG_LINE_S, RAFT_LOG_LINES_MAX


class LogSuppressor:
    """Says whether a line is due. The same trouble (whoever has it, and which) is due again after RAFT_LOG_LINE_S.

    Strangers who come from ever new addresses fill the memory of RAFT_LOG_LINES_MAX troubles; then nothing further is
    due until the oldest of them is old enough, so that nobody can fill the log.
    """

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def due(self, who: str, what: str, now_s: float) -> str | None:
        """What to add to the line ("" or how often it was not told), or None when there should be none."""
        self._forget(now_s)
        key = (who, what)
        told = self._told.get(key)
        if told is None:
            if len(self._told) >= RAFT_LOG_LINES_MAX:
                return None
            self._told[key] = (now_s, 0)
            return ""
        at_s, untold = told
        if now_s - at_s < RAFT_LOG_LINE_S:
            self._told[key] = (at_s, untold + 1)
            return None
        self._told[key] = (now_s, 0)
        self._told.move_to_end(key)
        return f" ({untold} more times since the last such line)" if untold else ""

    def over(self, who: str) -> None:
        """All is well with this one: the next trouble is told at once."""
        for key in [key for key in self._told if key[0] == who]:
            del self._told[key]

    def _forget(self, now_s: float) -> None:
        """Forget what is old; what came again and was not told is kept as long once more, to be told next time."""
        kept_s = RAFT_LOG_LINE_S
        old = [key for key, (at_s, untold) in self._told.items() if now_s - at_s >= (2 * kept_s if untold else kept_s)]
        for key in old:
            del self._told[key]

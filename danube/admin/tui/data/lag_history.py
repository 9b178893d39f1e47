"""The lag of subscriptions over the last minutes, and how it is drawn. No I/O."""

from collections import deque
from collections.abc import Sequence

from danube.model.limits.faces import TUI_LAG_POINTS, TUI_LAG_SUBSCRIPTIONS_MAX

_BARS = "▁▂▃▄▅▆▇█"


class LagHistory:
    """The lag of each subscription, in the last TUI_LAG_POINTS rounds."""

    def __init__(self, subscriptions_max: int = TUI_LAG_SUBSCRIPTIONS_MAX) -> None:
        self._max = subscriptions_max
        self._points: dict[tuple[str, str], deque[int]] = {}

    def add(self, topic: str, subscription: str, lag: int, *, is_shown: bool = False) -> None:
        """One look. When the history is full, only a subscription on the screen takes another's place."""
        key = (topic, subscription)
        points = self._points.get(key)
        if points is None:
            if len(self._points) >= self._max:
                if not is_shown:
                    return
                del self._points[next(iter(self._points))]
            points = self._points[key] = deque(maxlen=TUI_LAG_POINTS)
        points.append(lag)

    def points(self, topic: str, subscription: str) -> Sequence[int]:
        """Oldest first."""
        return tuple(self._points.get((topic, subscription), ()))

    def subscriptions_of(self, topic: str) -> set[str]:
        return {name for of, name in self._points if of == topic}

    def drop_missing(self, topics: set[str]) -> None:
        """Drop what belongs to no topic of these."""
        for key in [key for key in self._points if key[0] not in topics]:
            del self._points[key]


def sparkline(points: Sequence[int], width: int) -> str:
    """The newest points as bars, from the smallest to the largest of them; right-aligned. A steady one is flat."""
    shown = points[-width:]
    low = min(shown, default=0)
    span = max(shown, default=0) - low
    bars = (_BARS[round((point - low) / span * (len(_BARS) - 1))] if span else _BARS[0] for point in shown)
    return "".join(bars).rjust(width)


def trend(points: Sequence[int]) -> str:
    """In a word where the lag is going: what a sparkline says, for those who cannot see it."""
    if len(points) < 2:
        return ""
    change = points[-1] - points[0]
    if change == 0:
        return "steady"
    return "growing" if change > 0 else "shrinking"

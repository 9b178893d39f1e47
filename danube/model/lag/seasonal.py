"""Lag that is usual at an hour of the week: median and median absolute deviation (MAD) of that hour. Pure."""

from collections.abc import Iterable, Mapping
from statistics import median

from danube.model.lag.verdict import LagVerdict

HOURS = 168
MAD_FACTOR = 3.5 * 1.4826
"""A robust z-score of 3.5: MAD times 1.4826 estimates a standard deviation."""
WEEKS_MIN = 3
"""An hour that was seen in fewer weeks has no usual lag."""
_HOUR_MS = 3_600_000
_MONDAY_MS = 4 * 24 * _HOUR_MS
"""The first Monday after the epoch."""


def hour_of_week(at_ms: int) -> int:
    """0 is Monday from 00:00 to 01:00, UTC."""
    return (at_ms - _MONDAY_MS) // _HOUR_MS % HOURS


def usual_lag_s(verdicts: Iterable[tuple[int, LagVerdict]]) -> Mapping[int, float]:
    """For each hour of the week that was seen often enough: the lag above which it is an anomaly."""
    by_week: dict[int, dict[int, float]] = {}
    for at_ms, verdict in verdicts:
        if verdict.lag_s is not None:
            weeks = by_week.setdefault(hour_of_week(at_ms), {})
            week = (at_ms - _MONDAY_MS) // _HOUR_MS // HOURS
            weeks[week] = max(weeks.get(week, 0.0), verdict.lag_s)
    return {hour: _bound(list(weeks.values())) for hour, weeks in by_week.items() if len(weeks) >= WEEKS_MIN}


def _bound(peaks: list[float]) -> float:
    middle = median(peaks)
    return middle + MAD_FACTOR * median(abs(peak - middle) for peak in peaks)

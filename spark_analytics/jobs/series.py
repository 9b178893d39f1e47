"""Forecasts of one series: seasonal-naive, Holt-Winters, and straight trends, with intervals. Pure, by numpy.

A series has equal steps and may have gaps (NaN). The better of the two models by its error on the part held back is
chosen: MASE, the error in units of the seasonal-naive one's on the past.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Vector: TypeAlias = Any
Z90 = 1.645
_GRID = tuple(
    (alpha, beta, gamma) for alpha in (0.05, 0.2, 0.5) for beta in (0.0, 0.01, 0.05) for gamma in (0.05, 0.2, 0.5)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast of a series, and how well its model did on the part held back."""

    model: str
    values: Vector
    low: Vector
    high: Vector
    mase: float | None
    mase_seasonal_naive: float | None


def filled(values: Vector) -> Vector:
    """The series with straight lines in its gaps."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return np.zeros(len(values))
    return np.interp(np.arange(len(values)), known, values[known])


def seasonal_naive(values: Vector, season: int, ahead: int) -> Vector:
    """The last season again; without a whole one, the last value."""
    if len(values) < season:
        return np.full(ahead, values[-1])
    return np.resize(values[-season:], ahead)


def holt_winters(values: Vector, season: int, ahead: int) -> Vector:
    """Additive level, damped trend and season; parameters by the smallest squared error of one step on the past."""
    if len(values) < 2 * season:
        return seasonal_naive(values, season, ahead)
    best = min((_smooth(values, season, grid) for grid in _GRID), key=lambda one: one[0])
    _, level, trend, seasonal = best
    damped = np.cumsum(0.98 ** np.arange(1, ahead + 1))
    return level + trend * damped + np.resize(seasonal, ahead)


def _smooth(values: Vector, season: int, grid: tuple[float, float, float]) -> tuple[float, float, float, Vector]:
    alpha, beta, gamma = grid
    first, second = values[:season].mean(), values[season : 2 * season].mean()
    level, trend = float(first), float(second - first) / season
    seasonal, error = (values[:season] - first).astype(float), 0.0
    for number, value in enumerate(values[season:].tolist()):
        at = number % season
        expected = level + trend + seasonal[at]
        error += (value - expected) ** 2
        before = level
        level = alpha * (value - seasonal[at]) + (1 - alpha) * (level + trend)
        trend = beta * (level - before) + (1 - beta) * trend * 0.98
        seasonal[at] = gamma * (value - level) + (1 - gamma) * seasonal[at]
    return error, level, trend, np.roll(seasonal, -((len(values) - season) % season))


MODELS: dict[str, Callable[[Vector, int, int], Vector]] = {
    "seasonal naive": seasonal_naive,
    "Holt-Winters": holt_winters,
}


def mase(actual: Vector, forecast: Vector, past: Vector, season: int) -> float | None:
    """Mean absolute error in units of the seasonal-naive one's on the past; None where the past never changes."""
    lagged = season if len(past) > season else 1
    if len(past) <= lagged or not len(actual):
        return None
    scale = float(np.abs(past[lagged:] - past[:-lagged]).mean())
    return float(np.abs(actual - forecast).mean()) / scale if scale > 0 else None


def forecast(values: Vector, season: int, ahead: int) -> Forecast:
    """The better model's forecast, never below 0, with its 90 % interval from the errors on the part held back."""
    values = filled(np.asarray(values, dtype=float))
    held = min(max(1, min(ahead, season)), max(1, len(values) // 4))
    past, actual = values[:-held], values[-held:]
    errors = (
        {name: mase(actual, model(past, season, held), past, season) for name, model in MODELS.items()}
        if len(past)
        else {}
    )
    known = {name: error for name, error in errors.items() if error is not None}
    chosen = min(known, key=lambda name: known[name]) if known else "seasonal naive"
    model = MODELS[chosen]
    spread = float(np.std(actual - model(past, season, held))) if len(past) else 0.0
    values_ahead = np.maximum(0.0, model(values, season, ahead))
    widening = spread * Z90 * np.sqrt(1 + np.arange(ahead) / max(1, season))
    return Forecast(
        model=chosen,
        values=values_ahead,
        low=np.maximum(0.0, values_ahead - widening),
        high=values_ahead + widening,
        mase=known.get(chosen),
        mase_seasonal_naive=known.get("seasonal naive"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Straight trend of a series, a day, with the standard error of its slope."""

    level: float
    """At the last time."""
    per_day: float
    error_per_day: float

    def days_to(self, limit: float) -> tuple[float | None, float | None, float | None]:
        """Days until the limit: as the trend has it, at the earliest and at the latest; None for never."""
        slopes = (self.per_day, self.per_day + Z90 * self.error_per_day, self.per_day - Z90 * self.error_per_day)
        left = max(0.0, limit - self.level)
        found = [left / slope if slope > 0 and left / slope < 3_650 else None for slope in slopes]
        return found[0], found[1], found[2]


def trend_of(days: Sequence[float], values: Sequence[float]) -> Trend | None:
    """The trend of values at times in days (Theil-Sen: single peaks do not count); None for fewer than three."""
    at, value = np.asarray(days, dtype=float), np.asarray(values, dtype=float)
    known = np.isfinite(value)
    at, value = at[known], value[known]
    if len(at) < 3 or at[-1] <= at[0]:
        return None
    step = max(1, len(at) // 200)
    at, value = at[::step], value[::step]
    first, second = np.triu_indices(len(at), 1)
    apart = at[second] - at[first]
    slopes = (value[second] - value[first])[apart > 0] / apart[apart > 0]
    slope = float(np.median(slopes))
    level = float(np.median(value - slope * (at - at[-1])))
    rest = value - (level + slope * (at - at[-1]))
    spread = float(np.sqrt((rest**2).sum() / max(1, len(at) - 2)))
    return Trend(level=level, per_day=slope, error_per_day=spread / float(np.sqrt(((at - at.mean()) ** 2).sum())))

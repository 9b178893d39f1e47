"""Smoothed rates: exponentially weighted averages with a half-life in seconds, whatever the times between readings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmoothedRate:
    """A rate per second, from readings of a counter."""

    half_life_s: float
    value: float = 0.0
    counter: float | None = None
    """The last reading; None before the first."""
    at_s: float = 0.0

    def read(self, counter: float, at_s: float) -> "SmoothedRate":
        """The rate after another reading, at monotonic time `at_s`; a counter that went back began anew."""
        passed_s = at_s - self.at_s
        if self.counter is None:
            return SmoothedRate(self.half_life_s, 0.0, counter, at_s)
        if passed_s <= 0:
            return self
        grown = counter - self.counter if counter >= self.counter else counter
        rate = grown / passed_s
        kept = 0.5 ** (passed_s / self.half_life_s)
        is_first = self.value == 0.0
        value = rate if is_first else kept * self.value + (1 - kept) * rate
        return SmoothedRate(self.half_life_s, value, counter, at_s)

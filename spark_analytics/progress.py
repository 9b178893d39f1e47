"""Progress of a job on standard error: a line for each step that is done, with counts and seconds."""

import sys

from danube.model.text import span_text
from danube.runtime.clock import Clock
from danube.runtime.console import say

PROGRAM = "danube-analytics"


class Steps:
    """Progress reporter: prints each step and its duration."""

    def __init__(self, clock: Clock, *, shown: bool) -> None:
        self._clock = clock
        self._shown = shown
        self._before_s = clock.monotonic_s()

    @classmethod
    def for_terminal(cls, clock: Clock, *, quiet: bool, wanted: bool | None) -> "Steps":
        """Shown when it is `wanted`, and by default where standard error is a terminal; never when quiet."""
        return cls(clock, shown=not quiet and (sys.stderr.isatty() if wanted is None else wanted))

    def tell(self, text: str) -> None:
        """Something that took no time of its own."""
        if self._shown:
            say(text, PROGRAM)

    def done(self, text: str) -> None:
        """A step is over."""
        now_s = self._clock.monotonic_s()
        if self._shown:
            say(f"{text} ({span_text(now_s - self._before_s)})", PROGRAM)
        self._before_s = now_s

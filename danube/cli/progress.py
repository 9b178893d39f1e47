"""How far a command is, shown on a terminal and nowhere else."""

import sys
from typing import TYPE_CHECKING

from danube.runtime.clock import Clock

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_INTERVAL_S = 0.1


class Progress:
    """A line on stderr that counts; nothing at all where stderr is not a terminal, or when told to be quiet."""

    def __init__(self, text: str, clock: Clock, *, quiet: bool) -> None:
        self._clock = clock
        self._shown_at_s = clock.monotonic_s()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if not quiet and sys.stderr.isatty():
            self._show(text)

    def update(self, count: int) -> None:
        """Say how many there are by now; drawn at most ten times a second."""
        now_s = self._clock.monotonic_s()
        if self._bar is None or self._task is None or now_s - self._shown_at_s < _INTERVAL_S:
            return
        self._shown_at_s = now_s
        self._bar.update(self._task, completed=count, refresh=True)

    def close(self) -> None:
        """Take the line away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show(self, text: str) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs rich
        from rich.progress import Progress as Bar  # noqa: PLC0415 - the same
        from rich.progress import TextColumn, TimeElapsedColumn  # noqa: PLC0415 - the same

        columns = (TextColumn("{task.description}"), TextColumn("{task.completed:,.0f}"), TimeElapsedColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        self._task = self._bar.add_task(text, total=None)
        self._bar.start()

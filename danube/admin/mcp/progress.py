"""Progress notifications of one call: the protocol wants each above the one before, also while nothing new is known."""

from danube.admin.operations.operation import Report
from danube.admin.present import printable
from danube.model.limits.faces import MCP_PROGRESS_HALF_S
from danube.runtime.clock import Clock


class Progress:
    """Passes on how far a call is; while that stands still, the time that it takes adds a part of the next step."""

    def __init__(self, send: Report, clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._done, self._since_s = -1.0, 0.0
        self._told = -1.0

    async def report(self, done: float, total: float | None, message: str) -> None:
        """Tell it, unless no more than at the last time is known."""
        now_s = self._clock.monotonic_s()
        if done > self._done:
            self._done, self._since_s = done, now_s
        waited_s = now_s - self._since_s
        value = self._done + waited_s / (waited_s + MCP_PROGRESS_HALF_S)
        if value > self._told:
            self._told = value
            await self._send(value, total, printable(message))

"""Records of reads, written behind their answers: an assistant need not wait until the log is on the disk.

They go out together, MCP_NOTES_DELAY_S after the first of them, so that one call's record does not slow down the next
call and several share a round of the journal. What is not out when the process is killed is lost; a change is never
recorded this way.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from danube.model.limits.faces import MCP_NOTES_DELAY_S, MCP_NOTES_DRAIN_S, MCP_NOTES_MAX
from danube.runtime.clock import Clock, TimerHandle
from danube.runtime.tasks import TaskScope

Note = Coroutine[Any, Any, None]


class AuditWriter:
    """Work that is done after the answer. At MCP_NOTES_MAX that are not done the next one is waited for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scope = TaskScope("mcp audit")
        self._due: list[Note] = []
        self._open: set[asyncio.Task[Any]] = set()
        self._timer: TimerHandle | None = None

    async def do(self, note: Note) -> None:
        """Have it done soon, after those before it were started."""
        if len(self._due) + len(self._open) >= MCP_NOTES_MAX:
            await note
            return
        self._due.append(note)
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.monotonic_s() + MCP_NOTES_DELAY_S, self._start)

    async def drain(self) -> None:
        """Do what is left, in MCP_NOTES_DRAIN_S at most, and give the rest up."""
        self._start()
        if not self._open:
            return
        _, late = await asyncio.wait(self._open, timeout=MCP_NOTES_DRAIN_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        notes, self._due = self._due, []
        for note in notes:
            task = self._scope.spawn(note, "record")
            self._open.add(task)
            task.add_done_callback(self._open.discard)

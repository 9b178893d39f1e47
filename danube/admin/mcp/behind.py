"""Records of reads, written behind their answers: an assistant need not wait until the log is on the disk."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from danube.model.limits import MCP_NOTES_DRAIN_S, MCP_NOTES_MAX
from danube.runtime.tasks import TaskScope


class Behind:
    """Work that goes on after the answer. At MCP_NOTES_MAX the next one is waited for."""

    def __init__(self) -> None:
        self._scope = TaskScope("mcp audit")
        self._open: set[asyncio.Task[Any]] = set()

    async def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Start it, and return."""
        if len(self._open) >= MCP_NOTES_MAX:
            await work
            return
        task = self._scope.spawn(work, "record")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def drain(self) -> None:
        """Wait for what is under way, MCP_NOTES_DRAIN_S at most, and give the rest up."""
        if not self._open:
            return
        _, late = await asyncio.wait(self._open, timeout=MCP_NOTES_DRAIN_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

"""What other processes come to see, waited for with a bound."""

import asyncio
from collections.abc import Awaitable, Callable

from danube.metadata.store import Watch, WatchEvent
from danube.model.errors import DanubeError

PATIENCE_S = 60.0
"""For what takes other processes an election, or a lease that runs out."""
_POLL_S = 0.05


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return when it holds; there is no event for it here. A call that fails is made again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if await holds():
                    return
            except DanubeError:
                pass
            await asyncio.sleep(_POLL_S)


async def take(watch: Watch, count: int) -> list[WatchEvent]:
    """The next so many events; the caller bounds the wait."""
    events: list[WatchEvent] = []
    async for event in watch:
        events.append(event)
        if len(events) == count:
            break
    return events

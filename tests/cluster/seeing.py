"""What other processes come to see, waited for with a bound."""

import asyncio
from collections.abc import Awaitable, Callable

from danube.metadata.shared_log.backend import LogBackend
from danube.metadata.shared_log.sequencer import open_shared_log
from danube.metadata.store import Watch, WatchEvent
from danube.model.errors import DanubeError, MetadataError
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S

_POLL_S = 0.05
_LATE = ("does not answer", "is not connected", "cannot be reached")


async def until(
    holds: Callable[[], Awaitable[bool]], *, within_s: float = PATIENCE_S, every_s: float = _POLL_S
) -> None:
    """Return when it holds; there is no event for it here. A call that fails is made again."""
    async with asyncio.timeout(within_s):
        while True:
            try:
                if await holds():
                    return
            except DanubeError:
                pass
            await asyncio.sleep(every_s)


async def refusal(backend: Callable[[], LogBackend], *words: str) -> str:
    """How a service refuses a store, once it says one of these: one that is only slow has refused nothing yet."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                store = await open_shared_log(backend(), SystemClock(), SystemRng())
            except MetadataError as error:
                told = str(error)
            else:
                await store.close()
                raise AssertionError(f"nobody refused with {words}")
            if any(word in told for word in words):
                return told
            assert any(late in told for late in _LATE), told


async def take(watch: Watch, count: int) -> list[WatchEvent]:
    """The next so many events; the caller bounds the wait."""
    events: list[WatchEvent] = []
    async for event in watch:
        events.append(event)
        if len(events) == count:
            break
    return events

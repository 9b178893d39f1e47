"""What other processes come to see, waited for with a bound."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from danube.metadata.shared_log.backend import LogBackend
from danube.metadata.shared_log.sequencer import open_shared_log
from danube.metadata.store import Watch, WatchEvent
from danube.model.errors import DanubeError, MetadataError
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S

_POLL_S = 0.05
_PROCESS_POLL_S = 0.25
_LOG_CHARS = 2_000
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


def wait_until(holds: Callable[[], bool], what: str, *, log: Callable[[], str] = str) -> None:
    """As `until`, in a test without an event loop; a failure says `what` did not come true, and the end of the log."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if holds():
                return
        except DanubeError:
            if time.monotonic() > deadline_s:
                raise
        assert time.monotonic() < deadline_s, f"{what}: not within {PATIENCE_S:.0f} s\n{log()[-_LOG_CHARS:]}"
        time.sleep(_PROCESS_POLL_S)


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

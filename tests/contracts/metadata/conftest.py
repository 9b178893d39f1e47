"""Every implementation of `MetadataStore`, opened for the contract suite beside this file.

A new one adds its opener to `STORES`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.sqlite import SqliteStore
from danube.metadata.store import MetadataStore
from danube.testing.clock import SimClock

WATCH_EVENTS_MAX = 8

Opener = Callable[[SimClock, Path], Awaitable[MetadataStore]]


async def _open_memory(clock: SimClock, _folder: Path) -> MetadataStore:
    return MemoryStore(clock, watch_events_max=WATCH_EVENTS_MAX)


async def _open_sqlite(clock: SimClock, folder: Path) -> MetadataStore:
    return await SqliteStore.open(folder / "metadata.sqlite", clock, watch_events_max=WATCH_EVENTS_MAX)


STORES: dict[str, Opener] = {"memory": _open_memory, "sqlite": _open_sqlite}


@pytest.fixture
def watch_events_max() -> int:
    """How many changes a watch of `store` keeps for a reader that does not read."""
    return WATCH_EVENTS_MAX


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, clock: SimClock, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    opened = await STORES[request.param](clock, tmp_path)
    yield opened
    await opened.close()

"""A copy of what is below a prefix: events in, differences out."""

import asyncio
from collections.abc import Iterator

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.store import Changed, Entry, Removed, Resync, SnapshotEnd
from danube.metadata.watch_cache import WatchCache
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock, settle


class Seen:
    """What a cache has told."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, bytes | None]] = []

    def __call__(self, key: str, entry: Entry | None) -> None:
        self.changes.append((key, entry.value if entry else None))

    def take(self) -> list[tuple[str, bytes | None]]:
        """What came since the last time."""
        taken, self.changes = self.changes, []
        return taken


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def cache(seen: Seen) -> Iterator[WatchCache]:
    clock = SimClock()
    yield WatchCache(MemoryStore(clock), "/a", clock, seen)


def entry(key: str, value: bytes, revision: int) -> Entry:
    return Entry(key, value, 1, revision)


def test_nothing_is_told_before_the_first_snapshot_is_whole(cache: WatchCache, seen: Seen) -> None:
    cache.apply(Changed(entry("/a/1", b"x", 1)))
    assert seen.take() == []
    cache.apply(SnapshotEnd(1))
    assert seen.take() == [("/a/1", b"x")]


def test_after_the_snapshot_each_change_is_told_once(cache: WatchCache, seen: Seen) -> None:
    cache.apply(SnapshotEnd(0))
    cache.apply(Changed(entry("/a/1", b"x", 1)))
    cache.apply(Changed(entry("/a/1", b"y", 2)))
    cache.apply(Removed("/a/1", 3))
    cache.apply(Removed("/a/1", 4))
    assert seen.take() == [("/a/1", b"x"), ("/a/1", b"y"), ("/a/1", None)]


def test_after_a_break_only_what_differs_is_told_and_no_reader_sees_half(cache: WatchCache, seen: Seen) -> None:
    for key in ("/a/kept", "/a/gone", "/a/changed"):
        cache.apply(Changed(entry(key, b"before", 1)))
    cache.apply(SnapshotEnd(1))
    seen.take()
    cache.apply(Resync())
    cache.apply(Changed(entry("/a/kept", b"before", 1)))
    assert sorted(cache.entries) == ["/a/changed", "/a/gone", "/a/kept"]
    cache.apply(Changed(entry("/a/changed", b"after", 5)))
    cache.apply(SnapshotEnd(5))
    assert seen.take() == [("/a/gone", None), ("/a/changed", b"after")]
    assert sorted(cache.entries) == ["/a/changed", "/a/kept"]


async def test_it_follows_a_store_until_that_is_closed(seen: Seen) -> None:
    clock = SimClock()
    store, tasks = MemoryStore(clock), TaskScope("test")
    cache = WatchCache(store, "/a", clock, seen)
    running = tasks.spawn(cache.run(), "cache")
    await store.put("/a/1", b"x")
    await store.put("/b/1", b"x")
    async with asyncio.timeout(PATIENCE_S):
        await cache.ready()
    await store.delete("/a/1")
    await settle()
    assert seen.take() == [("/a/1", b"x"), ("/a/1", None)]
    await store.close()
    async with asyncio.timeout(PATIENCE_S):
        await running
    await tasks.close()

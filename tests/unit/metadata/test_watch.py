import asyncio
from collections.abc import Sequence

from danube.metadata.store import Changed, Entry, Resync, SnapshotEnd
from danube.metadata.watch import Begin, WatchHub


class Snapshots:
    """A source that answers when the test says so."""

    def __init__(self, *entries: Entry) -> None:
        self.entries: Sequence[Entry] = entries
        self.asked: list[Begin] = []
        self.answered = asyncio.Event()

    async def take(self, prefix: str, begin: Begin) -> None:
        self.asked.append(begin)
        await self.answered.wait()
        begin(self.entries, 1)


def entry(key: str, revision: int) -> Entry:
    return Entry(key, b"", revision, revision)


async def test_reader_cancelled_while_its_snapshot_is_taken_gets_it_once() -> None:
    source = Snapshots(entry("/a/1", 1))
    watch = WatchHub(source.take).watch("/a")
    reader = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait([reader])
    source.asked[0](source.entries, 1)
    source.answered.set()
    assert [await anext(watch), await anext(watch)] == [Changed(entry("/a/1", 1)), SnapshotEnd(1)]
    assert len(source.asked) == 1


async def test_second_answer_to_a_snapshot_is_ignored() -> None:
    source = Snapshots(entry("/a/1", 1))
    source.answered.set()
    hub = WatchHub(source.take)
    watch = hub.watch("/a")
    assert [await anext(watch), await anext(watch)] == [Changed(entry("/a/1", 1)), SnapshotEnd(1)]
    hub.publish([Changed(entry("/a/2", 2))])
    source.asked[0](source.entries, 2)
    assert await anext(watch) == Changed(entry("/a/2", 2))


async def test_changes_before_the_snapshot_are_part_of_it_and_not_told_again() -> None:
    source = Snapshots(entry("/a/1", 1))
    hub = WatchHub(source.take)
    watch = hub.watch("/a")
    reader = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    hub.publish([Changed(entry("/a/1", 1))])
    source.answered.set()
    assert [await reader, await anext(watch)] == [Changed(entry("/a/1", 1)), SnapshotEnd(1)]
    hub.publish([Changed(entry("/a/2", 2))])
    assert await anext(watch) == Changed(entry("/a/2", 2))


async def test_overflow_while_the_snapshot_is_being_told_starts_it_anew() -> None:
    source = Snapshots(entry("/a/1", 1), entry("/a/2", 1))
    source.answered.set()
    hub = WatchHub(source.take, events_max=1)
    watch = hub.watch("/a")
    assert await anext(watch) == Changed(entry("/a/1", 1))
    hub.publish([Changed(entry("/a/1", 2)), Changed(entry("/a/1", 3))])
    assert [await anext(watch) for _ in range(3)] == [Resync(), Changed(entry("/a/1", 1)), Changed(entry("/a/2", 1))]


async def test_closed_watch_keeps_nothing() -> None:
    source = Snapshots()
    source.answered.set()
    hub = WatchHub(source.take)
    watch = hub.watch("/a")
    assert await anext(watch) == SnapshotEnd(1)
    await watch.close()
    hub.publish([Changed(entry("/a/1", 2))])
    assert await anext(watch, None) is None

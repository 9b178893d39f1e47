"""What a watch promises, whatever the store: a snapshot, then every change once and in order."""

import asyncio

import pytest

from danube.metadata.store import (
    Changed,
    Delete,
    DeletePrefix,
    Entry,
    MetadataStore,
    Put,
    Removed,
    Resync,
    SnapshotEnd,
    Transaction,
    Watch,
    WatchEvent,
)
from danube.model.errors import VersionConflictError
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock

WAIT_S = PATIENCE_S


async def take(watch: Watch, count: int) -> list[WatchEvent]:
    events: list[WatchEvent] = []
    async with asyncio.timeout(WAIT_S):
        async for event in watch:
            events.append(event)
            if len(events) == count:
                break
    return events


async def test_watch_tells_the_snapshot_then_the_changes_in_order(store: MetadataStore) -> None:
    first = await store.put("/a/1", b"old")
    second = await store.put("/a/2", b"")
    watch = store.watch("/a")
    snapshot = await take(watch, 3)
    third = await store.put("/a/1", b"new")
    await store.delete("/a/2")
    assert snapshot == [
        Changed(Entry("/a/1", b"old", first, first)),
        Changed(Entry("/a/2", b"", second, second)),
        SnapshotEnd(second),
    ]
    assert await take(watch, 2) == [Changed(Entry("/a/1", b"new", first, third)), Removed("/a/2", third + 1)]


async def test_watch_of_an_empty_prefix_begins_with_the_end_of_its_snapshot(store: MetadataStore) -> None:
    assert await take(store.watch("/a"), 1) == [SnapshotEnd(0)]


async def test_watch_tells_only_what_is_below_its_prefix(store: MetadataStore) -> None:
    watch = store.watch("/a/b")
    await take(watch, 1)
    for key in ("/a/b", "/a/bc", "/a/b0", "/a", "/a/b/c"):
        revision = await store.put(key, b"")
    assert await take(watch, 1) == [Changed(Entry("/a/b/c", b"", revision, revision))]


async def test_watch_tells_the_removal_of_a_prefix_key_by_key(store: MetadataStore) -> None:
    await store.put("/a/1", b"")
    await store.put("/a/2", b"")
    watch = store.watch("/a")
    await take(watch, 3)
    revision = await store.transact(Transaction("", (), (DeletePrefix("/a"),)))
    assert await take(watch, 2) == [Removed("/a/1", revision), Removed("/a/2", revision)]


async def test_change_without_effect_is_not_told(store: MetadataStore) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    await store.delete("/a/missing")
    await store.transact(
        Transaction(
            "",
            (),
            (
                Put("/a/short", b""),
                Delete("/a/short"),
            ),
        )
    )
    with pytest.raises(VersionConflictError):
        await store.compare_and_set("/a/1", b"", revision=7)
    revision = await store.put("/a/2", b"")
    assert await take(watch, 1) == [Changed(Entry("/a/2", b"", revision, revision))]


async def test_snapshot_and_changes_fit_together_while_others_write(store: MetadataStore) -> None:
    async def write() -> None:
        for index in range(60):
            await store.put(f"/a/{index % 7}", str(index).encode())
            await asyncio.sleep(0)

    async def follow() -> dict[str, bytes]:
        seen: dict[str, bytes] = {}
        last: int | None = None  # while a snapshot is being told
        async for event in store.watch("/a"):
            if isinstance(event, Resync):
                seen, last = {}, None
            elif isinstance(event, SnapshotEnd):
                last = event.revision
            elif isinstance(event, Changed):
                seen[event.entry.key] = event.entry.value
                assert last is None or event.entry.revision == last + 1
                last = None if last is None else last + 1
            if last == 60:
                break
        return seen

    async with asyncio.timeout(WAIT_S):
        _, *followed = await asyncio.gather(write(), follow(), follow(), follow())
    expected = {entry.key: entry.value for entry in await store.list("/a")}
    assert followed == [expected] * 3


async def test_reader_that_falls_behind_is_told_to_resync_and_gets_a_new_snapshot(
    store: MetadataStore, watch_events_max: int
) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    for index in range(watch_events_max + 1):
        revision = await store.put(f"/a/{index}", b"")
    entries = await store.list("/a")
    expected = [Resync(), *map(Changed, entries), SnapshotEnd(revision)]
    assert await take(watch, len(expected)) == expected
    later = await store.put("/a/later", b"")
    assert await take(watch, 1) == [Changed(Entry("/a/later", b"", later, later))]


async def test_reader_within_the_bound_is_told_every_change(store: MetadataStore, watch_events_max: int) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    revisions = [await store.put("/a/1", b"") for _ in range(watch_events_max)]
    events = await take(watch, watch_events_max)
    assert events == [Changed(Entry("/a/1", b"", revisions[0], revision)) for revision in revisions]


async def test_one_slow_watcher_does_not_disturb_another(store: MetadataStore, watch_events_max: int) -> None:
    slow, quick = store.watch("/a"), store.watch("/a")
    await take(slow, 1)
    await take(quick, 1)
    for index in range(watch_events_max + 1):
        revision = await store.put(f"/a/{index}", b"")
        assert await take(quick, 1) == [Changed(Entry(f"/a/{index}", b"", revision, revision))]
    assert await take(slow, 1) == [Resync()]


async def test_reader_that_was_cancelled_while_waiting_misses_nothing(store: MetadataStore) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    reader = asyncio.create_task(take(watch, 1))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait([reader])
    revision = await store.put("/a/1", b"")
    assert await take(watch, 1) == [Changed(Entry("/a/1", b"", revision, revision))]


async def test_writer_that_was_cancelled_does_not_cost_watchers_its_change(store: MetadataStore) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    writer = asyncio.create_task(store.put("/a/1", b""))
    await asyncio.sleep(0)
    writer.cancel()
    await asyncio.wait([writer])
    async with asyncio.timeout(WAIT_S):
        while (entry := await store.get("/a/1", linearizable=True)) is None:
            pass
    assert await take(watch, 1) == [Changed(entry)]


async def test_closed_watch_ends_and_closing_twice_is_harmless(store: MetadataStore) -> None:
    watch = store.watch("/a")
    reader = asyncio.create_task(take(watch, 3))  # the end of the snapshot, perhaps the change, and no third
    await store.put("/a/1", b"")
    await watch.close()
    await watch.close()
    assert len(await reader) < 3
    assert await take(watch, 1) == []


async def test_watcher_is_told_of_an_expiry_without_anyone_asking(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    revision = await store.put("/a/b", b"", lease_id=lease_id)
    watch = store.watch("/a")
    await take(watch, 2)
    clock.advance(10.0)
    assert await take(watch, 1) == [Removed("/a/b", revision + 1)]


async def test_closing_the_store_ends_its_watches(store: MetadataStore) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    reader = asyncio.create_task(take(watch, 1))
    await asyncio.sleep(0)
    await store.close()
    assert await reader == []

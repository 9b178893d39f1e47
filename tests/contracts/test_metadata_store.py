"""The promises of `MetadataStore`, kept by every implementation. A new one adds its opener to `STORES`."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.sqlite import SqliteStore
from danube.metadata.store import (
    Changed,
    Condition,
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
    Write,
)
from danube.model.errors import InvalidRequestError, MetadataError, NotFoundError, VersionConflictError
from danube.model.limits import METADATA_KEY_BYTES_MAX, METADATA_VALUE_BYTES_MAX
from danube.testing.clock import SimClock

WATCH_EVENTS_MAX = 8
WAIT_S = 10.0

Opener = Callable[[SimClock, Path], Awaitable[MetadataStore]]


async def _open_memory(clock: SimClock, _folder: Path) -> MetadataStore:
    return MemoryStore(clock, watch_events_max=WATCH_EVENTS_MAX)


async def _open_sqlite(clock: SimClock, folder: Path) -> MetadataStore:
    return await SqliteStore.open(folder / "metadata.sqlite", clock, watch_events_max=WATCH_EVENTS_MAX)


STORES: dict[str, Opener] = {"memory": _open_memory, "sqlite": _open_sqlite}

_ids = itertools.count(1)


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, clock: SimClock, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    opened = await STORES[request.param](clock, tmp_path)
    yield opened
    await opened.close()


def transaction(*writes: Write, conditions: tuple[Condition, ...] = ()) -> Transaction:
    return Transaction(f"transaction-{next(_ids)}", conditions, writes)


async def take(watch: Watch, count: int) -> list[WatchEvent]:
    events: list[WatchEvent] = []
    async with asyncio.timeout(WAIT_S):
        async for event in watch:
            events.append(event)
            if len(events) == count:
                break
    return events


async def keys_below(store: MetadataStore, prefix: str) -> list[str]:
    return [entry.key for entry in await store.list(prefix)]


# Keys, values, revisions


async def test_missing_key_is_none(store: MetadataStore) -> None:
    assert await store.get("/a") is None


async def test_key_reads_back_with_the_revisions_of_its_first_and_last_change(store: MetadataStore) -> None:
    first = await store.put("/a", b"1")
    await store.put("/b", b"x")
    last = await store.put("/a", b"2")
    assert await store.get("/a") == Entry("/a", b"2", created_revision=first, revision=last)


async def test_each_change_gets_the_next_revision(store: MetadataStore) -> None:
    revisions = [await store.put(f"/a/{index}", b"") for index in range(5)]
    assert revisions == list(range(revisions[0], revisions[0] + 5))


async def test_recreated_key_has_a_new_creation(store: MetadataStore) -> None:
    await store.put("/a", b"1")
    await store.delete("/a")
    again = await store.put("/a", b"2")
    assert await store.get("/a") == Entry("/a", b"2", created_revision=again, revision=again)


async def test_deleting_a_missing_key_takes_no_revision(store: MetadataStore) -> None:
    before = await store.put("/a", b"")
    await store.delete("/b")
    assert await store.put("/a", b"") == before + 1


async def test_list_ends_at_a_slash(store: MetadataStore) -> None:
    for key in ("/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/bc", "/a/b-", "/a/b0", "/ab/b/c", "/a/b/é"):
        await store.put(key, b"")
    assert await keys_below(store, "/a/b") == ["/a/b/c", "/a/b/c/d", "/a/b/é"]


async def test_list_is_sorted_by_key_whatever_the_script(store: MetadataStore) -> None:
    keys = ["/k/a", "/k/Z", "/k/é", "/k/日本", "/k/😀", "/k/\uffe6", "/k/a/b", "/k/a-b"]
    for key in keys:
        await store.put(key, key.encode())
    assert [(entry.key, entry.value) for entry in await store.list("/k")] == [
        (key, key.encode()) for key in sorted(keys)
    ]


async def test_root_lists_everything(store: MetadataStore) -> None:
    await store.put("/a", b"")
    await store.put("/b/c", b"")
    assert await keys_below(store, "/") == ["/a", "/b/c"]


async def test_largest_key_and_value_fit(store: MetadataStore) -> None:
    key, value = "/" + "k" * (METADATA_KEY_BYTES_MAX - 1), bytes(range(256)) * (METADATA_VALUE_BYTES_MAX // 256)
    await store.put(key, value)
    entry = await store.get(key)
    assert entry is not None
    assert entry.value == value


@pytest.mark.parametrize("key", ["", "/", "a", "/a/", "/a//b", "/a\0b", "/\ud800", "/" + "k" * METADATA_KEY_BYTES_MAX])
async def test_key_that_is_no_path_is_refused(store: MetadataStore, key: str) -> None:
    with pytest.raises(InvalidRequestError):
        await store.put(key, b"")


async def test_value_that_is_too_large_is_refused(store: MetadataStore) -> None:
    with pytest.raises(InvalidRequestError):
        await store.put("/a", bytes(METADATA_VALUE_BYTES_MAX + 1))
    assert await store.get("/a") is None


# Compare-and-set


async def test_compare_and_set_creates_only_a_missing_key(store: MetadataStore) -> None:
    revision = await store.compare_and_set("/a", b"1", revision=0)
    with pytest.raises(VersionConflictError):
        await store.compare_and_set("/a", b"2", revision=0)
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)


async def test_compare_and_set_with_an_old_revision_changes_nothing(store: MetadataStore) -> None:
    old = await store.put("/a", b"1")
    await store.put("/a", b"2")
    with pytest.raises(VersionConflictError):
        await store.compare_and_set("/a", b"3", revision=old)
    entry = await store.get("/a")
    assert entry is not None
    assert entry.value == b"2"


async def test_conditional_delete_with_an_old_revision_changes_nothing(store: MetadataStore) -> None:
    old = await store.put("/a", b"1")
    new = await store.put("/a", b"2")
    with pytest.raises(VersionConflictError):
        await store.delete("/a", revision=old)
    assert await store.get("/a") is not None
    await store.delete("/a", revision=new)
    assert await store.get("/a") is None


async def test_conditional_delete_of_a_missing_key_is_a_conflict(store: MetadataStore) -> None:
    with pytest.raises(VersionConflictError):
        await store.delete("/a", revision=1)


async def test_a_thousand_concurrent_increments_lose_none(store: MetadataStore) -> None:
    async def increment_often() -> None:
        for _ in range(50):
            while not await increment_once():
                pass

    async def increment_once() -> bool:
        entry = await store.get("/counter")
        value, revision = (int(entry.value), entry.revision) if entry else (0, 0)
        try:
            await store.compare_and_set("/counter", str(value + 1).encode(), revision=revision)
        except VersionConflictError:
            return False
        return True

    await asyncio.gather(*(increment_often() for _ in range(20)))
    entry = await store.get("/counter")
    assert entry is not None
    assert entry.value == b"1000"


# Transactions


async def test_transaction_applies_all_its_writes_at_one_revision(store: MetadataStore) -> None:
    old = await store.put("/old", b"")
    revision = await store.transact(
        transaction(Put("/a", b"1"), Put("/b", b"2"), Delete("/old"), conditions=(Condition("/old", old),))
    )
    assert revision == old + 1
    assert await store.list("/") == [
        Entry("/a", b"1", revision, revision),
        Entry("/b", b"2", revision, revision),
    ]


async def test_transaction_with_a_failed_condition_applies_nothing(store: MetadataStore) -> None:
    revision = await store.put("/a", b"1")
    conditions = (Condition("/a", revision), Condition("/b", revision))
    with pytest.raises(VersionConflictError):
        await store.transact(transaction(Put("/a", b"2"), Delete("/a"), Put("/c", b""), conditions=conditions))
    assert await store.list("/") == [Entry("/a", b"1", revision, revision)]


async def test_same_transaction_twice_is_applied_once(store: MetadataStore) -> None:
    increment = transaction(Put("/a", b"1"))
    first = await store.transact(increment)
    await store.put("/a", b"2")
    assert await store.transact(increment) == first
    entry = await store.get("/a")
    assert entry is not None
    assert entry.value == b"2"


async def test_same_transaction_twice_answers_its_first_conflict_again(store: MetadataStore) -> None:
    create = transaction(Put("/a", b"mine"), conditions=(Condition("/a", 0),))
    other = await store.put("/a", b"theirs")
    with pytest.raises(VersionConflictError):
        await store.transact(create)
    await store.delete("/a", revision=other)
    with pytest.raises(VersionConflictError):
        await store.transact(create)
    assert await store.get("/a") is None


async def test_same_transaction_from_two_callers_at_once_is_applied_once(store: MetadataStore) -> None:
    create = transaction(Put("/a", b""), conditions=(Condition("/a", 0),))
    first, second = await asyncio.gather(store.transact(create), store.transact(create))
    assert first == second


async def test_delete_prefix_removes_the_key_and_all_below_it_and_nothing_else(store: MetadataStore) -> None:
    for key in ("/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/bc", "/a/b0"):
        await store.put(key, b"")
    await store.transact(transaction(DeletePrefix("/a/b")))
    assert await keys_below(store, "/") == ["/a", "/a/b0", "/a/bc"]


async def test_later_writes_of_a_transaction_see_the_earlier_ones(store: MetadataStore) -> None:
    await store.put("/a/old", b"")
    revision = await store.transact(
        transaction(Put("/a/lost", b""), DeletePrefix("/a"), Put("/a/new", b"1"), Put("/a/new", b"2"))
    )
    assert await store.list("/a") == [Entry("/a/new", b"2", revision, revision)]


async def test_transaction_without_effect_takes_no_revision(store: MetadataStore) -> None:
    before = await store.put("/a", b"")
    assert await store.transact(transaction(Delete("/b"), DeletePrefix("/c"))) == before
    assert await store.transact(transaction(Put("/d", b""), Delete("/d"))) == before


# Leases


async def test_leased_key_goes_when_the_time_is_up(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    revision = await store.put("/a", b"", lease_id=lease_id)
    await clock.run_for(9.9)
    assert await store.get("/a") == Entry("/a", b"", revision, revision, lease_id)
    await clock.run_for(0.1)
    assert await store.get("/a") is None


async def test_renewed_lease_lives_for_its_whole_time_again(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    await store.put("/a", b"", lease_id=lease_id)
    for _ in range(3):
        clock.advance(9.0)
        await store.renew_lease(lease_id)
    clock.advance(9.9)
    assert await store.get("/a") is not None
    clock.advance(0.1)
    assert await store.get("/a") is None


async def test_lease_that_ran_out_cannot_be_renewed(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    clock.advance(10.0)
    with pytest.raises(NotFoundError):
        await store.renew_lease(lease_id)


async def test_late_timer_does_not_let_a_lease_live_on(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    await store.put("/a/b", b"", lease_id=lease_id)
    clock._now_s += 10.0  # as on a busy loop: time has passed and no timer was called yet
    assert await store.list("/a") == []
    assert await store.get("/a/b") is None


async def test_lease_that_ran_out_takes_no_keys(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    clock.advance(10.0)
    with pytest.raises(NotFoundError):
        await store.put("/a", b"", lease_id=lease_id)
    assert await store.get("/a") is None


async def test_revoked_lease_takes_its_keys_along_and_no_others(store: MetadataStore) -> None:
    mine, other = await store.grant_lease(10.0), await store.grant_lease(10.0)
    await store.put("/mine/1", b"", lease_id=mine)
    await store.put("/mine/2", b"", lease_id=mine)
    await store.put("/other", b"", lease_id=other)
    await store.put("/free", b"")
    await store.revoke_lease(mine)
    assert await keys_below(store, "/") == ["/free", "/other"]
    await store.revoke_lease(mine)


async def test_key_belongs_to_the_lease_it_was_last_put_with(store: MetadataStore) -> None:
    first, second = await store.grant_lease(10.0), await store.grant_lease(10.0)
    await store.put("/moved", b"", lease_id=first)
    await store.put("/moved", b"", lease_id=second)
    await store.put("/freed", b"", lease_id=first)
    await store.put("/freed", b"")
    await store.revoke_lease(first)
    assert await keys_below(store, "/") == ["/freed", "/moved"]


async def test_leases_have_ids_of_their_own(store: MetadataStore) -> None:
    first = await store.grant_lease(10.0)
    await store.revoke_lease(first)
    assert len({first, await store.grant_lease(10.0), await store.grant_lease(10.0), 0}) == 4


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, 1e9, float("nan")])
async def test_impossible_lease_time_is_refused(store: MetadataStore, ttl_s: float) -> None:
    with pytest.raises(InvalidRequestError):
        await store.grant_lease(ttl_s)


async def test_watcher_is_told_of_an_expiry_without_anyone_asking(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    revision = await store.put("/a/b", b"", lease_id=lease_id)
    watch = store.watch("/a")
    await take(watch, 2)
    clock.advance(10.0)
    assert await take(watch, 1) == [Removed("/a/b", revision + 1)]


# Watches


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
    revision = await store.transact(transaction(DeletePrefix("/a")))
    assert await take(watch, 2) == [Removed("/a/1", revision), Removed("/a/2", revision)]


async def test_change_without_effect_is_not_told(store: MetadataStore) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    await store.delete("/a/missing")
    await store.transact(transaction(Put("/a/short", b""), Delete("/a/short")))
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


async def test_reader_that_falls_behind_is_told_to_resync_and_gets_a_new_snapshot(store: MetadataStore) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    for index in range(WATCH_EVENTS_MAX + 1):
        revision = await store.put(f"/a/{index}", b"")
    entries = await store.list("/a")
    expected = [Resync(), *map(Changed, entries), SnapshotEnd(revision)]
    assert await take(watch, len(expected)) == expected
    later = await store.put("/a/later", b"")
    assert await take(watch, 1) == [Changed(Entry("/a/later", b"", later, later))]


async def test_reader_within_the_bound_is_told_every_change(store: MetadataStore) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    revisions = [await store.put("/a/1", b"") for _ in range(WATCH_EVENTS_MAX)]
    events = await take(watch, WATCH_EVENTS_MAX)
    assert events == [Changed(Entry("/a/1", b"", revisions[0], revision)) for revision in revisions]


async def test_one_slow_watcher_does_not_disturb_another(store: MetadataStore) -> None:
    slow, quick = store.watch("/a"), store.watch("/a")
    await take(slow, 1)
    await take(quick, 1)
    for index in range(WATCH_EVENTS_MAX + 1):
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
    entry = await store.get("/a/1")
    assert entry is not None
    assert await take(watch, 1) == [Changed(entry)]


async def test_closed_watch_ends_and_closing_twice_is_harmless(store: MetadataStore) -> None:
    watch = store.watch("/a")
    reader = asyncio.create_task(take(watch, 2))
    await store.put("/a/1", b"")
    await watch.close()
    await watch.close()
    assert len(await reader) < 2
    assert await take(watch, 1) == []


# The end


async def test_closing_the_store_ends_its_watches(store: MetadataStore) -> None:
    watch = store.watch("/a")
    await take(watch, 1)
    reader = asyncio.create_task(take(watch, 1))
    await asyncio.sleep(0)
    await store.close()
    assert await reader == []


async def test_closed_store_refuses_calls_and_closes_again_without_harm(store: MetadataStore) -> None:
    await store.close()
    await store.close()
    with pytest.raises(MetadataError):
        await store.put("/a", b"")
    with pytest.raises(MetadataError):
        await store.get("/a")

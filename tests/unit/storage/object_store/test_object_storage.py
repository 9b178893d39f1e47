"""Brokers over one object store: topics change their owners, and nothing that was acknowledged is on a disk alone."""

import pytest

from danube.model.errors import DamagedDataError, DataFolderError, StorageUnavailableError
from danube.objects.bill import Cause, RequestKind
from danube.objects.store import joined
from danube.storage.journal.folder import Fence
from danube.storage.object_store.part_format import log_prefix
from danube.storage.retention.rules import Retention
from danube.storage.takeover.object_storage import ObjectStorage
from danube.testing.simulated.objects import Faults
from lab.objects.world import ObjectsWorld
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import always, fill, flush_all, read_all
from tests.unit.storage.takeover.storages_world import SUBSCRIPTION, rest, save, stop_at

A, B = 1, 2


async def test_a_dead_owners_topics_are_served_by_the_next_though_its_disk_is_gone(world: ObjectsWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A])
    before = await fill(first.topic(A), 30)
    await save(first.topic(A), 7)
    world.kill(1)
    assert await second.acquire([A]) == {A}
    cursor = second.topic(A).cursor(SUBSCRIPTION)
    after = await fill(second.topic(A), 10, first=30)
    assert await read_all(second.topic(A)) == before + after
    assert cursor is not None
    assert cursor.position == 7


async def test_a_broker_with_an_empty_disk_goes_on_in_its_journal(world: ObjectsWorld) -> None:
    first = await world.start(1)
    await first.acquire([A])
    before = await fill(first.topic(A), 100)
    await flush_all(first)
    before += await fill(first.topic(A), 30, first=100)
    journal = first.journal_folder
    world.kill(1)
    again = await world.start(1)
    assert again.owned == {A}
    assert again.journal_folder == journal
    assert await read_all(again.topic(A)) == before
    after = await fill(again.topic(A), 5, first=130)
    assert await read_all(again.topic(A)) == before + after


async def test_an_owner_that_slept_through_a_takeover_acknowledges_nothing(world: ObjectsWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A])
    log = first.topic(A)
    before = await fill(log, 10)
    await second.acquire([A])
    told = Told()
    log.append_record(b"too late", told)
    assert isinstance(await told.outcome(), StorageUnavailableError)
    assert first.stopped is not None
    assert "another broker has taken over" in first.stopped
    assert await read_all(second.topic(A)) == before
    assert await first.is_fenced()


async def test_an_idle_owner_finds_the_fence_when_it_looks(world: ObjectsWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 10)
    assert not await first.is_fenced()
    assert not await first.is_fenced()
    await second.acquire([A])
    assert await first.is_fenced()


async def test_a_second_process_of_a_broker_ends_the_first(world: ObjectsWorld) -> None:
    first = await world.start(1)
    await first.acquire([A])
    before = await fill(first.topic(A), 10)
    second = await world.start(1)
    told = Told()
    first.topic(A).append_record(b"of the first", told)
    assert isinstance(await told.outcome(), StorageUnavailableError)
    assert await read_all(second.topic(A)) == before
    await first.close()


async def test_what_a_dead_broker_had_sent_comes_too_late(world: ObjectsWorld) -> None:
    first = await world.start(1, retries_max=0)
    await first.acquire([A])
    before = await fill(first.topic(A), 10)
    way = world.ways[1]
    way.faults = Faults(late=1.0)
    told = Told()
    first.topic(A).append_record(b"on its way for long", told)
    assert isinstance(await told.outcome(), StorageUnavailableError)
    world.kill(1)
    again = await world.start(1)
    way.deliver_late()
    after = await fill(again.topic(A), 5, first=10)
    assert await read_all(again.topic(A)) == before + after


async def test_a_released_topic_goes_on_elsewhere_without_a_fence(world: ObjectsWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A, B])
    before = await fill(first.topic(A), 20)
    log = first.topic(A)
    await first.release(A, lambda: stop_at(log))
    await second.acquire([A])
    await fill(first.topic(B), 20)
    after = await fill(second.topic(A), 20, first=20)
    assert await read_all(second.topic(A)) == before + after
    assert not await first.is_fenced()


async def test_a_journal_that_is_not_needed_goes_but_for_its_fence(world: ObjectsWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A])
    dead = first.journal_folder
    before = await fill(first.topic(A), 300)
    world.kill(1)
    await second.acquire([A])
    await flush_all(second)
    assert await second.remove_journals() == 1
    assert len(world.bucket.listing(log_prefix(dead))) == 1
    assert await second.remove_journals() == 0
    assert await read_all(second.topic(A)) == before
    third = await world.start(1)
    assert third.journal_folder != dead
    await third.acquire([B])


async def test_flushed_files_and_trimmed_segments_leave_the_store(world: ObjectsWorld) -> None:
    first = await world.start(1)
    await first.acquire([A])
    await fill(first.topic(A), 400)
    await flush_all(first)
    assert len(world.bucket.listing("segments/1/")) > 3
    assert len(world.bucket.listing(log_prefix(first.journal_folder))) < 20
    await first.retain(always(Retention(None, 10_000, keep_unread=False)), lambda _: None)
    await flush_all(first)
    await first.sweep_orphans()
    segments = [one for one in world.bucket.listing("segments/1/") if one.name.endswith(".segment")]
    assert sum(one.size for one in segments) < 25_000


async def test_an_object_that_was_changed_by_hand_is_refused(world: ObjectsWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 10)
    victim = world.bucket.listing(log_prefix(first.journal_folder))[-1].name
    world.bucket.put(victim, [joined([world.bucket.get(victim)])[:-1], b"?"])
    world.kill(1)
    with pytest.raises(DamagedDataError, match="Restore it from a backup"):
        await second.acquire([A])


async def test_the_prefix_of_another_cluster_is_refused(world: ObjectsWorld) -> None:
    await world.start(1, cluster_id="ours")
    await world.start(2, cluster_id="ours")
    with pytest.raises(DataFolderError, match="give every cluster a prefix of its own"):
        await world.start(3, cluster_id="theirs")
    world.bucket.delete(["cluster"])
    with pytest.raises(DataFolderError, match="but of none"):
        await world.start(3, cluster_id="ours")


async def test_messages_are_refused_with_the_reason_while_the_store_is_gone_and_accepted_after(
    world: ObjectsWorld,
) -> None:
    first = await world.start(1, retries_max=0)
    await first.acquire([A])
    assert first.refuses is None
    outage = first._objects.store.outage
    outage.began(world.clock.monotonic_s() - 20, "the store does not answer")
    assert "has not taken anything for 20 s (the store does not answer)" in str(first.refuses)
    with pytest.raises(StorageUnavailableError, match="has not taken anything"):
        first.topic(A).append_record(b"x", Told())
    outage.ended()
    assert first.refuses is None
    assert await fill(first.topic(A), 1)


async def test_a_round_of_several_topics_is_one_request(world: ObjectsWorld) -> None:
    first = await world.start(1)
    await first.acquire([A, B])
    before = _puts(world)
    told = [Told() for _ in range(20)]
    for number, one in enumerate(told):
        first.topic(A if number % 2 else B).append_record(b"x", one)
    for one in told:
        await one.outcome()
    assert _puts(world) - before <= 2


async def test_rounds_begin_at_most_once_a_batch_timeout() -> None:
    world = ObjectsWorld(batch_timeout_s=0.25)
    await world.create(A)
    first = await world.start(1)
    await first.acquire([A])
    await _timed_sends(world, first)
    await world.end()


async def _timed_sends(world: ObjectsWorld, storage: ObjectStorage) -> None:
    told = [Told() for _ in range(3)]
    storage.topic(A).append_record(b"first", told[0])
    await told[0].outcome()
    storage.topic(A).append_record(b"second", told[1])
    await rest()
    storage.topic(A).append_record(b"third", told[2])
    await world.clock.run_for(0.24)
    assert not any(one.all for one in told[1:])
    await world.clock.run_for(0.02)
    await told[1].outcome()
    await told[2].outcome()


async def test_the_fence_of_a_journal_names_its_new_owner(world: ObjectsWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 3)
    await second.acquire([A])
    assert Fence(second._objects, first.journal_folder).new_owners() == [2]


def _puts(world: ObjectsWorld) -> int:
    return sum(
        one.requests for one in world.bills[1].lines() if (one.kind, one.cause) == (RequestKind.PUT, Cause.JOURNAL)
    )


async def test_an_owner_that_looks_while_it_writes_takes_its_own_object_for_no_fence(world: ObjectsWorld) -> None:
    first = await world.start(1)
    await first.acquire([A])
    await fill(first.topic(A), 3)
    parts = first._objects.journal(first.journal_folder)
    parts._next -= 1
    parts._is_proved = False
    assert not await first.is_fenced()
    parts._next += 1

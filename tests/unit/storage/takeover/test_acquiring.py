"""Topics change their owner by force, and nothing that was acknowledged is lost."""

import asyncio

import pytest

from danube.metadata.records.storage import add_tombstone
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import (
    DamagedDataError,
    StorageUnavailableError,
    TopicNotServedError,
)
from danube.model.subscription import Cursor
from danube.storage.journal.index import TopicBase
from tests.unit.storage.takeover.shared_world import SharedWorld

A, B = 1, 2


async def test_a_taken_topic_goes_on_at_the_next_offset_with_all_that_was_stored(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0", b"1", b"2"])
    second = await world.start(2)
    await second.acquire(A)
    assert await second.store(A, [b"3"]) == [3]
    assert await second.content(A) == [b"0", b"1", b"2", b"3"]


async def test_all_topics_of_a_dead_broker_are_taken_at_once(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A, B)
    await first.store(A, [b"a"])
    await first.store(B, [b"b", b"c"])
    first.kill()
    second = await world.start(2)
    assert sorted(await second.acquire(A, B)) == [A, B]
    assert [await second.content(A), await second.content(B)] == [[b"a"], [b"b", b"c"]]


async def test_positions_of_subscriptions_come_along(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0", b"1"])
    await first.save(A, 2)
    second = await world.start(2)
    await second.acquire(A)
    assert second.position(A) == 2


async def test_an_owner_that_wakes_after_its_journal_was_fenced_acknowledges_nothing(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0"])
    first.writes.hold()
    late = first.append(A, b"late")
    second = await world.start(2)
    await second.acquire(A)
    first.writes.release()
    assert isinstance(await late.error(), StorageUnavailableError)
    assert "taken over" in (first.journal.stopped or "")
    assert await second.content(A) == [b"0"]


async def test_what_a_fenced_owner_still_wrote_is_void_for_every_later_owner(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0"])
    first.writes.hold()
    late = first.append(A, b"late")
    second = await world.start(2)
    await second.acquire(A)
    first.writes.release()
    await late.error()
    await second.store(A, [b"1"])
    third = await world.start(3)
    await third.acquire(A)
    assert await third.content(A) == [b"0", b"1"]
    assert await third.store(A, [b"2"]) == [2]


async def test_a_broker_does_not_restart_on_its_fenced_journal(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0"])
    first.kill()
    before = first.folder
    second = await world.start(2)
    await second.acquire(A)
    again = await world.start(1)
    assert again.folder != before
    assert again.topics == {}
    await again.acquire(A)
    assert await again.content(A) == [b"0"]


async def test_a_broker_that_nobody_fenced_goes_on_where_it_was(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0"])
    await first.save(A, 1)
    first.kill()
    again = await world.start(1)
    assert again.folder == first.folder
    assert await again.content(A) == [b"0"]
    assert again.position(A) == 1
    assert await again.store(A, [b"1"]) == [1]


async def test_an_owner_that_took_a_topic_restarts_with_all_of_it(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0", b"1"])
    await first.save(A, 1)
    second = await world.start(2)
    await second.acquire(A)
    await second.store(A, [b"2"])
    second.kill()
    again = await world.start(2)
    assert await again.content(A) == [b"0", b"1", b"2"]
    assert again.position(A) == 1
    assert await again.store(A, [b"3"]) == [3]


async def test_of_two_takers_one_wins_and_the_other_keeps_nothing(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0"])
    second, third = await world.start(2), await world.start(3)
    second.writes.hold()
    slow = asyncio.ensure_future(second.acquire(A))
    await asyncio.sleep(0)
    await third.acquire(A)
    await third.store(A, [b"1"])
    second.writes.release()
    assert await slow == {}
    await second.acquire(A)
    assert await second.content(A) == [b"0", b"1"]


@pytest.mark.parametrize("is_power_cut", [False, True])
async def test_a_taker_may_die_at_any_change_and_the_next_one_finds_everything(is_power_cut: bool) -> None:
    for change in range(1, 100):
        world = SharedWorld(seed=change)
        first = await world.start(1)
        await first.acquire(A, B)
        await first.store(A, [b"0", b"1"])
        await first.store(B, [b"b"])
        await first.save(A, 2)
        second = await world.start(2)
        died = await second.die_in(second.acquire(A, B), change)
        if is_power_cut:
            await world.power_cut()
        for number in (2, 3):
            again = await world.start(number)
            await again.acquire(*({A, B} - {*again.topics}))
            assert [await again.content(A), await again.content(B)] == [[b"0", b"1"], [b"b"]]
            assert again.position(A) == 2
        await world.end()
        if not died:
            assert change > 5
            return
    raise AssertionError("a take-over changes the disk a hundred times")


async def test_three_owners_in_a_row_lose_nothing_in_a_power_cut(world: SharedWorld) -> None:
    stored: list[bytes] = []
    for number in (1, 2, 3):
        broker = await world.start(number)
        await broker.acquire(A)
        for record in (b"%d-%d" % (number, one) for one in range(3)):
            await broker.store(A, [record])
            stored.append(record)
        await broker.save(A, len(stored))
    await world.power_cut()
    last = await world.start(3)
    assert await last.content(A) == stored
    assert last.position(A) == len(stored)


async def test_what_stands_above_the_mark_is_appended_again_and_survives_the_old_journal(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0", b"1"])
    second = await world.start(2)
    taken = await second.acquire(A)
    assert taken[A].record.epochs[0].end_offset == 1
    assert taken[A].log.durable_end == 2


async def test_damage_below_the_mark_refuses_the_take_over(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0" * 100, b"1", b"2"])
    world.disk.flip_bit(f"{first.folder}/0000000001.journal", 52 + 52 + 56 + 60)
    second = await world.start(2)
    with pytest.raises(DamagedDataError, match="0000000001"):
        await second.acquire(A)
    assert (await world.records.get(A)).epochs[-1].journal_id == first.journal.journal_id


async def test_rounds_in_several_files_are_taken_over(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    several = [b"%d" % number * 900 for number in range(10)]
    await first.store(A, several)
    assert first.journal.stats.files > 1
    second = await world.start(2)
    await second.acquire(A)
    assert await second.content(A) == several


async def test_a_broker_that_owns_a_topic_does_not_take_it_from_itself(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    with pytest.raises(TopicNotServedError, match="already"):
        await first.acquire(A)


async def test_a_fenced_broker_cannot_take_anything(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A)
    await second.acquire(B)
    await first.store(A, [b"0", b"1"])
    await second.store(B, [b"0"])
    await first.acquire(B)
    with pytest.raises(StorageUnavailableError, match="taken over"):
        await second.acquire(A)
    assert A not in second.topics
    assert await first.content(B) == [b"0"]


async def test_what_is_in_segments_is_not_looked_for_in_journals(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0", b"1", b"2"])
    second = await world.start(2)
    base = TopicBase(topic_id=A, end_offset=1, last_append_time_ms=1, cursors={5: Cursor(1), 6: Cursor(0)})
    taken = (await second.acquire(A, bases={A: base}))[A]
    assert [(part.start_offset, part.end_offset) for part in taken.parts] == [(1, 2)]
    assert await second.store(A, [b"3"]) == [3]
    assert (second.position(A), taken.log.cursor(6)) == (1, Cursor(0))


async def test_a_journal_whose_epochs_are_all_in_segments_is_not_needed_any_more(world: SharedWorld) -> None:
    first, second, third = [await world.start(number) for number in (1, 2, 3)]
    await first.acquire(A)
    await first.store(A, [b"0", b"1"])
    await first.release(A)
    await second.acquire(A)
    await second.store(A, [b"2"])
    for name in world.disk.list(first.folder):
        world.disk.remove(f"{first.folder}/{name}")
    world.disk.remove_folder(first.folder)
    with pytest.raises(StorageUnavailableError, match="not in the shared folder"):
        await third.acquire(A)
    base = TopicBase(topic_id=A, end_offset=2, last_append_time_ms=1)
    taken = (await third.acquire(A, bases={A: base}))[A]
    assert (taken.parts, taken.log.durable_end) == ((), 3)


async def test_a_topic_whose_manifest_changes_during_the_take_over_is_taken_all_the_same(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A)
    await first.store(A, [b"0", b"1"])

    async def flush() -> None:
        await world.records.point([(await world.records.get(A), 1)])

    second.reads.happen_after(4, flush)
    taken = await second.acquire(A)
    assert taken[A].record.manifest_version == 1
    assert await second.content(A) == [b"0", b"1"]


async def test_a_deleted_topic_is_not_taken(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A, B)
    await first.store(A, [b"0"])
    store = world.store

    async def delete() -> None:
        builder = TransactionBuilder(store)
        add_tombstone(builder, A)
        await store.transact(builder.transaction("delete"))

    second.reads.happen_after(4, delete)
    assert sorted(await second.acquire(A, B)) == [B]
    assert second.owned == {B}


async def test_many_topics_are_taken_at_once(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    many = range(1, 41)
    assert sorted(await first.acquire(*many)) == [*many]
    for topic in many:
        await first.store(topic, [b"%d" % topic])
    assert sorted(await second.acquire(*many)) == [*many]
    assert [await second.content(topic) for topic in many] == [[b"%d" % topic] for topic in many]

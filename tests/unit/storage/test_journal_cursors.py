"""When cursors are written, and that the last one given is what a restart finds."""

import asyncio
import errno

from danube.model.errors import DanubeError, SubscriptionNotFoundError
from danube.model.limits.broker import CURSOR_INTERVAL_S, CURSOR_RIDE_BYTES_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor
from danube.testing.simulated.clock import settle
from danube.testing.simulated.disk import Operation
from tests.unit.storage.journal_world import Told, World, log_in, store

TOPIC = 5
LARGE = Cursor(0, tuple(OffsetRange(2 * n, 2 * n + 1) for n in range(1, CURSOR_RIDE_BYTES_MAX // 16 + 1)))


async def test_cursor_is_written_within_the_interval_without_other_traffic(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    log.save_cursor(1, Cursor(3))
    await world.clock.run_for(CURSOR_INTERVAL_S * 0.9)
    assert (log.cursor(1), journal.stats.rounds) == (None, 0)
    await world.clock.run_for(CURSOR_INTERVAL_S * 0.2)
    assert (log.cursor(1), journal.stats.rounds) == (Cursor(3), 1)


async def test_cursors_are_coalesced_and_the_last_one_wins(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    size = journal.stats.size_bytes
    for position in range(1_000):
        log.save_cursor(1, Cursor(position))
    await world.clock.run_for(CURSOR_INTERVAL_S)
    assert log.cursor(1) == Cursor(999)
    assert journal.stats.size_bytes - size < 500


async def test_cursor_rides_along_with_a_round_of_data(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    log.save_cursor(1, Cursor(3))
    await store(log, b"x")
    assert (log.cursor(1), journal.stats.rounds) == (Cursor(3), 1)


async def test_large_cursor_waits_for_its_interval(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    log.save_cursor(1, LARGE)
    await store(log, b"x")
    assert log.cursor(1) is None
    await world.clock.run_for(CURSOR_INTERVAL_S)
    assert log.cursor(1) == LARGE


async def test_saved_starts_a_round_and_is_told_when_it_is_durable(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    told = Told()
    world.writes.hold()
    log.save_cursor(1, Cursor(4), told)
    await settle()
    assert (told.all, log.cursor(1)) == ([], None)
    world.writes.release()
    assert await told.outcome() is None
    after = world.after(world.disk.power_cut())
    assert log_in(await after.open(), TOPIC, 1).cursor(1) == Cursor(4)
    await world.close()


async def test_more_cursors_than_a_round_holds_go_with_the_next(world: World) -> None:
    world = World(round_bytes_max=1_000)
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    for subscription in range(100):
        log.save_cursor(subscription, Cursor(subscription))
    await world.clock.run_for(CURSOR_INTERVAL_S)
    assert [log.cursor(subscription) for subscription in range(100)] == [Cursor(n) for n in range(100)]
    assert journal.stats.rounds > 1
    await world.close()


async def test_more_cursors_than_a_round_holds_are_tried_again_by_the_clock_when_the_disk_is_full() -> None:
    world = World(round_bytes_max=1_000)
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    world.disk.fail(Operation.APPEND, error=errno.ENOSPC, times=10_000)
    for subscription in range(100):
        log.save_cursor(subscription, Cursor(subscription))
    await world.clock.run_for(3.5 * CURSOR_INTERVAL_S)
    assert journal.stats.failed_rounds == 3
    world.disk.clear_faults()
    await world.clock.run_for(CURSOR_INTERVAL_S)
    assert [log.cursor(subscription) for subscription in range(100)] == [Cursor(n) for n in range(100)]
    await world.close()


async def test_a_full_disk_and_more_cursors_than_a_round_holds_keep_no_journal_from_closing() -> None:
    world = World(round_bytes_max=1_000)
    log = log_in(await world.open(), TOPIC, 1)
    world.disk.fail(Operation.APPEND, error=errno.ENOSPC, times=10_000)
    told = [Told() for _ in range(100)]
    for subscription, saved in enumerate(told):
        log.save_cursor(subscription, Cursor(subscription), saved)
    async with asyncio.timeout(20):
        await world.close()
    assert [len(saved.all) for saved in told] == [1] * 100
    assert all(isinstance(saved.all[0], DanubeError) for saved in told)


async def test_cursor_of_a_failed_round_is_written_later(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    told = Told()
    world.disk.fail(Operation.APPEND)
    log.save_cursor(1, Cursor(4), told)
    assert (await told.error()).code == "STORAGE_UNAVAILABLE"
    assert log.cursor(1) is None
    await world.clock.run_for(CURSOR_INTERVAL_S)
    assert log.cursor(1) == Cursor(4)


async def test_last_cursors_are_written_on_closing(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    log.save_cursor(1, Cursor(4))
    log.save_cursor(2, LARGE)
    log = log_in(await world.reopen(), TOPIC, 1)
    assert (log.cursor(1), log.cursor(2)) == (Cursor(4), LARGE)


async def test_forgotten_cursor_is_gone_from_memory_and_not_written_any_more(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    log.save_cursor(1, Cursor(3))
    log.save_cursor(2, Cursor(4))
    await world.clock.run_for(CURSOR_INTERVAL_S)
    log.save_cursor(1, Cursor(5))
    rounds = journal.stats.rounds
    log.forget_cursor(1)
    await world.clock.run_for(CURSOR_INTERVAL_S)
    assert (log.cursor(1), log.cursor(2), journal.stats.rounds) == (None, Cursor(4), rounds)


async def test_who_waits_for_a_cursor_that_is_forgotten_is_told(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    told = Told()
    log.save_cursor(1, Cursor(3), told)
    log.forget_cursor(1)
    assert isinstance(await told.outcome(), SubscriptionNotFoundError)


async def test_a_cursor_that_is_forgotten_while_it_is_written_does_not_come_back(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    world.writes.hold()
    told = Told()
    log.save_cursor(1, Cursor(4), told)
    await settle()
    log.forget_cursor(1)
    world.writes.release()
    assert await told.outcome() is None
    assert log.cursor(1) is None


async def test_of_subscriptions_that_come_and_go_no_cursor_is_kept_neither_in_memory_nor_beside_the_file(
    world: World,
) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    log.save_cursor(1, Cursor(1))
    for subscription_id in range(2, 100):
        told = Told()
        log.save_cursor(subscription_id, Cursor(subscription_id), told if subscription_id % 2 else None)
        if subscription_id % 2:
            assert await told.outcome() is None
        log.forget_cursor(subscription_id)
    assert list(journal._contents.cursors) == [(TOPIC, 1)]
    log = log_in(await world.reopen(), TOPIC, 1)
    assert log.cursor(1) == Cursor(1)

"""Clocks that are wrong for a while: they delete nothing, keep nothing for ever, and stop nobody's cuts."""

import contextlib

import pytest

from danube.model.errors import MetadataError
from danube.model.limits.broker import (
    CLOCK_SETTLED_S,
    FLUSH_DELAY_S,
    FLUSH_TOPIC_BYTES,
    FLUSH_WAIT_S,
    JOURNAL_FILE_AGE_MIN_S,
)
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, read_all, storage_settings

WRONG, OTHER = 1, 2
DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
FOR_A_WEEK = Retention(max_age_ms=round(7 * DAY_S * 1_000), max_bytes=None)
FOR_A_MINUTE = Retention(max_age_ms=60_000, max_bytes=None)


def no_subscription(_: int) -> int | None:
    return None


async def retain_for(storage: Storage, world: StorageWorld, retention: Retention, seconds: float) -> int:
    """Have retention look as a broker does, every quarter of a minute."""
    dropped = 0
    for _ in range(int(seconds / 15)):
        await world.clock.run_for(15)
        dropped += await storage.retain(always(retention), no_subscription)
    return dropped


async def fill_with_a_clock_that_is_ahead(storage: Storage, world: StorageWorld, count: int = 1) -> None:
    """Append to one topic while the clock is a year ahead, and then to both."""
    world.clock.jump_wall(YEAR_S)
    await fill(storage.topic(WRONG, 1), count)
    world.clock.jump_wall(-YEAR_S)
    await fill(storage.topic(WRONG, 1), 20, first=count)
    await fill(storage.topic(OTHER, 1), 20)


async def test_a_message_from_the_future_does_not_keep_files_from_being_cut(world: StorageWorld) -> None:
    storage = await world.open()
    storage.start()
    await fill_with_a_clock_that_is_ahead(storage, world)
    await storage.journal.rotate()
    await world.clock.run_for(FLUSH_WAIT_S + FLUSH_DELAY_S + 2)
    assert storage.journal.closed_files() == []
    assert len(await read_all(storage.topic(OTHER, 1))) == 20


async def test_nor_does_it_after_a_restart(world: StorageWorld) -> None:
    storage = await world.open()
    await fill_with_a_clock_that_is_ahead(storage, world)
    await storage.journal.rotate()
    storage = await world.reopen()
    storage.start()
    await world.clock.run_for(FLUSH_WAIT_S + FLUSH_DELAY_S + 2)
    assert storage.journal.closed_files() == []


async def test_files_that_waited_before_a_restart_do_not_wait_anew(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 5)
    await storage.journal.rotate()
    await world.close()
    world.clock.advance(FLUSH_WAIT_S)
    storage = await world.open()
    storage.start()
    await world.clock.run_for(2)
    assert storage.journal.closed_files() == []


async def test_files_from_before_a_restart_that_its_first_pass_leaves_are_cut_after_their_wait(
    world: StorageWorld,
) -> None:
    world.settings = storage_settings(file_bytes_max=FLUSH_TOPIC_BYTES)
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 6, size=FLUSH_TOPIC_BYTES * 2 // 3)
    storage = await world.reopen()
    storage.start()
    await world.clock.run_for(2)
    assert len(storage.journal.closed_files()) == 3
    await world.clock.run_for(FLUSH_DELAY_S + 2)
    assert len(storage.journal.closed_files()) == 1  # too little for a pass of its own
    await world.clock.run_for(FLUSH_WAIT_S)
    assert storage.journal.closed_files() == []


async def test_retention_of_other_topics_goes_on(world: StorageWorld) -> None:
    world.settings = storage_settings(file_bytes_max=1 << 20)
    storage = await world.open()
    storage.start()
    await fill_with_a_clock_that_is_ahead(storage, world)
    other = storage.topic(OTHER, 1)
    for minute in range(30):
        await fill(other, 1, first=20 + minute)
        await retain_for(storage, world, FOR_A_MINUTE, 60)
    assert other.start_offset >= 20


async def test_a_clock_that_is_ahead_for_a_while_deletes_nothing(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 100)
    await flush_all(storage)
    world.clock.jump_wall(YEAR_S)
    assert await retain_for(storage, world, FOR_A_WEEK, 600) == 0
    assert caplog.text.count("the clock has jumped by 31536000 s") == 1
    world.clock.jump_wall(-YEAR_S)
    assert await retain_for(storage, world, FOR_A_WEEK, 600) == 0


async def test_while_the_clock_is_doubted_time_that_passes_deletes(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 100)
    await flush_all(storage)
    world.clock.jump_wall(YEAR_S)
    assert await retain_for(storage, world, FOR_A_MINUTE, 45) == 0
    assert await retain_for(storage, world, FOR_A_MINUTE, 45) > 0


async def test_a_broker_that_was_off_for_a_month_lets_go_after_half_a_day(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 100)
    await flush_all(storage)
    await world.close()
    world.clock.advance(30 * DAY_S)
    storage = await world.open()
    storage.topic(OTHER, 2)
    assert await retain_for(storage, world, FOR_A_WEEK, 3_600) == 0
    world.clock.advance(CLOCK_SETTLED_S)
    assert await storage.retain(always(FOR_A_WEEK), no_subscription) > 0


async def test_a_start_with_a_clock_that_is_ahead_deletes_nothing(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 100)
    await flush_all(storage)
    await world.close()
    world.clock.jump_wall(YEAR_S)
    storage = await world.open()
    await fill(storage.topic(OTHER, 2), 100, first=100)
    assert await retain_for(storage, world, FOR_A_WEEK, 600) == 0
    assert "the newest message is 8760 h old" in caplog.text


async def test_restarts_without_the_time_do_not_keep_retention_from_acting(world: StorageWorld) -> None:
    await fill((await world.open()).topic(OTHER, 1), 1)
    for life in range(2, 5):
        await world.close()
        right_s = world.clock.now_ms() / 1_000
        world.clock.jump_wall(-right_s)
        storage = await world.open()
        log = storage.topic(OTHER, life)
        world.clock.jump_wall(right_s)
        await storage.retain(always(FOR_A_MINUTE), no_subscription)
        world.clock.advance(CLOCK_SETTLED_S / 2)
        await fill(log, 1, first=log.durable_end)
        await flush_all(storage)
        await storage.retain(always(FOR_A_MINUTE), no_subscription)
    assert log.start_offset > 0


async def test_messages_from_the_future_go_when_they_have_been_there_for_their_time(world: StorageWorld) -> None:
    world.settings = storage_settings(file_bytes_max=1 << 20)
    storage = await world.open()
    storage.start()
    await fill_with_a_clock_that_is_ahead(storage, world, 30)
    log = storage.topic(WRONG, 1)
    for minute in range(30):
        await fill(log, 1, first=50 + minute)
        await retain_for(storage, world, FOR_A_MINUTE, 60)
    assert log.start_offset >= 50


async def test_messages_from_the_future_go_in_time_though_retention_of_another_topic_fails_all_the_while(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.storage.retention.enforcer.FLUSH_TOPICS_MAX", 1)
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 100)
    await fill_with_a_clock_that_is_ahead(storage, world, 30)
    await flush_all(storage)

    async def fail(_: object) -> None:
        raise MetadataError("the store is away")

    with monkeypatch.context() as away:
        away.setattr(world.records, "point", fail)
        for _ in range(20):
            world.clock.advance(15)
            with contextlib.suppress(MetadataError):
                await storage.retain(always(FOR_A_MINUTE), no_subscription)
    await storage.retain(always(FOR_A_MINUTE), no_subscription)
    assert storage.topic(WRONG, 1).start_offset > 0


async def test_a_plan_goes_by_the_same_time_as_retention(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 100)
    await flush_all(storage)
    world.clock.jump_wall(YEAR_S)
    assert storage.trim_preview(OTHER, FOR_A_WEEK, None).segments == 0


async def test_a_message_ahead_of_the_clock_is_told_now_and_then(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await world.open()
    await fill_with_a_clock_that_is_ahead(storage, world)
    assert caplog.text.count("topic 1 ends with a message of 2026-06-15 15:06:40+00:00") == 1
    assert "the clock says 2025-06-15 15:06:40+00:00" in caplog.text
    await world.clock.run_for(3_600)
    await fill(storage.topic(WRONG, 1), 1, first=21)
    assert caplog.text.count("topic 1 ends with a message") == 2


async def test_a_clock_that_goes_back_a_little_is_nobody_s_business(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await world.open()
    await fill(storage.topic(OTHER, 1), 1)
    world.clock.jump_wall(-JOURNAL_FILE_AGE_MIN_S)
    await fill(storage.topic(OTHER, 1), 1, first=1)
    await storage.retain(always(FOR_A_WEEK), no_subscription)
    assert caplog.text == ""

"""Letting go of old segments: what may go goes, what must stay stays, and readers are told."""

import pytest

from danube.model.errors import OffsetTrimmedError
from danube.model.limits.broker import JOURNAL_FILE_AGE_MIN_S
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage
from tests.unit.storage.store.storage_world import (
    KEEP_ALL,
    StorageWorld,
    always,
    fill,
    flush_all,
    read_all,
    storage_settings,
)

TOPIC = 5
SMALL = Retention(None, max_bytes=8_000)


def nothing_read(_: int) -> int | None:
    return 0


def no_subscription(_: int) -> int | None:
    return None


async def test_the_oldest_segments_go_and_the_rest_is_read_on(storage: Storage, log: TopicLog) -> None:
    kept = await read_all(log)
    dropped = await storage.retain(always(SMALL), no_subscription)
    assert dropped > 0
    assert log.start_offset > 0
    assert log.body_bytes <= 8_000
    assert await read_all(log) == kept[log.start_offset :]


async def test_a_read_below_the_start_says_where_the_log_begins(storage: Storage, log: TopicLog) -> None:
    await storage.retain(always(SMALL), no_subscription)
    with pytest.raises(OffsetTrimmedError) as refused:
        await log.read(0, 1_000)
    assert refused.value.start_offset == log.start_offset
    assert await log.append_time_ms(0) is None


async def test_the_files_of_what_was_let_go_are_gone(storage: Storage, log: TopicLog, world: StorageWorld) -> None:
    before = len(world.files(f"segments/{TOPIC}"))
    dropped = await storage.retain(always(SMALL), no_subscription)
    assert len(world.files(f"segments/{TOPIC}")) == before - dropped


async def test_what_is_unread_stays(storage: Storage, log: TopicLog) -> None:
    assert await storage.retain(always(SMALL), nothing_read) == 0
    assert log.start_offset == 0


async def test_what_is_unread_goes_where_a_policy_says_so(storage: Storage, log: TopicLog) -> None:
    assert await storage.retain(always(Retention(None, 8_000, keep_unread=False)), nothing_read) > 0


async def test_without_limits_everything_stays(storage: Storage, log: TopicLog) -> None:
    assert await storage.retain(always(KEEP_ALL), no_subscription) == 0


async def test_who_listens_is_told_where_the_log_begins_now(storage: Storage, log: TopicLog) -> None:
    told: list[int] = []
    log.on_trimmed(told.append)
    await storage.retain(always(SMALL), no_subscription)
    assert told == [log.start_offset]


async def test_a_log_that_was_closed_is_told_nothing(storage: Storage, log: TopicLog) -> None:
    told: list[int] = []
    log.on_trimmed(told.append)
    log.close()
    await storage.retain(always(SMALL), no_subscription)
    assert not told


async def test_the_start_and_what_is_left_outlive_a_restart(
    storage: Storage, log: TopicLog, world: StorageWorld
) -> None:
    await storage.retain(always(SMALL), no_subscription)
    kept, start = await read_all(log), log.start_offset
    log = (await world.reopen()).topic(TOPIC, 2)
    assert (log.start_offset, await read_all(log)) == (start, kept)


async def test_a_topic_goes_on_after_retention_as_before(storage: Storage, log: TopicLog) -> None:
    await storage.retain(always(SMALL), no_subscription)
    kept = await read_all(log)
    more = await fill(log, 50, first=100)
    await flush_all(storage)
    assert await read_all(log) == kept + more


async def test_old_messages_that_are_in_the_open_journal_file_go_too(world: StorageWorld) -> None:
    world.settings = storage_settings(file_bytes_max=1_000_000)
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    await fill(log, 40)
    world.clock.advance(3_600)
    newest = await fill(log, 1, first=40)
    by_age = always(Retention(max_age_ms=60_000, max_bytes=None))
    await storage.retain(by_age, no_subscription)  # closes the file
    assert (await storage.flush()).topics == 1
    assert await storage.retain(by_age, no_subscription) > 0
    assert (await read_all(log))[-1:] == newest


async def test_a_journal_file_is_closed_for_retention_only_now_and_then(world: StorageWorld) -> None:
    world.settings = storage_settings(file_bytes_max=1_000_000)
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    by_age = always(Retention(max_age_ms=1, max_bytes=None))
    world.clock.advance(JOURNAL_FILE_AGE_MIN_S)
    for number in range(5):
        await fill(log, 1, first=number)
        world.clock.advance(1)
        await storage.retain(by_age, no_subscription)
    assert len([name for name in world.files("journal") if name.endswith(".journal")]) == 2

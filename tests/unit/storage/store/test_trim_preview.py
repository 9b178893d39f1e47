"""What retention would take of a topic, asked beforehand: what it then takes, and nothing is changed by asking."""

import pytest

from danube.storage.retention.rules import Retention, TrimPreview
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, read_all, storage_settings

TOPIC = 5
SMALL = Retention(None, max_bytes=8_000)
A_MINUTE = Retention(max_age_ms=60_000, max_bytes=None)


@pytest.mark.parametrize("unread", [None, 0, 50])
async def test_what_is_told_to_go_at_once_is_what_goes(world: StorageWorld, unread: int | None) -> None:
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    await fill(log, 100)
    await flush_all(storage)
    before = world.files(f"segments/{TOPIC}"), await read_all(log)
    told = storage.trim_preview(TOPIC, SMALL, unread)
    assert (world.files(f"segments/{TOPIC}"), await read_all(log)) == before
    assert await storage.retain(always(SMALL), lambda _: unread) == told.segments
    assert log.start_offset == told.messages


async def test_what_is_too_old_in_the_journal_is_told_to_follow(world: StorageWorld) -> None:
    world.settings = storage_settings(file_bytes_max=1_000_000)
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    assert storage.trim_preview(TOPIC, A_MINUTE, None) == TrimPreview()
    await fill(log, 40)
    world.clock.advance(3_600)
    await fill(log, 10, first=40)
    told = storage.trim_preview(TOPIC, A_MINUTE, None)
    assert (told.segments, told.messages, told.later_messages, told.end_offset) == (0, 0, 40, 40)
    assert told.later_bytes == pytest.approx(log.body_bytes * 40 / 50, rel=0.01)
    assert storage.trim_preview(TOPIC, A_MINUTE, 25).later_messages == 25


async def test_what_was_all_flushed_is_told_though_nothing_is_left_in_the_journal(world: StorageWorld) -> None:
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    await fill(log, 100)
    await flush_all(storage)
    storage = await world.reopen()
    log = storage.topic(TOPIC, 2)
    world.clock.advance(3_600)
    told = storage.trim_preview(TOPIC, A_MINUTE, None)
    assert told.messages > 0
    assert told.end_offset == log.durable_end == 100

"""Many topics: a start costs little for each, and idle ones nothing."""

import asyncio
import time

import pytest

from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import StorageWorld, flush_all, record_of

TOPICS = 2_000
OPEN_S_MAX = 5.0
"""Of this process's processor time, whatever else the machine does; about twenty times what it takes."""


@pytest.mark.slow
async def test_thousands_of_topics_with_a_history_open_in_a_moment(world: StorageWorld) -> None:
    world.settings = type(world.settings)()
    storage = await world.open()
    told = [Told() for _ in range(TOPICS)]
    for topic_id, one in enumerate(told, 1):
        storage.topic(topic_id, 1).append_record(record_of(topic_id, 0), one)
    for one in told:
        await one.offset()
    await flush_all(storage)
    await world.close()
    before, tasks = time.process_time(), len(asyncio.all_tasks())
    storage = await world.open()
    logs = [storage.topic(topic_id, 2) for topic_id in range(1, TOPICS + 1)]
    assert time.process_time() - before < OPEN_S_MAX
    assert len(asyncio.all_tasks()) == tasks + 1  # the journal's
    assert all(log.durable_end == 1 for log in logs)
    assert storage.stats.segments == TOPICS

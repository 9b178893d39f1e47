"""A storage for each test, closed at its end."""

from collections.abc import AsyncIterator

import pytest

from danube.storage.log.topic_log import TopicLog
from danube.storage.store import Storage
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all


@pytest.fixture
async def world() -> AsyncIterator[StorageWorld]:
    one = StorageWorld()
    yield one
    await one.end()


@pytest.fixture
async def storage(world: StorageWorld) -> Storage:
    return await world.open()


@pytest.fixture
async def log(storage: Storage) -> TopicLog:
    """Of topic 5: a hundred messages, cut into segments."""
    log = storage.topic(5, 1)
    await fill(log, 100)
    await flush_all(storage)
    return log

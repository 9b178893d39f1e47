"""A shared folder for each test, and its brokers ended with it."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.storage.takeover.shared_world import SharedWorld
from tests.unit.storage.takeover.storages_world import StoragesWorld


@pytest.fixture
async def world() -> AsyncIterator[SharedWorld]:
    one = SharedWorld()
    yield one
    await one.end()


@pytest.fixture
async def storages() -> AsyncIterator[StoragesWorld]:
    """With topics 1 and 2."""
    one = StoragesWorld()
    await one.create(1, 2)
    yield one
    await one.end()

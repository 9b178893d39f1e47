"""A storage for each test, closed at its end."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.storage.store.storage_world import StorageWorld


@pytest.fixture
async def world() -> AsyncIterator[StorageWorld]:
    one = StorageWorld()
    yield one
    await one.end()

"""A shared folder for each test, and its brokers ended with it."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.storage.handover.shared_world import SharedWorld


@pytest.fixture
async def world() -> AsyncIterator[SharedWorld]:
    one = SharedWorld()
    yield one
    await one.end()

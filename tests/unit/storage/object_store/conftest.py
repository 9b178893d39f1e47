"""A bucket for each test, and its brokers ended with it."""

from collections.abc import AsyncIterator

import pytest

from lab.objects.world import ObjectsWorld


@pytest.fixture
async def world() -> AsyncIterator[ObjectsWorld]:
    """With topics 1 and 2."""
    one = ObjectsWorld()
    await one.create(1, 2)
    yield one
    await one.end()

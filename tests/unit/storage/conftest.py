"""A world for each test, closed at its end."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.storage.journal_world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    one = World()
    yield one
    await one.close()

"""The seeded cluster in memory."""

import pytest

from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway


@pytest.fixture
def gateway() -> MemoryGateway:
    return seeded_gateway()

"""The seeded cluster in memory."""

import pytest

from lab.kernel.memory_gateway import MemoryGateway
from lab.kernel.seeded import seeded_gateway


@pytest.fixture
def gateway() -> MemoryGateway:
    return seeded_gateway()

"""The seeded cluster in memory."""

import pytest

from danube.testing.gateway import MemoryGateway
from danube.testing.seeded import seeded_gateway


@pytest.fixture
def gateway() -> MemoryGateway:
    return seeded_gateway()

"""The seeded cluster in memory."""

import pytest

from danube.testing.gateway.gateway import MemoryGateway
from lab.kernel.seeded import seeded_gateway


@pytest.fixture
def gateway() -> MemoryGateway:
    return seeded_gateway()

from collections.abc import AsyncIterator

import pytest

from danube.cli.arguments import Access
from danube.client import DanubeClient, DanubeClientBuilder
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.network import MemoryCarrier
from tests.unit.client.fake_broker import FakeBroker


@pytest.fixture
def access() -> Access:
    return Access(service_addr="http://memory:6650", connect_timeout_s=PATIENCE_S, retry_for_s=PATIENCE_S)


@pytest.fixture
def carrier() -> MemoryCarrier:
    return MemoryCarrier(SystemClock())


@pytest.fixture
async def broker(carrier: MemoryCarrier) -> AsyncIterator[FakeBroker]:
    broker = FakeBroker(carrier, "memory:6650")
    await broker.start()
    yield broker
    await broker.stop()


@pytest.fixture
async def client(carrier: MemoryCarrier) -> AsyncIterator[DanubeClient]:
    async with await DanubeClientBuilder().service_url("http://memory:6650").with_carrier(carrier).build() as client:
        yield client

from collections.abc import AsyncIterator

import pytest

from danube.client import DanubeClient, DanubeClientBuilder
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.network import MemoryCarrier
from tests.unit.client.fake_broker import FakeBroker


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def carrier(clock: SimClock) -> MemoryCarrier:
    return MemoryCarrier(clock)


@pytest.fixture
async def broker(carrier: MemoryCarrier) -> AsyncIterator[FakeBroker]:
    broker = FakeBroker(carrier, "memory:6650")
    await broker.start()
    yield broker
    await broker.stop()


@pytest.fixture
async def client(carrier: MemoryCarrier, clock: SimClock) -> AsyncIterator[DanubeClient]:
    builder = DanubeClientBuilder().service_url("http://memory:6650").with_carrier(carrier)
    client = await builder.with_clock(clock, SystemRng(seed=7)).build()
    yield client
    await client.close()

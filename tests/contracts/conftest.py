"""Fixtures of the contract suites."""

from collections.abc import AsyncIterator

import pytest

from tests.contracts.carrier_network import CarrierNetwork


@pytest.fixture(params=["memory", "grpc"])
async def network(request: pytest.FixtureRequest) -> AsyncIterator[CarrierNetwork]:
    """One carrier of each kind in turn."""
    network = CarrierNetwork(request.param)
    yield network
    await network.close()

"""Fixtures of the contract suites."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.admin_worlds import AdminWorld, admin_world
from tests.contracts.carrier_network import CarrierNetwork


@pytest.fixture(params=["memory", "grpc", "http2"])
async def network(request: pytest.FixtureRequest) -> AsyncIterator[CarrierNetwork]:
    """One carrier of each kind in turn."""
    network = CarrierNetwork(request.param)
    yield network
    await network.close()


@pytest.fixture(params=["memory", "broker", "original"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AdminWorld]:
    """A seeded cluster of each kind in turn, as an administrator reaches it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with admin_world(request.param, tmp_path / "data") as world:
        yield world

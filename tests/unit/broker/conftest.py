"""A whole broker in this process, on a real folder, reached through the in-memory carrier."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from danube.broker import assembly
from danube.broker.topics.local_topics import Topics
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell, StartBroker, running_broker
from tests.unit.broker.keeper import Keeper, small
from tests.unit.broker.network import Network


@pytest.fixture
def topic() -> TopicName:
    return TopicName("default", "orders")


@pytest.fixture
async def start_broker(tmp_path: Path) -> AsyncIterator[StartBroker]:
    """Start a broker on the test's folder; starting again stops the former one first."""
    async with AsyncExitStack() as running:

        async def start(**settings: Any) -> Cell:
            await running.aclose()
            return await running.enter_async_context(running_broker(tmp_path / "data", **settings))

        yield start


@pytest.fixture
async def cell(start_broker: StartBroker) -> Cell:
    return await start_broker()


@pytest.fixture
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    """Brokers that share metadata and a carrier in memory; those that run at the end are stopped."""
    made = Network(tmp_path)
    yield made
    await made.close()


@pytest.fixture
def keepers(monkeypatch: pytest.MonkeyPatch) -> list[Keeper]:
    """The storage of each broker that is started, the last one last."""
    found: list[Keeper] = []
    load = Topics.load

    async def note(topics: Topics) -> None:
        found.append(Keeper(topics, topics._storage))
        await load(topics)

    monkeypatch.setattr(assembly, "storage_settings", small)
    monkeypatch.setattr(Topics, "load", note)
    return found

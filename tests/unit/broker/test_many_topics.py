"""Brokers that own many topics at once: their records are read together, not one after the other."""

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.records import keys
from danube.metadata.records.catalog import Records
from danube.metadata.records.storage import StorageRecords
from danube.metadata.store import Entry
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from tests.unit.broker.network import Network

COUNT = 40


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of topics' records that were read one by one."""
    found, original = list[str](), MemoryStore.get

    async def get(self: MemoryStore, key: str, *, linearizable: bool = False) -> Entry | None:
        if key.startswith(keys.STORED_TOPICS):
            found.append(key)
        return await original(self, key, linearizable=linearizable)

    monkeypatch.setattr(MemoryStore, "get", get)
    return found


@pytest.mark.parametrize("strategy", DispatchStrategy)
async def test_many_topics_are_owned_without_a_read_for_each(
    network: Network, asked: list[str], strategy: DispatchStrategy
) -> None:
    cell, store = await network.start("a", telemetry_interval_s=0), network.meta_store.store
    records, topics = Records(store), cell.broker.moves.topics
    made = [
        await records.create_topic(TopicName("default", f"t{number}"), strategy, network.clock.now_ms(), broker=0)
        for number in range(COUNT)
    ]
    asked.clear()
    assert await topics._owner.acquire(made) == {one.topic_id for one in made}
    assert asked == []


async def test_records_of_topics_are_answered_in_their_order_however_many_they_are() -> None:
    store = StorageRecords(MemoryStore(SystemClock()), SystemRng())
    for ids in (range(3, 0, -1), range(COUNT, 0, -1)):
        assert [one.topic_id for one in await store.of(ids)] == list(ids)
        assert all(not one.revision for one in await store.of(ids))

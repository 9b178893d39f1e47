"""Death and silence of another broker: over a real store, registry and election, and connections that are given."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

import pytest

from danube.broker.cluster.deaths import Connect, DeathWatch, connect
from danube.metadata.cluster.election import Election
from danube.metadata.cluster.lease_keeper import LeaseKeeper
from danube.metadata.cluster.registry import BrokerRegistry
from danube.metadata.memory import MemoryStore
from danube.metadata.records.cluster import BrokerRegistration
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock

TTL_S = 3_600.0


class Peers:
    """Connections with another broker: each attempt goes by the next word, or the last one."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.attempts = 0
        self.ended = asyncio.Event()

    async def connect(self, _url: str) -> Awaitable[Any]:
        self.attempts += 1
        match self.words.pop(0) if len(self.words) > 1 else self.words[0]:
            case "refused":
                raise ConnectionRefusedError
            case "silent":
                raise TimeoutError
            case "closes":
                return asyncio.sleep(0)
            case _:
                return self.ended.wait()


class Place:
    """One broker, as far as it watches others."""

    def __init__(self, store: MemoryStore, clock: SimClock, broker_id: int, connecting: Connect) -> None:
        self.tasks = TaskScope(f"broker {broker_id}")
        self.keeper = LeaseKeeper(store, clock, ttl_s=TTL_S)
        self.registry = BrokerRegistry(store, self.keeper, clock)
        self.election = Election(store, self.keeper, clock, broker_id)
        self.broker_id = broker_id
        watch = DeathWatch(store, self.registry, self.election, clock, broker_id=broker_id, connect=connecting)
        self.tasks.spawn(self.keeper.run(), "keep")
        self.registry.start(self.tasks)
        self.election.start(self.tasks)
        watch.start(self.tasks)

    async def join(self, url: str = "http://127.0.0.1:1") -> "Place":
        await self.registry.announce(
            BrokerRegistration(
                broker_id=self.broker_id, start_id=self.broker_id, broker_url=url, connect_url=url, admin_url=url
            )
        )
        self.election.campaign()
        return self


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
async def store(clock: SimClock) -> AsyncIterator[MemoryStore]:
    opened = MemoryStore(clock)
    yield opened
    await opened.close()


async def seen_after(place: Place, peers: Peers, clock: SimClock, attempts: int) -> list[int]:
    """The brokers that a place sees once so many attempts were made, or one of them has gone."""
    async with asyncio.timeout(PATIENCE_S):
        while peers.attempts < attempts and len(place.registry.brokers) > 1:
            clock.advance(0.1)
            for _ in range(10):
                await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    return sorted(place.registry.brokers)


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["closes", "refused"], [1]),
        (["closes", "refused", "stays"], [1, 2]),
        (["closes", "silent"], [1, 2]),
        (["closes", "refused", "silent", "refused", "silent"], [1, 2]),
        (["stays"], [1, 2]),
        (["refused"], [1, 2]),
    ],
    ids=["dead", "refused once", "silent", "refused now and then", "alive", "never connected"],
)
async def test_a_broker_is_dead_once_its_connection_ended_and_new_ones_are_refused(
    store: MemoryStore, clock: SimClock, caplog: pytest.LogCaptureFixture, words: list[str], left: list[int]
) -> None:
    peers, none = Peers(words), Peers(["silent"])
    leader = await Place(store, clock, 1, peers.connect).join()
    other = await Place(store, clock, 2, none.connect).join()
    assert await seen_after(leader, peers, clock, len(words) if words[-1] == "stays" else 8) == left
    assert caplog.text.count("broker 2 is dead") == (left == [1])
    for place in (leader, other):
        await place.tasks.close()


async def test_the_death_of_the_leader_is_seen_by_the_others(store: MemoryStore, clock: SimClock) -> None:
    peers, none = Peers(["closes", "refused"]), Peers(["silent"])
    leader = await Place(store, clock, 1, none.connect).join()
    other = await Place(store, clock, 2, peers.connect).join()
    await leader.tasks.close()
    assert await seen_after(other, peers, clock, 8) == [2]
    async with asyncio.timeout(PATIENCE_S):
        while not other.election.is_leader:  # noqa: ASYNC110 - the store tells nobody here
            await asyncio.sleep(0)
    await other.tasks.close()


async def test_a_connection_ends_with_its_process_and_is_refused_afterwards() -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with asyncio.timeout(PATIENCE_S):
        await (await connect(f"http://{host}:{port}"))
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await connect(f"http://{host}:{port}")

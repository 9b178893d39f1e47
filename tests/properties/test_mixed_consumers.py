"""Any mix of legacy and streaming clients sees every message at least once, whatever is cut or moved."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from danube.client import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, SubType
from danube.model.topic import TopicName
from danube.runtime.tasks import TaskScope
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.stream import StreamPeer

TOPIC = TopicName("default", "mixed")
MESSAGES = 300
CUTS = 3
SETTINGS = {"key_shared_grace_s": 0.01, "max_redelivery_count": 1_000, "redelivery_delay_s": 0.01}


async def client_of(cell: Cell) -> DanubeClient:
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}")
    return await builder.with_carrier(cell.carrier).build()


async def produce(client: DanubeClient, chance: Random, first: int) -> None:
    """Send a third of the messages in one of four ways."""
    numbers = [b"%d" % number for number in range(first, first + MESSAGES // 3)]
    builder = client.new_producer().with_topic(str(TOPIC)).with_name(f"p{first}")
    builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).with_compression(chance.choice(["none", "lz4", "zstd"]))
    async with builder.build() as producer:
        match chance.randrange(4):
            case 0:
                await producer.send_many(numbers)
            case 1:
                await producer.send_many_with_keys((f"k{chance.randrange(5)}", each) for each in numbers)
            case 2:
                await asyncio.gather(*map(producer.send, numbers))
            case _:
                for each in numbers[:20]:
                    await producer.send(each)
                await producer.send_many(numbers[20:])


async def consume(consumer: Consumer, chance: Random, got: set[int], done: Callable[[], None]) -> None:
    """Take, and answer in one way or another, until all are done with."""
    while True:
        found = await consumer.receive_many(chance.choice([1, 7, 1_000]))
        if chance.random() < 0.1:
            await consumer.nack(found[-1], delay_ms=0)
            found = found[:-1]
        got.update(int(each.payload) for each in found)
        if chance.random() < 0.5:
            await consumer.ack_many(found)
        else:
            for each in found:
                await consumer.ack(each)
        done()


async def course(seed: int) -> None:
    chance = Random(seed)
    kind = chance.choice([SubType.SHARED, SubType.SHARED, SubType.FAILOVER, SubType.EXCLUSIVE, SubType.KEY_SHARED])
    count = 1 if kind is SubType.EXCLUSIVE else chance.randint(1, 3)
    got: set[int] = set()
    all_there = asyncio.Event()

    def done() -> None:
        if len(got) == MESSAGES:
            all_there.set()

    with tempfile.TemporaryDirectory() as folder:
        async with running_broker(Path(folder) / "data", **SETTINGS) as cell:
            scope = TaskScope("course")
            clients = [await client_of(cell) for _ in range(count + 1)]
            await cell.client.create_producer(TOPIC)
            for index in range(count):
                builder = clients[index].new_consumer().with_topic(str(TOPIC)).with_subscription("sub")
                builder.with_consumer_name(f"c{index}").with_subscription_type(kind)
                builder.with_streams(chance.random() < 0.6).with_prefetch_bytes(chance.choice([64 * 1024, 1 << 20]))
                consumer = builder.build()
                await consumer.subscribe()
                scope.spawn(consume(consumer, Random(chance.random()), got, done), f"consumer {index}")
            work: list[Awaitable[None]] = [produce(clients[-1], chance, first) for first in (0, 100, 200)]
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*work, cut(cell, chance))
                await all_there.wait()
            await scope.close()
            for client in clients:
                await client.close()
    assert got == set(range(MESSAGES))


async def cut(cell: Cell, chance: Random) -> None:
    """Move the topic away and back, and disconnect consumers, meanwhile."""
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    for _ in range(CUTS):
        for _ in range(chance.randrange(200)):
            await asyncio.sleep(0)
        if chance.random() < 0.7:
            await cell.broker.moves.unload(TOPIC)
            await cell.broker.moves.open_again(TOPIC)
        else:
            (await StreamPeer(channel).opened(TOPIC, "stranger")).close()
    await channel.close()


@pytest.mark.parametrize("seed", range(4))
async def test_every_message_reaches_some_consumer(seed: int) -> None:
    await course(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 200))
async def test_every_message_reaches_some_consumer_at_length(seed: int) -> None:
    await course(seed)

"""Floods and stalls against a real broker: everything arrives, nobody else waits, memory stays within bounds.

`DANUBE_FLOOD=50000` makes the flood longer.
"""

import asyncio
import os
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from danube.client import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.model.limits.broker import CACHE_BYTES_MAX, MIB
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.carrier import Channel
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.client import Inbox, Peer
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(240)]

TOPIC = TopicName("default", "flooded")
QUEUE = TopicName("default", "queue")
FLOOD_PROGRAM = Path(__file__).parents[2] / "bench" / "flood_program.py"
WHEEL_PRODUCERS = 16
FLOOD_MESSAGES = int(os.environ.get("DANUBE_FLOOD", "16000"))
PROBES = 150
TRIES = 5
"""Of a measurement: what else the machine does may delay the probes of one, what is stalled those of all."""
SOON_S = 0.1
"""Of a message whose way is free, on a machine that does other work as well."""
GROWTH_BYTES_MAX = CACHE_BYTES_MAX + 128 * MIB
"""Of a broker's memory: the cache of recent batches, and as much again for connections and what is under way."""


@pytest.fixture
async def channel(broker: BrokerProcess) -> AsyncIterator[Channel]:
    channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.broker)
    yield channel
    await channel.close()


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[DanubeClient]:
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        yield client


@asynccontextmanager
async def producing(client: DanubeClient) -> AsyncIterator[Producer]:
    builder = client.new_producer().with_topic(str(TOPIC)).with_name("p")
    async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        yield producer


@asynccontextmanager
async def consuming(client: DanubeClient, subscription: str) -> AsyncIterator[Consumer]:
    builder = client.new_consumer().with_topic(str(TOPIC)).with_consumer_name("c").with_subscription(subscription)
    async with builder.build() as consumer:
        yield consumer


async def never_reading(peer: Peer, topic: TopicName, subscription: str) -> Inbox:
    return await peer.receive(await peer.subscribe(topic, subscription, "stalled"))


@pytest.mark.nightly
async def test_a_slow_consumer_gets_all_that_many_published_clients_flood(
    broker: BrokerProcess, client: DanubeClient, channel: Channel, wheel_python: Path
) -> None:
    peer = Peer(channel)
    await peer.create_producer(TOPIC)
    stalled = await never_reading(peer, TOPIC, "stalled")
    async with consuming(client, "slow") as consumer:
        before = await asyncio.to_thread(broker.resident_bytes)
        arguments = [broker.endpoints.service_url, str(TOPIC), str(WHEEL_PRODUCERS), str(FLOOD_MESSAGES), "100"]
        process = await asyncio.create_subprocess_exec(str(wheel_python), "-I", str(FLOOD_PROGRAM), *arguments)
        try:
            seen = await take(consumer, FLOOD_MESSAGES)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
        growth = await asyncio.to_thread(broker.resident_bytes) - before
    stalled.close()
    assert seen == {number: list(range(FLOOD_MESSAGES // WHEEL_PRODUCERS)) for number in range(WHEEL_PRODUCERS)}
    assert growth < GROWTH_BYTES_MAX


async def take(consumer: Consumer, count: int) -> dict[int, list[int]]:
    """Take and acknowledge one by one; answers each producer's numbers in the order in which they came."""
    seen = defaultdict[int, list[int]](list)
    queue = await consumer.receive()
    for _ in range(count):
        message = await queue.get()
        producer, index = message.payload.split(b"-")[:2]
        seen[int(producer)].append(int(index))
        await consumer.ack(message)
    return dict(sorted(seen.items()))


async def test_a_stalled_consumer_delays_nobody_else(client: DanubeClient, channel: Channel) -> None:
    peer = Peer(channel)
    async with producing(client) as producer, consuming(client, "loud") as consumer:
        await latencies_s(producer, consumer)
        soon_s = max(SOON_S, 10 * statistics.median(await latencies_s(producer, consumer)))
        stalled = [await never_reading(peer, TOPIC, f"stalled-{number}") for number in range(10)]
        for _ in range(TRIES):
            beside_s = statistics.median(await latencies_s(producer, consumer))
            if beside_s < soon_s:
                break
        for inbox in stalled:
            inbox.close()
    assert beside_s < soon_s


async def latencies_s(producer: Producer, consumer: Consumer) -> list[float]:
    """From send to receipt, one message at a time."""
    found, queue = [], await consumer.receive()
    for _ in range(PROBES):
        started_s = time.monotonic()
        await producer.send(b"x" * 4_096)
        message = await queue.get()
        found.append(time.monotonic() - started_s)
        await consumer.ack(message)
    return found


async def test_consumers_that_stop_reading_large_messages_hold_no_memory(
    broker: BrokerProcess, client: DanubeClient, channel: Channel
) -> None:
    peer, payload = Peer(channel), bytes(512 * 1024)
    async with producing(client) as producer:
        stalled = [await never_reading(peer, TOPIC, f"stalled-{number}") for number in range(20)]
        before = await asyncio.to_thread(broker.resident_bytes)
        await producer.send_many([payload] * 400)
        growth = await asyncio.to_thread(broker.resident_bytes) - before
        for inbox in stalled:
            inbox.close()
    assert growth < GROWTH_BYTES_MAX


@pytest.mark.nightly
async def test_two_thousand_consumers_of_a_thousand_subscriptions_are_all_served(
    broker: BrokerProcess, channel: Channel
) -> None:
    peer = Peer(channel, timeout_s=180)
    before = await asyncio.to_thread(broker.resident_bytes)
    fan_producer, queue_producer = await peer.create_producer(TOPIC), await peer.create_producer(QUEUE)
    async with AsyncExitStack() as open_streams:
        fans = await asyncio.gather(*(never_reading(peer, TOPIC, f"s{number}") for number in range(1_000)))
        shared = SubscriptionType.SHARED
        ids = await asyncio.gather(*(peer.subscribe(QUEUE, "s", f"c{number}", shared) for number in range(1_000)))
        workers = await asyncio.gather(*(peer.receive(identity) for identity in ids))
        for inbox in (*fans, *workers):
            open_streams.callback(inbox.close)
        await asyncio.gather(*(peer.send(QUEUE, queue_producer, b"%d" % number) for number in range(1_000)))
        for number in range(5):
            await peer.send(TOPIC, fan_producer, b"%d" % number)
        async with asyncio.timeout(180):
            got = await asyncio.gather(*(inbox.take(5) for inbox in fans))
            done = await asyncio.gather(*(inbox.next() for inbox in workers))
        growth = await asyncio.to_thread(broker.resident_bytes) - before
    assert [[message.offset for message in of_one] for of_one in got] == [list(range(5))] * 1_000
    assert sorted(message.offset for message in done) == list(range(1_000))
    assert growth < GROWTH_BYTES_MAX

"""Many subscriptions, many producers, and a consumer that stalls: what each costs the others, and the broker's memory.

All of it over real sockets with durability fsync; the clients share this machine with the broker. What is compared
comes from one run.
"""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from bench.result import Figure, percentile_ms
from bench.wheel import WHEEL_PYTHON
from danube.client import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.client import Inbox, Peer
from danube.testing.processes.broker import BrokerProcess

SUBSCRIPTIONS = (1, 10, 100)
DELIVERIES = 10_000
"""Of all subscriptions together."""
PRODUCERS = (1, 16, 64)
FLOOD_MESSAGES = 6_400
PROBES = 500
PAYLOAD = bytes(1_024)
TOPIC = TopicName("default", "bench")
FLOOD_PROGRAM = Path(__file__).with_name("flood_program.py")


def run() -> Iterator[Figure]:
    """A broker of its own for each number of subscriptions, each number of producers, and for the stall."""
    with asyncio.Runner() as runner:  # open to the end: gRPC goes on to hand events to loops that it has once seen
        for subscriptions in SUBSCRIPTIONS:
            with _broker() as broker:
                yield from runner.run(_fan_out(broker, subscriptions))
        for producers in PRODUCERS:
            with _broker() as broker:
                yield from _flood(broker, producers)
        with _broker() as broker:
            yield from runner.run(_stall(broker))


@contextmanager
def _broker() -> Iterator[BrokerProcess]:
    flags = ["--durability", "fsync", "--log-level", "warning"]
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data", flags=flags) as broker:
        yield broker


async def _fan_out(broker: BrokerProcess, subscriptions: int) -> list[Figure]:
    messages = DELIVERIES // subscriptions
    async with AsyncExitStack() as parts:
        client = await parts.enter_async_context(_client(broker))
        producer = await parts.enter_async_context(_producer(client))
        readers = [await parts.enter_async_context(_consumer(client, f"s{n}")) for n in range(subscriptions)]
        used_s, started_s = broker.cpu_s(), time.monotonic()
        reading = asyncio.gather(*(_take(reader, messages) for reader in readers))
        await producer.send_many([PAYLOAD] * messages)
        sent_s = time.monotonic() - started_s
        await reading
        elapsed_s, used_s = time.monotonic() - started_s, broker.cpu_s() - used_s
    name = f"1 KiB to {subscriptions} subscription{'s' * (subscriptions > 1)}, each message acked"
    note = f"broker {used_s / DELIVERIES * 1e6:.0f} us/delivery, all published after {sent_s:.2f} s"
    return [Figure(name, DELIVERIES / elapsed_s, "deliveries/s", note), _memory(name, broker)]


async def _take(reader: Consumer, messages: int) -> None:
    queue = await reader.receive()
    for _ in range(messages):
        await reader.ack(await queue.get())


def _flood(broker: BrokerProcess, producers: int) -> list[Figure]:
    used_s = broker.cpu_s()
    arguments = [broker.endpoints.service_url, str(TOPIC), str(producers), str(FLOOD_MESSAGES), str(len(PAYLOAD))]
    command = [str(WHEEL_PYTHON), "-I", str(FLOOD_PROGRAM), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rate, cpu_us = FLOOD_MESSAGES / json.loads(done.stdout), (broker.cpu_s() - used_s) / FLOOD_MESSAGES * 1e6
    name = f"danube-client 0.5.0, {producers} producer{'s' * (producers > 1)} in one process, 1 KiB"
    return [Figure(name, rate, "msg/s", f"broker {cpu_us:.0f} us/msg"), _memory(name, broker)]


async def _stall(broker: BrokerProcess) -> list[Figure]:
    """Latency from send to receipt, without and with somebody beside who never reads."""
    async with AsyncExitStack() as parts:
        client = await parts.enter_async_context(_client(broker))
        producer = await parts.enter_async_context(_producer(client))
        reader = await parts.enter_async_context(_consumer(client, "loud"))
        await _probe(producer, reader)
        alone = await _probe(producer, reader)
        await parts.enter_async_context(_stalled(broker))
        beside = await _probe(producer, reader)
    name = "send to receipt, 1 KiB, one at a time"
    note = f"{percentile_ms(beside, 50) / percentile_ms(alone, 50):.2f} x"
    return [
        Figure(f"{name}: p50", percentile_ms(alone, 50), "ms", f"p99 {percentile_ms(alone, 99):.1f} ms"),
        Figure(f"{name}, beside a stalled consumer: p50", percentile_ms(beside, 50), "ms", note),
    ]


async def _probe(producer: Producer, reader: Consumer) -> list[float]:
    latencies_s = []
    queue = await reader.receive()
    for _ in range(PROBES):
        started_s = time.monotonic()
        await producer.send(PAYLOAD)
        message = await queue.get()
        latencies_s.append(time.monotonic() - started_s)
        await reader.ack(message)
    return latencies_s


def _memory(name: str, broker: BrokerProcess) -> Figure:
    return Figure(f"{name}: broker memory", broker.resident_bytes() / 1e6, "MB")


@asynccontextmanager
async def _client(broker: BrokerProcess) -> AsyncIterator[DanubeClient]:
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        yield client


def _producer(client: DanubeClient) -> Producer:
    builder = client.new_producer().with_topic(str(TOPIC)).with_name("bench")
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()


def _consumer(client: DanubeClient, subscription: str) -> Consumer:
    builder = client.new_consumer().with_topic(str(TOPIC)).with_consumer_name("c")
    return builder.with_subscription(subscription).build()


@asynccontextmanager
async def _stalled(broker: BrokerProcess) -> AsyncIterator[Inbox]:
    """A consumer with an open stream that it never reads."""
    channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.broker)
    peer = Peer(channel)
    try:
        yield await peer.receive(await peer.subscribe(TOPIC, "stalled", "stalled"))
    finally:
        await channel.close()

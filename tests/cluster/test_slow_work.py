"""Slow applications on a real broker, in real time: an event loop that is blocked, and the client without `await`."""

import asyncio
import time
from pathlib import Path

import pytest

from danube.client import Consumer, DanubeClientBuilder, DispatchStrategy, SubType
from danube.sync import Client
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

TOPIC = "/default/work"
TIMEOUT_S = 1
HANG_S = 3.0
"""Longer than a client may be silent, which is two timeouts."""


async def blocking(service_url: str, seen: list[bytes]) -> None:
    """An application that blocks its event loop with the third message."""
    async with await DanubeClientBuilder().service_url(service_url).build() as client:
        building = client.new_consumer().with_topic(TOPIC).with_subscription("blocking").with_consumer_name("c")
        consumer: Consumer = building.with_subscription_type(SubType.EXCLUSIVE).build()
        await consumer.subscribe()
        building_producer = client.new_producer().with_topic(TOPIC).with_name("p")
        async with building_producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            await producer.send_many(b"%d" % number for number in range(8))
        async with asyncio.timeout(PATIENCE_S):
            async for message in consumer:
                seen.append(message.payload)
                if message.payload == b"2":
                    time.sleep(HANG_S)  # noqa: ASYNC251 - which it should not do
                await consumer.ack(message)
                if message.payload == b"7":
                    return


def without_await(service_url: str) -> list[bytes]:
    """An application whose work on one message is longer than the timeout."""
    seen: list[bytes] = []
    with (
        Client(service_url) as client,
        client.producer(TOPIC, "p") as producer,
        client.consumer(TOPIC, "sync") as consumer,
    ):
        producer.send_many(b"%d" % number for number in range(8))
        for message in consumer:
            seen.append(message.payload)
            time.sleep(1.5 * TIMEOUT_S if message.payload == b"0" else 0.25 * TIMEOUT_S)
            consumer.ack(message)
            if message.payload == b"7":
                break
    return seen


def test_slow_work_is_given_each_message_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", settings={"ack_timeout_s": TIMEOUT_S}) as process:
        url = process.endpoints.service_url
        with Client(url) as client, client.producer(TOPIC, "first"):
            pass
        everything = [b"%d" % number for number in range(8)]
        seen: list[bytes] = []
        asyncio.run(blocking(url, seen))
        assert seen == everything
        assert without_await(url) == everything

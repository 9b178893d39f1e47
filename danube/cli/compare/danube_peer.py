"""Danube as a peer: batches by `send_many`, received in batches and acknowledged by ranges."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from danube.cli.compare.peer import Arrived
from danube.client import Consumer, DanubeClient, DispatchStrategy, Producer, SubType
from danube.model.limits.faces import COMPARE_POLL_S
from danube.runtime.tasks import TaskScope


class DanubePeer:
    """A `Peer`."""

    def __init__(self, name: str, producer: Producer, consumer: Consumer) -> None:
        self.name = name
        self._producer = producer
        self._consumer = consumer
        self._sends = TaskScope("sends")

    async def publish(self, payloads: Sequence[bytes]) -> None:
        await self._producer.send_many(payloads)

    def start(self, payload: bytes) -> None:
        self._sends.spawn(self._producer.send(payload), "send")

    async def flush(self) -> None:
        await self._producer.flush()
        await self._consumer.flush_acks()

    async def receive(self) -> Arrived:
        found = await self._consumer.receive_many(timeout_s=COMPARE_POLL_S)
        at_s = time.monotonic()
        if found:
            await self._consumer.ack_up_to(found[-1], waits=False)
        return Arrived([message.payload for message in found], at_s)

    async def close(self) -> None:
        """End what is under way."""
        await self._sends.close()


@asynccontextmanager
async def danube_peer(client: DanubeClient, topic: str) -> AsyncIterator[DanubePeer]:
    """Connect both ends, behind everything that is in the topic."""
    building = client.new_producer().with_topic(topic).with_name("danube-compare")
    async with building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        end = (await client.bounds(topic)).end_offset
        reading = client.new_consumer().with_topic(topic).with_subscription(f"danube-compare-{time.time_ns()}")
        reading.with_consumer_name("danube-compare").with_subscription_type(SubType.EXCLUSIVE).with_start(end)
        async with reading.build() as consumer:
            peer = DanubePeer("danube", producer, consumer)
            try:
                yield peer
            finally:
                await peer.close()

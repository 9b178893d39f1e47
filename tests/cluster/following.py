"""An application of our client that publishes to one topic and reads it, while the topic changes its broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import count
from typing import Self

from danube.client import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType
from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster


class Application:
    """Publishes numbers until it is closed; every error of a call ends it, and the test with it."""

    def __init__(self, client: DanubeClient, topic: TopicName) -> None:
        self._client = client
        self.topic = topic
        self.acknowledged: list[int] = []
        self._received: dict[int, int] = {}
        """By offset, in the order in which they came first."""
        self._news = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    @asynccontextmanager
    async def running(cls, cluster: BrokerCluster, topic: TopicName) -> AsyncIterator[Self]:
        """One on a topic of its own, which knows every broker."""
        urls = ",".join(broker.endpoints.service_url for broker in cluster.brokers)
        async with await DanubeClientBuilder().service_url(urls).build() as client:
            found = cls(client, topic)
            await found._start()
            try:
                yield found
            finally:
                await found._stop()

    async def see(self, more: int) -> None:
        """Return when so many more messages were acknowledged, and received."""
        enough = len(self.acknowledged) + more
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: self._ended() or min(self._counts()) >= enough)
        for task in self._tasks:
            if task.done():
                task.result()

    async def judge(self) -> None:
        """No acknowledged message is lost, offsets are contiguous, and the consumer got what the topic holds."""
        await self._stop()
        for task in self._tasks:
            if not task.cancelled():
                task.result()
        bounds = await self._client.bounds(str(self.topic))
        fetched = self._client.fetch(str(self.topic), start=0, end=bounds.end_offset)
        async with aclosing(fetched) as messages:
            held = [(message.msg_id.topic_offset, int(message.payload)) async for message in messages]
        assert [offset for offset, _ in held] == list(range(len(held)))
        numbers = list(dict.fromkeys(number for _, number in held))
        assert numbers == sorted(numbers)
        assert set(self.acknowledged) - set(numbers) == set()
        assert list(self._received.items()) == held[: len(self._received)]

    def _counts(self) -> tuple[int, int]:
        return len(self.acknowledged), len(set(self._received.values()))

    def _ended(self) -> bool:
        return any(task.done() for task in self._tasks)

    async def _start(self) -> None:
        making = self._client.new_producer().with_topic(str(self.topic)).with_name("p")
        producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        naming = self._client.new_consumer().with_topic(str(self.topic)).with_consumer_name("c")
        consumer = naming.with_subscription("s").with_subscription_type(SubType.EXCLUSIVE).build()
        await consumer.subscribe()
        self._tasks = [asyncio.ensure_future(self._publish(producer)), asyncio.ensure_future(self._read(consumer))]

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    async def _publish(self, producer: Producer) -> None:
        for number in count():
            await producer.send(b"%d" % number)
            async with self._news:
                self.acknowledged.append(number)
                self._news.notify_all()

    async def _read(self, consumer: Consumer) -> None:
        async for message in consumer:
            await consumer.ack(message)
            async with self._news:
                self._received.setdefault(message.msg_id.topic_offset, int(message.payload))
                self._news.notify_all()

"""Calls of the soak itself: create topics, read them back, drain what subscriptions are still owed."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Message
from danube.model.errors import OffsetTrimmedError
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.client import Peer
from danube.testing.processes.broker import Endpoints
from lab.soak.judge import Found, Identity
from lab.soak.load import Report, identity_of, payload_of, waiting_in
from lab.soak.plan import LoadedSubscription, LoadedTopic

QUIET_S = 0.3  # after the last message that is owed: time for one that should not come
FETCH_ATTEMPTS_MAX = 5  # retention lets go of what is being read


async def make_topics(endpoints: Endpoints, topics: Sequence[LoadedTopic]) -> None:
    """Create topics with nothing in them, and their subscriptions, which begin with the first message."""
    channel = GrpcCarrier(SystemClock()).connect(endpoints.broker)
    peer = Peer(channel)
    try:
        for topic in topics:
            name = TopicName.parse(topic.topic)
            await peer.create_producer(name)
            for one in topic.subscriptions:
                await peer.subscribe(name, one.name, f"{one.name}-0", SubscriptionType[one.kind])
    finally:
        await channel.close()


@asynccontextmanager
async def connected(endpoints: Endpoints) -> AsyncIterator[DanubeClient]:
    """A client of ours."""
    async with await DanubeClientBuilder().service_url(endpoints.service_url).build() as client:
        yield client


async def send_last(client: DanubeClient, topic: LoadedTopic, producer_name: str) -> None:
    """Send what is the topic's last message then. Raises DanubeError."""
    builder = client.new_producer().with_topic(topic.topic).with_name(producer_name)
    async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        await producer.send(payload_of(producer_name, 0))


async def find(client: DanubeClient, topic: LoadedTopic) -> Found:
    """All that the topic holds. Raises DanubeError."""
    for attempt in range(FETCH_ATTEMPTS_MAX):
        bounds = await client.bounds(topic.topic)
        fetched = client.fetch(topic.topic, start=bounds.start_offset, end=bounds.end_offset)
        try:
            async with aclosing(fetched) as messages:
                records = [(message.msg_id.topic_offset, _identity(message)) async for message in messages]
        except OffsetTrimmedError:
            if attempt + 1 == FETCH_ATTEMPTS_MAX:
                raise
        else:
            break
    return Found(start=bounds.start_offset, records=records)


async def drain(
    client: DanubeClient, topic: LoadedTopic, one: LoadedSubscription, owed: set[int], report: Report
) -> None:
    """Take and acknowledge until nothing is owed and nothing more comes; all is reported first. Raises DanubeError."""
    builder = client.new_consumer().with_topic(topic.topic).with_subscription(one.name)
    builder = builder.with_subscription_type(SubscriptionType[one.kind]).with_consumer_name(f"{one.name}-0")
    async with builder.build() as consumer:
        queue, begun_s = await consumer.receive(), time.monotonic()
        while messages := await _some(queue, wait_s=None if owed else QUIET_S):
            for message in messages:
                report.take(f"{topic.topic} {one.name}", message.msg_id.topic_offset, message.payload, begun_s)
            report.write()
            await asyncio.gather(*(consumer.ack(message) for message in messages))
            owed.difference_update(message.msg_id.topic_offset for message in messages)


async def _some(queue: asyncio.Queue[Message], *, wait_s: float | None) -> list[Message]:
    """The messages at hand, at least one; none when none came in time."""
    try:
        async with asyncio.timeout(wait_s):
            return await waiting_in(queue)
    except TimeoutError:
        return []


def _identity(message: Message) -> Identity:
    try:
        return identity_of(message.payload)
    except ValueError as error:
        return str(error), -1

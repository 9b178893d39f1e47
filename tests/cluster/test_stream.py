"""Batches over real sockets to a real broker that is killed."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, ProducerOptions
from danube.client.publish.sender import StoredRange
from danube.model.calls.stream import PublishOpen
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.stream import StreamPeer
from danube.testing.processes.broker import BrokerProcess
from danube.wire import encode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

TOPIC = "/default/orders"
TOPIC_NAME = TopicName("default", "orders")


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[DanubeClient]:
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        yield client


def reliable(client: DanubeClient) -> Producer:
    builder = client.new_producer().with_topic(TOPIC).with_name("p")
    builder.with_options(ProducerOptions(retry_total_s=PATIENCE_S))
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()


async def fetched(client: DanubeClient) -> list[tuple[int, bytes]]:
    async with aclosing(client.fetch(TOPIC)) as messages:
        return [(message.msg_id.topic_offset, message.payload) async for message in messages]


async def test_many_messages_arrive_in_order_over_grpc(client: DanubeClient) -> None:
    payloads = [b"%d" % n + bytes(200) for n in range(50_000)]
    async with reliable(client) as producer:
        assert await producer.send_many(payloads) == 50_000
    assert await fetched(client) == list(enumerate(payloads))


async def test_fetch_is_refused_over_grpc_with_the_valid_range(client: DanubeClient) -> None:
    async with reliable(client) as producer:
        await producer.send_many([b"x"])
    with pytest.raises(InvalidRequestError, match="0 to 1"):
        await anext(client.fetch(TOPIC, start=2))


async def send_on_and_never_read(peer: StreamPeer) -> None:
    """Open a stream of batches, send what it must refuse, and go on sending until that is known."""
    line = peer.publish()
    opening = PublishOpen(topic=TOPIC_NAME, producer_name="p", strategy=DispatchStrategy.RELIABLE)
    await line.stream.send(encode.publish_open(opening))
    try:
        while True:
            await line.stream.send(b"no message at all")
    finally:
        line.close()


async def test_a_peer_that_never_reads_is_told_that_its_stream_was_refused(
    broker: BrokerProcess, client: DanubeClient
) -> None:
    async with reliable(client) as producer:
        await producer.send_many([b"x"])
    channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.broker)
    peer = StreamPeer(channel)
    for _ in range(40):
        async with asyncio.timeout(PATIENCE_S):
            told = await asyncio.gather(*(send_on_and_never_read(peer) for _ in range(10)), return_exceptions=True)
        assert all(isinstance(error, DanubeError) for error in told), told
    await channel.close()


async def test_kill_9_in_the_middle_loses_nothing_acknowledged_and_keeps_the_order(
    broker: BrokerProcess, client: DanubeClient
) -> None:
    stored: list[StoredRange] = []
    kill_at = [5, 20]

    async def source() -> AsyncIterator[bytes]:
        for n in itertools.count():
            if kill_at and len(stored) >= kill_at[0]:
                kill_at.pop(0)
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.launch)
            if not kill_at and len(stored) > 40:
                return
            yield b"%09d" % n + bytes(1_000)
            await asyncio.sleep(0)

    async with reliable(client) as producer:
        count = await producer.send_many(source(), on_stored=stored.append)
    found = await fetched(client)
    assert [offset for offset, _ in found] == list(range(len(found)))
    numbers = [int(payload[:9]) for _, payload in found]
    assert list(dict.fromkeys(numbers)) == list(range(count))
    sent = iter(range(count))
    for one in stored:
        expected = list(itertools.islice(sent, one.count))
        assert numbers[one.first_offset : one.first_offset + one.count] == expected

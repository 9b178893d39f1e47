"""Sends that are under way at once go together in batches; keys, compression, and the client without `await`."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, SubType
from danube.client.publish.producer import ProducerBuilder
from danube.model.errors import InvalidBatchError, InvalidRequestError, MessageTooLargeError
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.storage.batches.batch import HEADER_BYTES, check, encode_payloads, records
from danube.storage.batches.compression import BatchCodec
from danube.testing.in_process_broker import Cell
from danube.testing.patience import PATIENCE_S

CODECS = pytest.mark.parametrize("codec", ["lz4", "zstd"])


@pytest.fixture
async def client(cell: Cell) -> AsyncIterator[DanubeClient]:
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}").with_carrier(cell.carrier)
    async with await builder.build() as client:
        yield client


def builder_of(client: DanubeClient, topic: TopicName) -> ProducerBuilder:
    builder = client.new_producer().with_topic(str(topic)).with_name("p")
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE)


async def stored(client: DanubeClient, topic: TopicName) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [each.payload async for each in client.fetch(str(topic))]


async def batches(client: DanubeClient, topic: TopicName) -> list[bytes]:
    end = (await client.bounds(str(topic))).end_offset
    return [each.body async for some in client.fetch_batches(str(topic), start=0, end=end) for each in some]


async def test_ten_thousand_sends_become_a_few_batches(client: DanubeClient, topic: TopicName) -> None:
    async with builder_of(client, topic).build() as producer, asyncio.timeout(PATIENCE_S):
        ids = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(10_000)))
        assert len(set(ids)) == 10_000
    assert sorted(map(int, await stored(client, topic))) == list(range(10_000))
    assert len(await batches(client, topic)) < 200


async def test_sends_with_keys_and_attributes_keep_them(client: DanubeClient, topic: TopicName) -> None:
    async with builder_of(client, topic).build() as producer, asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(producer.send_with_key(b"%d" % n, {"n": str(n)}, f"k{n % 3}") for n in range(100)))
        await producer.flush()
    found = [each async for each in client.fetch(str(topic))]
    assert {(each.payload, each.routing_key, each.attributes["n"]) for each in found} == {
        (b"%d" % n, f"k{n % 3}", str(n)) for n in range(100)
    }
    assert len(await batches(client, topic)) < 50


async def test_send_that_is_refused_harms_no_other(client: DanubeClient, topic: TopicName) -> None:
    payloads = [b"x"] * 20 + [b"x" * (MESSAGE_BYTES_MAX + 1)] + [b"y"] * 20
    async with builder_of(client, topic).build() as producer, asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(*map(producer.send, payloads), return_exceptions=True)
    assert [number for number, each in enumerate(outcomes) if isinstance(each, MessageTooLargeError)] == [20]
    assert sorted(await stored(client, topic)) == [b"x"] * 20 + [b"y"] * 20


async def test_sends_to_a_topic_that_moves_are_stored(cell: Cell, client: DanubeClient, topic: TopicName) -> None:
    async with builder_of(client, topic).build() as producer, asyncio.timeout(PATIENCE_S):
        sends = asyncio.gather(*(producer.send(b"%d" % number) for number in range(500)))
        await cell.broker.moves.unload(topic)
        await cell.broker.moves.open_again(topic)
        await sends
    assert {int(each) for each in await stored(client, topic)} == set(range(500))


async def test_many_messages_with_keys_go_in_batches_in_their_order(client: DanubeClient, topic: TopicName) -> None:
    async with builder_of(client, topic).build() as producer:
        assert await producer.send_many_with_keys((f"k{n % 7}", b"%d" % n) for n in range(1_000)) == 1_000
    found = [each async for each in client.fetch(str(topic))]
    assert [(each.routing_key, each.payload) for each in found] == [(f"k{n % 7}", b"%d" % n) for n in range(1_000)]
    assert len(await batches(client, topic)) < 20


async def test_keys_choose_the_partition(client: DanubeClient, topic: TopicName) -> None:
    async with builder_of(client, topic).with_partitions(3).build() as producer:
        await producer.send_many_with_keys((f"k{n % 7}", b"%d" % n) for n in range(70))
    keys = [{each.routing_key async for each in client.fetch(f"{topic}-part-{index}")} for index in range(3)]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 7


@CODECS
async def test_compressed_batches_are_read_by_every_kind_of_consumer(
    cell: Cell, client: DanubeClient, topic: TopicName, codec: str
) -> None:
    payloads = [b"the same words again and again %d" % (number % 5) for number in range(500)]
    subscribed = await cell.client.create_producer(topic)
    assert subscribed
    consumers = []
    for name, streams in (("a", True), ("b", False)):
        builder = client.new_consumer().with_topic(str(topic)).with_consumer_name(name).with_subscription(name)
        consumers.append(builder.with_subscription_type(SubType.EXCLUSIVE).with_streams(streams).build())
        await consumers[-1].subscribe()
    async with builder_of(client, topic).with_compression(codec).build() as producer:
        await producer.send_many(payloads)
    assert await stored(client, topic) == payloads
    sizes = sum(len(body) for body in await batches(client, topic))
    assert sizes < sum(map(len, payloads)) / 3
    for consumer in consumers:
        found: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < 500:
                some = await consumer.receive_many()
                found += [each.payload for each in some]
                await consumer.ack_many(some)
        assert found == payloads


@pytest.mark.parametrize("codec", [BatchCodec.LZ4, BatchCodec.ZSTD])
def test_damaged_or_lying_compressed_batches_are_refused(codec: BatchCodec) -> None:
    from danube.runtime.checksum import CRC_BYTES, with_crc  # noqa: PLC0415 - what a liar needs

    payloads = [b"abc" * 100] * 50
    body = encode_payloads(b"", payloads, codec=codec)
    check(body)
    assert records(body, 3, 5) == payloads[3:5]
    for size in (0, 1, 2**32 - 1, 15_199, 15_201):
        lying = body[:HEADER_BYTES] + size.to_bytes(4, "little") + body[HEADER_BYTES + 4 : -CRC_BYTES]
        with pytest.raises(InvalidBatchError):
            check(with_crc(lying))
    with pytest.raises(InvalidBatchError):
        check(with_crc(body[: HEADER_BYTES + 12]))
    with pytest.raises(InvalidBatchError):
        check(with_crc(body[: HEADER_BYTES + 4] + b"\0" * 40))


def test_unknown_compression_is_refused(client_builder: ProducerBuilder) -> None:
    with pytest.raises(InvalidRequestError, match="use lz4, zstd or none"):
        client_builder.with_compression("rot13")


@pytest.fixture
def client_builder(client: DanubeClient, topic: TopicName) -> ProducerBuilder:
    return builder_of(client, topic)

"""`send_many` with de-duplication and exclusive producers, through streams that break and brokers that start anew."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, ProducerAccess, ProducerBuilder
from danube.model.errors import (
    BrokerUnreachableError,
    InvalidRequestError,
    ProducerFencedError,
    TopicHeldError,
)
from danube.rpc.http2.client.stream import Http2ClientStream
from danube.storage.batches.producer_state import SequencedBatch, StoredProducerStates
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S

TOPIC = "/default/orders"
PAYLOADS = [b"%d" % number for number in range(20_000)]


@pytest.fixture
async def cell(tmp_path: Path) -> AsyncIterator[Cell]:
    async with running_broker(tmp_path / "data") as cell:
        yield cell


@pytest.fixture
async def client(cell: Cell) -> AsyncIterator[DanubeClient]:
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}")
    async with await builder.with_carrier(cell.carrier).build() as client:
        yield client


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every third answer on a stream is lost with its stream; answers how often."""
    lost: list[int] = []
    original = Http2ClientStream.receive
    answers = 0

    async def receive(stream: Http2ClientStream) -> bytes | None:
        nonlocal answers
        raw = await original(stream)
        answers += 1
        if raw is not None and answers % 3 == 0 and len(lost) < 8:
            lost.append(answers)
            stream.on_end(BrokerUnreachableError("cut by the test"))
            raise BrokerUnreachableError("cut by the test")
        return raw

    monkeypatch.setattr(Http2ClientStream, "receive", receive)
    monkeypatch.setattr("danube.client.publish.accumulator.CLIENT_BATCH_BYTES", 1_000)  # small: many answers
    return lost


def builder(client: DanubeClient, name: str = "p") -> ProducerBuilder:
    made = client.new_producer().with_topic(TOPIC).with_name(name)
    return made.with_dispatch_strategy(DispatchStrategy.RELIABLE)


def exclusive(client: DanubeClient, name: str, access: ProducerAccess = ProducerAccess.EXCLUSIVE) -> Producer:
    return builder(client, name).with_access(access).build()


async def stored(client: DanubeClient) -> list[bytes]:
    async with aclosing(client.fetch(TOPIC)) as messages:
        return [message.payload async for message in messages]


async def test_answers_that_are_lost_make_no_message_twice(client: DanubeClient, cuts: list[int]) -> None:
    offsets: list[int] = []
    async with builder(client).with_deduplication().build() as producer:
        count = await producer.send_many(PAYLOADS, on_stored=lambda one: offsets.append(one.first_offset))
    assert (count, len(cuts)) == (len(PAYLOADS), 8)
    assert offsets == sorted(set(offsets))
    assert await stored(client) == PAYLOADS


async def test_without_deduplication_they_do(client: DanubeClient, cuts: list[int]) -> None:
    async with builder(client).build() as producer:
        await producer.send_many(PAYLOADS)
    assert cuts
    assert len(await stored(client)) > len(PAYLOADS)


async def test_one_row_of_numbers_serves_many_calls_and_a_second_one_those_at_the_same_time(
    client: DanubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[SequencedBatch] = []
    original = StoredProducerStates.add

    def add(remembered: StoredProducerStates, batch: SequencedBatch, offset: int) -> None:
        seen.append(batch)
        original(remembered, batch, offset)

    monkeypatch.setattr(StoredProducerStates, "add", add)
    async with builder(client).with_deduplication().build() as producer:
        await producer.send_many([b"a", b"b"])
        await producer.send_many([b"c"])

        async def source() -> AsyncIterator[bytes]:
            yield b"d"
            await producer.send_many([b"e"])

        await producer.send_many(source())
    first, second, *others = seen
    assert (first.base_sequence, second.base_sequence) == (0, 2)
    assert len({one.numbering_id for one in seen}) == 2
    assert sorted(one.base_sequence for one in others) == [0, 3]


async def test_bursts_of_single_sends_continue_one_row_of_numbers(
    client: DanubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.client.publish.single_sends.CLIENT_SINGLES_IDLE_S", 0.0)
    seen: set[int] = set()
    original = StoredProducerStates.add

    def add(remembered: StoredProducerStates, batch: SequencedBatch, offset: int) -> None:
        seen.add(batch.numbering_id)
        original(remembered, batch, offset)

    monkeypatch.setattr(StoredProducerStates, "add", add)
    async with builder(client).with_deduplication().build() as producer:
        for _ in range(5):
            await asyncio.gather(*(producer.send(b"x") for _ in range(20)))
            streams = [one for one in asyncio.all_tasks() if "batches of single sends" in one.get_name()]
            assert (await asyncio.wait(streams, timeout=PATIENCE_S))[1] == set()
        await producer.send_many([b"y"])
    assert len(seen) == 1


async def test_producer_that_was_told_nothing_begins_a_new_row(client: DanubeClient) -> None:
    async with builder(client).with_deduplication().build() as producer:

        def source() -> Iterator[bytes]:
            yield b"a"
            raise RuntimeError("the source fails")

        with pytest.raises(RuntimeError):
            await producer.send_many(source())
        assert await producer.send_many([b"b"]) == 1
    assert await stored(client) == [b"a", b"b"]


async def test_second_exclusive_producer_is_refused_and_one_that_takes_over_fences(client: DanubeClient) -> None:
    async with exclusive(client, "old") as old, exclusive(client, "new") as new:
        taking = exclusive(client, "taker", ProducerAccess.EXCLUSIVE_TAKE_OVER)
        seen: list[type[Exception]] = []

        async def source() -> AsyncIterator[bytes]:
            yield b"before"
            try:
                await new.send_many([b"refused"])
            except TopicHeldError as error:
                seen.append(type(error))
            async with taking:
                assert await taking.send_many([b"taken over"]) == 1
            yield b"fenced"

        with pytest.raises(ProducerFencedError):
            await old.send_many(source())
        assert seen == [TopicHeldError]
        with pytest.raises(ProducerFencedError):
            await old.send_many([b"fenced for good"])
    assert await stored(client) in ([b"before", b"taken over"], [b"taken over"])


async def test_exclusive_producer_comes_back_with_its_epoch(client: DanubeClient, cuts: list[int]) -> None:
    async with exclusive(client, "p") as producer:
        for _ in range(3):
            assert await producer.send_many(PAYLOADS) == len(PAYLOADS)
    assert len(cuts) > 1


async def test_exclusive_producer_sends_no_single_messages(client: DanubeClient) -> None:
    async with exclusive(client, "p") as producer:
        with pytest.raises(InvalidRequestError, match="sends with send_many"):
            await producer.send(b"x")


async def test_neither_is_there_on_topics_that_are_not_reliable(client: DanubeClient) -> None:
    for made in (
        builder(client).with_deduplication(),
        builder(client).with_access(ProducerAccess.EXCLUSIVE_TAKE_OVER),
    ):
        with pytest.raises(InvalidRequestError, match="only reliable topics"):
            await made.with_dispatch_strategy(DispatchStrategy.NON_RELIABLE).build().create()

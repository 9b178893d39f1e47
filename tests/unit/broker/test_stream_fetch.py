"""Stored batches for readers: by offset and time, hot and cold, with backpressure."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from danube.model.calls.stream import Fetch, FetchedBatch, FetchFrom, FetchTime
from danube.model.errors import (
    InvalidRequestError,
    PreconditionFailedError,
    TopicNotFoundError,
)
from danube.model.limits.stream import FETCH_ANSWER_BYTES
from danube.model.topic import DispatchStrategy, TopicName
from danube.storage.batches.batch import RecordKind, read_header, records
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.peers.stream import StreamPeer, payload_batch


@pytest.fixture
async def streams(cell: Cell) -> AsyncIterator[StreamPeer]:
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    yield StreamPeer(channel)
    await channel.close()


async def fill(peer: StreamPeer, topic: TopicName, batches: int, payload: bytes = b"x") -> list[bytes]:
    """Batches of three; answers their bodies."""
    bodies = [payload_batch(topic, [b"%d-%d" % (n, one) + payload for one in range(3)]) for n in range(batches)]
    line = await peer.opened(topic)
    for sequence, body in enumerate(bodies):
        await line.send(sequence, body)
    await line.stored(batches)
    line.close()
    return bodies


def offsets(batches: Sequence[FetchedBatch]) -> list[int]:
    return [batch.base_offset + at for batch in batches for at in range(batch.first, batch.end)]


async def test_batches_come_back_byte_for_byte(streams: StreamPeer, topic: TopicName) -> None:
    bodies = await fill(streams, topic, 4)
    found = await streams.fetch(Fetch(topic=topic)).rest()
    assert [batch.body for batch in found] == bodies
    assert [(batch.base_offset, batch.count) for batch in found] == [(0, 3), (3, 3), (6, 3), (9, 3)]
    assert offsets(found) == list(range(12))


async def test_single_messages_are_batches_of_messages(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    await cell.client.send(topic, await cell.client.create_producer(topic), b"x")
    (batch,) = await streams.fetch(Fetch(topic=topic)).rest()
    assert read_header(batch.body).kind is RecordKind.MESSAGES


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 12, range(12)),
        (4, 5, range(4, 5)),
        (2, 10, range(2, 10)),
        (3, 6, range(3, 6)),
        (12, None, range(0)),
        (5, 5, range(0)),
        (FetchFrom.LATEST, None, range(0)),
        (FetchFrom.EARLIEST, 4, range(4)),
    ],
)
async def test_range_is_what_is_delivered(
    streams: StreamPeer, topic: TopicName, start: int | FetchFrom, end: int | None, expected: range
) -> None:
    await fill(streams, topic, 4)
    found = await streams.fetch(Fetch(topic=topic, start=start, end=end)).rest()
    assert offsets(found) == list(expected)


@pytest.mark.parametrize(("start", "end"), [(13, None), (2**63, None), (5, 4), (0, 13)])
async def test_offsets_that_are_not_there_are_refused_and_the_valid_ones_named(
    streams: StreamPeer, topic: TopicName, start: int, end: int | None
) -> None:
    await fill(streams, topic, 4)
    with pytest.raises(InvalidRequestError, match="12"):
        await streams.fetch(Fetch(topic=topic, start=start, end=end)).rest()


async def test_topics_without_a_log_are_refused(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await streams.fetch(Fetch(topic=topic)).rest()
    await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    with pytest.raises(PreconditionFailedError, match="not reliable"):
        await streams.fetch(Fetch(topic=topic)).rest()


async def test_time_finds_the_first_batch_appended_then(streams: StreamPeer, topic: TopicName) -> None:
    await fill(streams, topic, 2)
    found = await streams.fetch(Fetch(topic=topic)).rest()
    last_ms = found[-1].append_time_ms
    assert await streams.fetch(Fetch(topic=topic, start=FetchTime(last_ms + 1))).rest() == []
    at_last = await streams.fetch(Fetch(topic=topic, start=FetchTime(last_ms))).rest()
    assert offsets(at_last)[-1] == 5
    assert len(await streams.fetch(Fetch(topic=topic, start=FetchTime(0))).rest()) == 2


async def test_following_reader_gets_what_is_durable_and_ends_at_its_end(streams: StreamPeer, topic: TopicName) -> None:
    await fill(streams, topic, 1)
    reader = streams.fetch(Fetch(topic=topic, start=1, end=5, follow=True))
    assert offsets(await reader.next()) == [1, 2]
    await fill(streams, topic, 1)
    assert offsets(await reader.rest()) == [3, 4]


async def test_bound_of_one_answer_holds_and_a_larger_batch_comes_alone(streams: StreamPeer, topic: TopicName) -> None:
    await fill(streams, topic, 4, bytes(1_000))
    reader = streams.fetch(Fetch(topic=topic, bytes_max=10))
    assert [len(await reader.next()) for _ in range(5)] == [1, 1, 1, 1, 0]
    reader = streams.fetch(Fetch(topic=topic, bytes_max=7_000))
    assert [len(await reader.next()) for _ in range(3)] == [2, 2, 0]


async def test_answers_without_a_bound_leave_turns_to_others(streams: StreamPeer, topic: TopicName) -> None:
    await fill(streams, topic, 20, bytes(50_000))
    reader, sizes = streams.fetch(Fetch(topic=topic)), []
    while batches := await reader.next():
        sizes.append(sum(len(batch.body) for batch in batches))
    assert sum(sizes) > 3_000_000
    assert all(FETCH_ANSWER_BYTES / 2 < size <= FETCH_ANSWER_BYTES for size in sizes[:-1])


async def test_log_is_read_across_files_and_after_a_restart(start_broker: StartBroker, topic: TopicName) -> None:
    settings = {"journal_file_bytes_max": 1024 * 1024, "cache_bytes_max": 1024 * 1024}
    cell = await start_broker(**settings)
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    bodies = await fill(StreamPeer(channel), topic, 40, bytes(50_000))
    assert [batch.body for batch in await StreamPeer(channel).fetch(Fetch(topic=topic)).rest()] == bodies
    await channel.close()
    cell = await start_broker(**settings)
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    found = await StreamPeer(channel).fetch(Fetch(topic=topic)).rest()
    assert [batch.body for batch in found] == bodies
    assert offsets(found) == list(range(120))
    assert records(found[39].body, 2, 3)[0].startswith(b"39-2")
    await channel.close()


async def test_reader_that_does_not_read_holds_little_and_gets_everything_later(
    streams: StreamPeer, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(streams, topic, 80, bytes(100_000))
    readers = [streams.fetch(Fetch(topic=topic)) for _ in range(5)]
    first = [await reader.next() for reader in readers]
    later = [await reader.rest() for reader in readers]
    for begun, rest in zip(first, later, strict=True):
        assert len(begun) <= 11
        assert offsets([*begun, *rest]) == list(range(240))


async def test_deleted_topic_ends_its_followers(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    await fill(streams, topic, 1)
    reader = streams.fetch(Fetch(topic=topic, follow=True))
    await reader.next()
    waiting = asyncio.ensure_future(reader.next())
    await cell.admin.delete_topic(topic)
    with pytest.raises(InvalidRequestError, match="was deleted"):
        await waiting


async def test_reader_that_leaves_is_forgotten(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    await fill(streams, topic, 1)
    reader = streams.fetch(Fetch(topic=topic, follow=True))
    await reader.next()
    reader.close()
    assert await fill(streams, topic, 1)

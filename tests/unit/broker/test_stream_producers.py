"""De-duplication, exclusive producers and who counts as attached, through whole brokers and their streams."""

from collections.abc import AsyncIterator, Callable

import pytest

from danube.client.connection import paths
from danube.model.calls.client import AccessMode, CreateProducer
from danube.model.calls.stream import ProducerAccess, PublishOpen, PublishOpened
from danube.model.errors import (
    DanubeError,
    InvalidBatchError,
    ProducerFencedError,
    SequenceError,
    TopicHeldError,
    TopicNotFoundError,
    UnavailableError,
)
from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX
from danube.model.message import SEQUENCED_BIT, numbering_id
from danube.model.topic import DispatchStrategy, TopicName
from danube.storage.batches.batch import BatchOrigin
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.peers.stream import PublishLine, StreamPeer, payload_batch
from danube.testing.simulated.clock import settle
from danube.wire import client_messages, encode
from danube.wire.status import StatusCode, status_of

KEY = 99
Peer = Callable[[Cell], StreamPeer]


@pytest.fixture
async def peer_of() -> AsyncIterator[Peer]:
    channels = []

    def peer(cell: Cell) -> StreamPeer:
        channels.append(cell.carrier.connect(cell.broker.addresses.broker))
        return StreamPeer(channels[-1])

    yield peer
    for channel in channels:
        await channel.close()


@pytest.fixture
def streams(cell: Cell, peer_of: Peer) -> StreamPeer:
    return peer_of(cell)


async def opened(
    streams: StreamPeer,
    topic: TopicName,
    name: str = "p",
    *,
    key: int = 0,
    access: ProducerAccess = ProducerAccess.SHARED,
    epoch: int = 0,
) -> tuple[PublishLine, PublishOpened]:
    line = streams.publish()
    opening = PublishOpen(
        topic=topic,
        producer_name=name,
        strategy=DispatchStrategy.RELIABLE,
        deduplication_key=key,
        access=access,
        epoch=epoch,
    )
    return line, await line.open_as(opening)


def sequenced(topic: TopicName, first: int, payloads: list[bytes], *, key: int = KEY, name: str = "p") -> bytes:
    origin = BatchOrigin(producer_id=numbering_id(topic, name, key), base_sequence=first)
    return payload_batch(topic, payloads, origin=origin)


# De-duplication


async def test_opening_says_how_to_number(streams: StreamPeer, topic: TopicName) -> None:
    _, answer = await opened(streams, topic, key=KEY)
    assert answer.numbering_id == numbering_id(topic, "p", KEY) >= SEQUENCED_BIT
    assert answer.batches_max == DEDUPLICATION_BATCHES_MAX
    _, plain = await opened(streams, topic)
    assert (plain.numbering_id, plain.batches_max) == (0, 0)


async def test_repeated_batches_are_answered_with_their_first_offsets(streams: StreamPeer, topic: TopicName) -> None:
    bodies = [sequenced(topic, 0, [b"a", b"b"]), sequenced(topic, 2, [b"c"]), sequenced(topic, 3, [b"d"])]
    for sent in (bodies[:2], bodies):
        line, _ = await opened(streams, topic, key=KEY)
        for sequence, body in enumerate(sent):
            await line.send(sequence, body)
        assert await line.stored(len(sent)) == [0, 2, 3][: len(sent)]
        line.close()
    plain = await streams.opened(topic, "other")
    await plain.send(0, payload_batch(topic, [b"next"]))
    assert await plain.stored(1) == [4]


async def test_producer_that_closed_is_listed_no_more_and_what_it_numbered_is_known(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    body = sequenced(topic, 0, [b"a", b"b"])
    for _ in range(2):
        identity = await cell.client.create_producer(topic, "p")
        line, _ = await opened(streams, topic, key=KEY)
        await line.send(0, body)
        assert await line.stored(1) == [0]
        assert [each.client_id for each in (await cell.admin.connections(topic))[0]] == [identity]
        line.close()
        await settle()
        assert await cell.client.call(paths.CLOSE_PRODUCER, client_messages.CLOSE_PRODUCER.encode(identity)) == b""
        assert (await cell.admin.connections(topic))[1] == 0
        assert (await cell.admin.describe(topic))[0].producers == 0


async def test_broker_that_starts_anew_knows_what_it_stored(
    start_broker: StartBroker, peer_of: Peer, topic: TopicName
) -> None:
    for expected in ([0], [0]):
        line, _ = await opened(peer_of(await start_broker()), topic, key=KEY)
        await line.send(0, sequenced(topic, 0, [b"a", b"b"]))
        assert await line.stored(1) == expected
    await line.send(1, sequenced(topic, 2, [b"c"]))
    assert await line.stored(1) == [2]


@pytest.mark.parametrize(
    ("first", "payloads", "words"),
    [
        (3, [b"x"], "begins with record 3, and 2 is the next"),
        (0, [b"other", b"content"], "its content is another"),
        (1, [b"b"], "none of the last"),
    ],
)
async def test_what_neither_follows_nor_repeats_is_refused(
    streams: StreamPeer, topic: TopicName, first: int, payloads: list[bytes], words: str
) -> None:
    line, _ = await opened(streams, topic, key=KEY)
    await line.send(0, sequenced(topic, 0, [b"a", b"b"]))
    await line.stored(1)
    again, _ = await opened(streams, topic, key=KEY)
    await again.send(0, sequenced(topic, first, payloads))
    with pytest.raises(SequenceError, match=words):
        await again.stored(1)


async def test_gap_within_a_stream_is_refused(streams: StreamPeer, topic: TopicName) -> None:
    line, _ = await opened(streams, topic, key=KEY)
    await line.send(0, sequenced(topic, 0, [b"a"]))
    await line.send(1, sequenced(topic, 2, [b"c"]))
    with pytest.raises(SequenceError, match="record 1 was due"):
        await line.stored(2)


async def test_batches_of_another_numbering_are_refused(streams: StreamPeer, topic: TopicName) -> None:
    for key, body in [(KEY, sequenced(topic, 0, [b"a"], key=5)), (KEY, payload_batch(topic, [b"a"]))]:
        line, _ = await opened(streams, topic, key=key)
        await line.send(0, body)
        with pytest.raises(InvalidBatchError, match="not the one that its stream was opened with"):
            await line.stored(1)
    plain = await streams.opened(topic)
    await plain.send(0, sequenced(topic, 0, [b"a"]))
    with pytest.raises(InvalidBatchError, match="without a deduplication_key"):
        await plain.stored(1)


async def test_numbers_of_a_deleted_topic_count_for_nothing(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    line, _ = await opened(streams, topic, key=KEY)
    await line.send(0, sequenced(topic, 0, [b"a"]))
    await line.stored(1)
    await cell.admin.delete_topic(topic)
    await cell.client.create_producer(topic)
    line, _ = await opened(streams, topic, key=KEY)
    await line.send(0, sequenced(topic, 1, [b"b"]))
    with pytest.raises(SequenceError, match="0 is the next"):
        await line.stored(1)


async def test_a_producer_of_a_deleted_topic_does_not_make_it_anew_with_a_stream(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    await opened(streams, topic)
    await cell.admin.delete_topic(topic)
    with pytest.raises(TopicNotFoundError, match="was deleted"):
        await opened(streams, topic)
    await opened(streams, topic, "another")


# Exclusive producers


async def test_second_exclusive_producer_is_refused(streams: StreamPeer, topic: TopicName) -> None:
    line, first = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    with pytest.raises(TopicHeldError, match="producer 'p' has /default/orders for itself"):
        await opened(streams, topic, "q", access=ProducerAccess.EXCLUSIVE)
    await line.send(0, payload_batch(topic, [b"x"]))
    assert (first.epoch, await line.stored(1)) == (1, [0])


async def test_taking_over_fences_who_had_the_topic(streams: StreamPeer, topic: TopicName) -> None:
    line, first = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    await line.send(0, payload_batch(topic, [b"before"]))
    await line.stored(1)
    newer, second = await opened(streams, topic, "q", access=ProducerAccess.EXCLUSIVE_TAKE_OVER)
    assert second.epoch == first.epoch + 1
    with pytest.raises(ProducerFencedError, match="'q' has taken /default/orders over with epoch 2"):
        await line.stored(1)
    await newer.send(0, payload_batch(topic, [b"after"]))
    assert await newer.stored(1) == [1]
    newer.close()
    await settle()
    with pytest.raises(ProducerFencedError, match="had /default/orders with epoch 1, and the newest epoch is 2"):
        await opened(streams, topic, access=ProducerAccess.EXCLUSIVE_TAKE_OVER, epoch=first.epoch)


async def test_fenced_producer_stores_nothing_more(streams: StreamPeer, topic: TopicName) -> None:
    line, _ = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    newer, _ = await opened(streams, topic, "q", access=ProducerAccess.EXCLUSIVE_TAKE_OVER)
    with pytest.raises(DanubeError):
        for sequence in range(3):
            await line.send(sequence, payload_batch(topic, [b"late"]))
        await line.stored(3)
    await newer.send(0, payload_batch(topic, [b"first"]))
    assert await newer.stored(1) == [0]


async def test_epochs_outlive_the_broker(start_broker: StartBroker, peer_of: Peer, topic: TopicName) -> None:
    streams = peer_of(await start_broker())
    _, first = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    _, second = await opened(streams, topic, "q", access=ProducerAccess.EXCLUSIVE_TAKE_OVER)
    streams = peer_of(await start_broker())
    with pytest.raises(ProducerFencedError):
        await opened(streams, topic, access=ProducerAccess.EXCLUSIVE, epoch=first.epoch)
    _, back = await opened(streams, topic, "q", access=ProducerAccess.EXCLUSIVE, epoch=second.epoch)
    assert back.epoch == second.epoch


async def test_exclusive_producer_that_comes_back_replaces_its_own_stream(
    streams: StreamPeer, topic: TopicName
) -> None:
    old, first = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    new, again = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE, epoch=first.epoch)
    assert again.epoch == first.epoch
    with pytest.raises(ProducerFencedError):
        await old.stored(1)
    await settle()
    with pytest.raises(TopicHeldError):  # the end of the old stream has not let go of the topic
        await opened(streams, topic, "q")
    await new.send(0, payload_batch(topic, [b"x"]))
    assert await new.stored(1) == [0]


async def test_epoch_of_another_name_or_never_given_is_fenced(streams: StreamPeer, topic: TopicName) -> None:
    line, first = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    line.close()
    for name, epoch in [("q", first.epoch), ("p", first.epoch + 1)]:
        with pytest.raises(ProducerFencedError):
            await opened(streams, topic, name, access=ProducerAccess.EXCLUSIVE, epoch=epoch)


async def test_shared_producers_are_refused_while_the_topic_is_held(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    single = await cell.client.create_producer(topic, "single")
    line, _ = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    with pytest.raises(TopicHeldError):
        await opened(streams, topic, "other")
    with pytest.raises(TopicHeldError, match="publish when it is gone"):
        await cell.client.send(topic, single, b"x", producer="single")
    with pytest.raises(TopicHeldError):
        await cell.client.create_producer(topic, "late")
    line.close()
    await settle()
    await cell.client.send(topic, single, b"x", producer="single")
    await opened(streams, topic, "other")


def test_refusal_of_a_single_message_is_one_after_which_no_official_client_tries_again() -> None:
    assert status_of(TopicHeldError("")).code is StatusCode.INVALID_ARGUMENT


async def test_exclusive_producer_waits_for_open_streams_or_ends_them(streams: StreamPeer, topic: TopicName) -> None:
    shared, _ = await opened(streams, topic, "shared")
    with pytest.raises(TopicHeldError, match="others publish to"):
        await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    await opened(streams, topic, access=ProducerAccess.EXCLUSIVE_TAKE_OVER)
    with pytest.raises(ProducerFencedError):
        await shared.stored(1)


async def test_single_messages_of_a_producer_that_says_exclusive_are_refused_as_all_others(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    call = CreateProducer(
        request_id=1,
        topic=topic,
        producer_name="java",
        strategy=DispatchStrategy.RELIABLE,
        access_mode=AccessMode.EXCLUSIVE,
    )
    created = client_messages.PRODUCER_CREATED.decode(
        await cell.client.call(paths.CREATE_PRODUCER, client_messages.CREATE_PRODUCER.encode(call))
    )
    with pytest.raises(TopicHeldError):
        await cell.client.send(topic, created.producer_id, b"x", producer="java")


# Who counts


async def producers_of(cell: Cell, topic: TopicName) -> int:
    await settle()
    (described,) = await cell.admin.describe(topic)
    return described.producers


async def test_producer_of_a_stream_goes_when_it_ends(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    one, _ = await opened(streams, topic, "one")
    again, _ = await opened(streams, topic, "one")
    other, _ = await opened(streams, topic, "other")
    assert await producers_of(cell, topic) == 2
    one.close()
    assert await producers_of(cell, topic) == 2
    again.close()
    await other.stream.half_close()
    assert await producers_of(cell, topic) == 0


async def test_producer_of_single_messages_stays_when_its_stream_ends(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    identity = await cell.client.create_producer(topic, "p")
    line, _ = await opened(streams, topic, "p")
    line.close()
    assert await producers_of(cell, topic) == 1
    await cell.client.send(topic, identity, b"x", producer="p")


async def test_stream_that_is_half_closed_while_it_opens_leaves_nobody_behind(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    line = streams.publish()
    opening = PublishOpen(
        topic=topic, producer_name="p", strategy=DispatchStrategy.RELIABLE, access=ProducerAccess.EXCLUSIVE
    )
    await line.stream.send(encode.publish_open(opening))
    await line.stream.half_close()
    assert isinstance(await line.answer(), PublishOpened)
    with pytest.raises(UnavailableError, match="the stream ended"):
        await line.answer()
    assert await producers_of(cell, topic) == 0
    await opened(streams, topic, "other")


async def test_refused_opening_leaves_nobody_behind(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    line, _ = await opened(streams, topic, access=ProducerAccess.EXCLUSIVE)
    with pytest.raises(TopicHeldError):
        await opened(streams, topic, "q", access=ProducerAccess.EXCLUSIVE)
    assert await producers_of(cell, topic) == 1
    line.close()
    assert await producers_of(cell, topic) == 0

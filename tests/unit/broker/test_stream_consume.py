"""Streaming consumers: whole batches down, ranges of answers up, credit in bytes, events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.model.calls.consume import ConsumeAssigned, ConsumeFenced, ConsumeMoved, NackedRange
from danube.model.calls.stream import FetchedBatch, FetchFrom
from danube.model.errors import (
    ConsumerReplacedError,
    InvalidRequestError,
    PreconditionFailedError,
    SubscriptionBusyError,
    TopicNotFoundError,
    UnavailableError,
)
from danube.model.ranges import OffsetRange
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.tasks import TaskScope
from danube.storage.batches.batch import BatchOrigin, check, records
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.stream import ConsumeLine, StreamPeer, payload_batch

EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = (
    SubscriptionType.EXCLUSIVE,
    SubscriptionType.SHARED,
    SubscriptionType.FAILOVER,
    SubscriptionType.KEY_SHARED,
)
ONE_BATCH = 1
"""Credit that is used up by any batch."""


@pytest.fixture
async def streams(cell: Cell) -> AsyncIterator[StreamPeer]:
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    yield StreamPeer(channel)
    await channel.close()


async def publish(peer: StreamPeer, topic: TopicName, batches: int, count: int = 10, size: int = 8) -> list[bytes]:
    """Batches of `count` payloads; answers their bodies."""
    bodies = [payload_batch(topic, [b"%d-%d".ljust(size) % (n, one) for one in range(count)]) for n in range(batches)]
    line = await peer.opened(topic)
    for sequence, body in enumerate(bodies):
        await line.send(sequence, body)
    await line.stored(batches)
    line.close()
    return bodies


def subscription_of(cell: Cell, topic: TopicName) -> ReliableSubscription:
    (subscription,) = cell.broker.moves.topics.get(topic).subscriptions.values()
    assert isinstance(subscription, ReliableSubscription)
    subscription.driver.engine.validate()
    return subscription


def position(cell: Cell, topic: TopicName) -> int:
    return subscription_of(cell, topic).driver.engine.position


async def event(line: ConsumeLine, kind: type) -> None:
    """Return when the consumer is told."""
    while not any(isinstance(each, kind) for each in line.events):
        await line.answer()


async def test_batches_come_as_they_are_stored_and_a_range_acknowledges_them(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    bodies = await publish(streams, topic, 3)
    line = await streams.consuming(topic, type=EXCLUSIVE)
    found: list[FetchedBatch] = []
    while len(found) < 3:
        found += await line.batches()
    assert [each.body for each in found] == bodies
    await line.acknowledge((0, 25))
    assert position(cell, topic) == 25
    await line.update(acknowledged_below=30)
    assert position(cell, topic) == 30


async def test_range_takes_no_message_that_waits_to_be_written(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    await publish(streams, topic, 4)
    line = await streams.consuming(topic, type=EXCLUSIVE, credit_bytes=ONE_BATCH)
    assert await line.spans(10) == [(0, 10)]
    await line.acknowledge((0, 40))
    assert position(cell, topic) == 10
    await line.update(acknowledged_below=40)
    assert position(cell, topic) == 10
    await line.update(credit_bytes=1_000_000)
    assert await line.spans(30) == [(10, 20), (20, 30), (30, 40)]


async def test_range_takes_no_message_that_is_on_its_way(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    await publish(streams, topic, 2)
    line = await streams.consuming(topic, type=EXCLUSIVE)
    await line.spans(20)
    seen, line.answers_seen = line.answers_seen, 0  # as if the batches had not arrived yet
    await line.update(acknowledged_below=20, acknowledged=(OffsetRange(0, 20),))
    assert position(cell, topic) == 0
    line.answers_seen = seen
    await line.acknowledge((0, 20))
    assert position(cell, topic) == 20


async def test_range_takes_no_message_of_another_consumer(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    await publish(streams, topic, 4)
    one = await streams.consuming(topic, "one", credit_bytes=ONE_BATCH)
    assert await one.spans(10) == [(0, 10)]
    two = await streams.consuming(topic, "two")
    assert await two.spans(30) == [(10, 20), (20, 30), (30, 40)]
    await one.update(acknowledged_below=40)
    assert position(cell, topic) == 10
    assert subscription_of(cell, topic).driver.engine.lag == 30


async def test_credit_bounds_what_is_sent(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    bodies = await publish(streams, topic, 20)
    line = await streams.consuming(topic, credit_bytes=3 * len(bodies[0]) - 1)
    assert await line.spans(30) == [(0, 10), (10, 20), (20, 30)]
    await line.update()
    assert subscription_of(cell, topic).driver.engine.in_flight == 30
    await line.update(credit_bytes=len(bodies[0]))
    assert await line.spans(10) == [(30, 40)]


async def test_shared_consumer_without_credit_holds_no_batch(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    bodies = await publish(streams, topic, 4)
    without = await streams.consuming(topic, "without", credit_bytes=0)
    used_up = await streams.consuming(topic, "used up", credit_bytes=ONE_BATCH)
    assert await used_up.spans(10) == [(0, 10)]
    other = await streams.consuming(topic, "other")
    assert await other.spans(30) == [(10, 20), (20, 30), (30, 40)]
    assert subscription_of(cell, topic).driver.engine.in_flight == 40
    await other.update(close=True)
    await without.update(credit_bytes=3 * len(bodies[0]))
    assert sorted(await without.spans(30)) == [(10, 20), (20, 30), (30, 40)]


async def test_shared_consumers_get_whole_batches_in_turn(streams: StreamPeer, topic: TopicName) -> None:
    one, two = [await streams_before(streams, topic, name) for name in ("one", "two")]
    await publish(streams, topic, 6)
    spans = [await asyncio.wait_for(line.spans(30), PATIENCE_S) for line in (one, two)]
    assert sorted(spans[0] + spans[1]) == [(n, n + 10) for n in range(0, 60, 10)]


async def streams_before(streams: StreamPeer, topic: TopicName, name: str) -> ConsumeLine:
    """A consumer of a topic that is created if need be."""
    (await streams.opened(topic)).close()
    return await streams.consuming(topic, name)


async def test_legacy_and_streaming_consumers_share_a_subscription(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    line = await streams_before(streams, topic, "streaming")
    inbox = await cell.client.receive(await cell.client.subscribe(topic, "sub", "legacy", SHARED))
    await publish(streams, topic, 3)
    got: set[int] = set()

    async def read_messages() -> None:
        message = await inbox.next()
        got.add(message.offset)
        await cell.client.acknowledge(topic, message.offset, "sub")

    async def read_batches() -> None:
        spans = await line.spans(1)
        got.update(offset for span in spans for offset in range(*span))
        await line.acknowledge(*spans)

    await until(lambda: position(cell, topic) == 30, read_messages, read_batches)
    assert got == set(range(30))


async def until(reached: Callable[[], bool], *steps: Callable[[], Awaitable[None]]) -> None:
    """Repeat each step beside the others until the state is reached."""
    done = asyncio.Event()

    async def repeat(step: Callable[[], Awaitable[None]]) -> None:
        while not reached():
            await step()
        done.set()

    scope = TaskScope("readers")
    try:
        async with asyncio.timeout(PATIENCE_S):
            for step in steps:
                scope.spawn(repeat(step), "reader")
            await done.wait()
    finally:
        await scope.close()


async def test_nacked_range_comes_again_as_a_part_of_its_batch(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    (body,) = await publish(streams, topic, 1, count=100, size=100)
    line = await streams.consuming(topic)
    await line.spans(100)
    await line.update(acknowledged=(OffsetRange(0, 40), OffsetRange(42, 100)), nacked=(NackedRange(40, 42, 0.0, "no"),))
    (part,) = await asyncio.wait_for(line.batches(), PATIENCE_S)
    assert (part.base_offset, part.count, part.first, part.end) == (40, 2, 0, 2)
    assert check(part.body).base_sequence == 40
    assert records(part.body, 0, 2) == records(body, 40, 42)
    await line.acknowledge((40, 42))
    assert position(cell, topic) == 100
    assert subscription_of(cell, topic).nacked == 2


async def test_broken_stream_returns_what_was_not_acknowledged_and_late_answers_still_count(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    await publish(streams, topic, 2)
    first = await streams.consuming(topic, type=EXCLUSIVE)
    await first.spans(20)
    await first.acknowledge((0, 5))
    first.close()
    second = await streams.consuming(topic, type=EXCLUSIVE)
    assert await second.spans(15) == [(5, 10), (10, 20)]
    second.answers_seen = 0  # the application had these from the first stream
    await second.acknowledge((5, 8), (12, 20))
    assert position(cell, topic) == 8
    assert subscription_of(cell, topic).driver.engine.lag == 4


async def test_consumer_that_closes_gives_back_without_a_failure(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    await publish(streams, topic, 1)
    line = await streams.consuming(topic)
    await line.spans(10)
    await line.update(acknowledged_below=3, close=True)
    with pytest.raises(UnavailableError, match="ended"):
        await line.answer()
    engine = subscription_of(cell, topic).driver.engine
    assert (engine.position, engine.in_flight, engine.cursor.failed) == (3, 0, ())


async def test_failover_tells_who_gets_messages(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    await publish(streams, topic, 1)
    active = await streams.consuming(topic, "active", type=FAILOVER)
    standby = await streams.consuming(topic, "standby", type=FAILOVER)
    await active.spans(10)
    await standby.update()
    assert [type(each) for each in active.events] == [ConsumeAssigned]
    assert standby.events == []
    active.close()
    await asyncio.wait_for(event(standby, ConsumeAssigned), PATIENCE_S)
    assert await standby.spans(10) == [(0, 10)]


async def test_second_client_of_a_name_fences_the_first(streams: StreamPeer, topic: TopicName) -> None:
    first = await streams_before(streams, topic, "one")
    await streams.consuming(topic, "one")
    await asyncio.wait_for(event(first, ConsumeFenced), PATIENCE_S)
    assert isinstance(
        next(each.error for each in first.events if isinstance(each, ConsumeFenced)), ConsumerReplacedError
    )
    with pytest.raises(UnavailableError, match="ended"):
        await first.answer()


async def test_exclusive_subscription_refuses_a_second_consumer(streams: StreamPeer, topic: TopicName) -> None:
    await publish(streams, topic, 1)
    await streams.consuming(topic, "one", type=EXCLUSIVE)
    with pytest.raises(SubscriptionBusyError):
        await streams.consuming(topic, "two", type=EXCLUSIVE)


async def test_move_tells_the_consumer_to_go(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    line = await streams_before(streams, topic, "one")
    await cell.broker.moves.unload(topic)
    await cell.broker.moves.open_again(topic)
    async with asyncio.timeout(PATIENCE_S):
        while not any(isinstance(each, ConsumeMoved) for each in line.events):
            try:
                await line.answer()
            except UnavailableError:
                break
    assert any(isinstance(each, ConsumeMoved) for each in line.events)


async def test_key_shared_consumers_get_the_messages_of_their_keys_in_order(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    lines = [await key_consumer(streams, topic, name) for name in ("one", "two")]
    origin = BatchOrigin(producer_id=1)
    line = await streams.opened(topic)
    for key in range(6):
        await line.send(key, payload_batch(topic, [b"x"] * 5, producer=f"p{key}", origin=origin))
    await line.stored(6)
    seen: list[list[int]] = [[], []]

    def reading(index: int) -> Callable[[], Awaitable[None]]:
        async def read() -> None:
            spans = await lines[index].spans(1)
            seen[index] += [offset for span in spans for offset in range(*span)]
            await lines[index].acknowledge(*spans)

        return read

    await until(lambda: position(cell, topic) == 30, reading(0), reading(1))
    assert sorted(seen[0] + seen[1]) == list(range(30))
    for key in range(6):
        owners = [[each for each in mine if each // 5 == key] for mine in seen]
        assert [] in owners
        assert all(mine == sorted(mine) for mine in owners)


async def key_consumer(streams: StreamPeer, topic: TopicName, name: str) -> ConsumeLine:
    (await streams.opened(topic)).close()
    return await streams.consuming(topic, name, type=KEY_SHARED)


@pytest.mark.parametrize(("start", "expected"), [(FetchFrom.EARLIEST, (0, 10)), (13, (13, 20))])
async def test_new_subscription_begins_where_it_is_asked_to(
    streams: StreamPeer, topic: TopicName, start: int | FetchFrom, expected: tuple[int, int]
) -> None:
    await publish(streams, topic, 2)
    line = await streams.consuming(topic, start=start)
    assert (await line.spans(1))[0] == expected


async def test_wrong_requests_are_refused(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await streams.consuming(topic)
    await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    with pytest.raises(PreconditionFailedError, match="not reliable"):
        await streams.consuming(topic)
    line = streams.consume()
    with pytest.raises(InvalidRequestError, match="before the stream was opened"):
        await line.update()


async def test_seek_makes_earlier_answers_void(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    await publish(streams, topic, 2)
    line = await streams.consuming(topic)
    await line.spans(20)
    old = line.generation
    await cell.admin.seek(topic, FetchFrom.EARLIEST, "sub")
    await line.spans(20)
    await line.update(generation=old, acknowledged_below=20)
    assert position(cell, topic) == 0
    await line.update(acknowledged_below=20)
    assert position(cell, topic) == 20


async def test_restart_delivers_what_was_not_acknowledged(
    start_broker: StartBroker, cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    await publish(streams, topic, 2)
    line = await streams.consuming(topic)
    await line.spans(20)
    await line.acknowledge((0, 3), (10, 20))
    again = await start_broker()
    channel = again.carrier.connect(again.broker.addresses.broker)
    found = await (await StreamPeer(channel).consuming(topic)).spans(7)
    assert found == [(3, 10)]
    await channel.close()

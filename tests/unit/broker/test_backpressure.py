import asyncio

from danube.model.limits.broker import NON_RELIABLE_QUEUE_MESSAGES_MAX, STREAM_QUEUE_BYTES_MAX
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S

BLOCK = bytes(64 * 1024)
MORE_THAN_A_STREAM_HOLDS = 3 * STREAM_QUEUE_BYTES_MAX // len(BLOCK)


async def test_consumer_that_stops_reading_gets_the_rest_when_it_reads_again(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(max_unacked_messages=10_000)
    producer = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    for _ in range(MORE_THAN_A_STREAM_HOLDS):
        await cell.client.send(topic, producer, BLOCK)
    got = await inbox.take(MORE_THAN_A_STREAM_HOLDS)
    assert [message.offset for message in got] == list(range(MORE_THAN_A_STREAM_HOLDS))


async def test_consumer_that_stops_reading_stalls_no_other_of_a_shared_subscription(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(max_unacked_messages=10_000)
    producer = await cell.client.create_producer(topic)
    shared = SubscriptionType.SHARED
    stuck = await cell.client.receive(await cell.client.subscribe(topic, "s", "stuck", shared))
    busy = await cell.client.receive(await cell.client.subscribe(topic, "s", "busy", shared))
    got: set[int] = set()

    async def read() -> None:
        while len(got) < 2 * MORE_THAN_A_STREAM_HOLDS:
            got.add((await busy.next()).offset)

    for _ in range(4 * MORE_THAN_A_STREAM_HOLDS):
        await cell.client.send(topic, producer, BLOCK)
    async with asyncio.timeout(PATIENCE_S):
        await read()
    stuck.close()
    missing = set(range(4 * MORE_THAN_A_STREAM_HOLDS)) - got
    async with asyncio.timeout(PATIENCE_S):
        while missing:
            missing.discard((await busy.next()).offset)


async def test_non_reliable_messages_beyond_the_queue_are_dropped_and_counted(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    consumer = await cell.client.subscribe(topic)
    for index in range(NON_RELIABLE_QUEUE_MESSAGES_MAX + 5):
        await cell.client.send(topic, producer, str(index).encode())
    inbox = await cell.client.receive(consumer)
    got = await inbox.take(NON_RELIABLE_QUEUE_MESSAGES_MAX)
    assert [int(message.payload) for message in got] == list(range(NON_RELIABLE_QUEUE_MESSAGES_MAX))
    await cell.client.send(topic, producer, b"room again")
    assert (await inbox.next()).payload == b"room again"


async def test_shared_non_reliable_consumer_without_room_is_passed_over(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    shared = SubscriptionType.SHARED
    await cell.client.subscribe(topic, "s", "never opens", shared)
    inbox = await cell.client.receive(await cell.client.subscribe(topic, "s", "reads", shared))
    total = 3 * NON_RELIABLE_QUEUE_MESSAGES_MAX
    read = 0
    for index in range(total):
        await cell.client.send(topic, producer, str(index).encode())
        if index % 2 or read + NON_RELIABLE_QUEUE_MESSAGES_MAX < index:
            await inbox.next()
            read += 1
    assert read + NON_RELIABLE_QUEUE_MESSAGES_MAX <= total

"""Topics whose journal is cut while they leave and come back, are deleted and made anew, or the broker starts again."""

import asyncio

import pytest

from danube.model.calls.stream import FetchFrom
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from tests.unit.broker.keeper import Keeper
from tests.unit.storage.store.storage_world import flush_all

PAYLOAD = b"x" * 300


@pytest.fixture
async def cell(keepers: list[Keeper], start_broker: StartBroker) -> Cell:
    return await start_broker(telemetry_interval_s=0)


async def fill(cell: Cell, topic: TopicName, first: int, count: int = 20) -> None:
    producer = await cell.client.create_producer(topic)
    for number in range(first, first + count):
        await cell.client.send(topic, producer, b"%d " % number + PAYLOAD)


async def take(cell: Cell, topic: TopicName, count: int, *, acknowledged: bool = True) -> list[int]:
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    found: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            message = await inbox.next()
            found.append(int(message.payload.split()[0]))
            if acknowledged:
                await cell.client.acknowledge(topic, message.offset)
    inbox.close()
    return found


async def test_a_topic_that_is_cut_while_it_is_away_comes_back_whole(
    keepers: list[Keeper], cell: Cell, topic: TopicName
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    await fill(cell, topic, 0)
    assert await take(cell, topic, 5) == list(range(5))
    await cell.broker.moves.unload(topic)
    await flush_all(keepers[-1].storage)
    await cell.broker.moves.open_again(topic)
    await fill(cell, topic, 20)
    assert await take(cell, topic, 35) == list(range(5, 40))


async def test_unacknowledged_messages_come_from_segments_after_a_restart(
    keepers: list[Keeper], cell: Cell, start_broker: StartBroker, topic: TopicName
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    await fill(cell, topic, 0)
    assert await take(cell, topic, 7) == list(range(7))
    await flush_all(keepers[-1].storage)
    cell = await start_broker(telemetry_interval_s=0)
    assert await take(cell, topic, 13) == list(range(7, 20))
    await flush_all(keepers[-1].storage)
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic, 20, count=1)
    assert await take(cell, topic, 1) == [20]


async def test_a_topic_made_anew_under_a_name_begins_empty_whatever_is_left_of_the_former(
    keepers: list[Keeper], cell: Cell, start_broker: StartBroker, topic: TopicName
) -> None:
    await fill(cell, topic, 0)
    await flush_all(keepers[-1].storage)
    former = keepers[-1].folder(cell.settings.data_dir, topic)
    await cell.admin.delete_topic(topic)
    await cell.admin.create_topic(topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    await fill(cell, topic, 100)
    await flush_all(keepers[-1].storage)
    await keepers[-1].storage.sweep_deleted()
    assert not former.exists()
    cell = await start_broker(telemetry_interval_s=0)
    assert await take(cell, topic, 20) == list(range(100, 120))


async def test_a_subscription_that_is_deleted_does_not_come_back_with_a_manifest(
    keepers: list[Keeper], cell: Cell, start_broker: StartBroker, topic: TopicName
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    await fill(cell, topic, 0)
    await flush_all(keepers[-1].storage)
    await cell.admin.unsubscribe(topic)
    cell = await start_broker(telemetry_interval_s=0)
    assert await cell.admin.subscriptions(topic) == ()
    found = keepers[-1].topics.find(str(topic))
    assert found is not None
    assert keepers[-1].storage.journal.snapshot(found.record.topic_id).cursors == {}
    await cell.admin.create_subscription(topic, start=15)
    assert await take(cell, topic, 5) == list(range(15, 20))

import asyncio
import shutil
from pathlib import Path

import pytest

from danube.broker.app import Broker
from danube.model.errors import (
    DamagedDataError,
    DataFolderError,
    DataFolderInUseError,
    ShuttingDownError,
    UnavailableError,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker


async def test_everything_is_there_after_a_restart(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    for index in range(6):
        await cell.client.send(topic, producer, str(index).encode())
    await inbox.take(6)
    for offset in (0, 1, 2, 4):
        await cell.client.acknowledge(topic, offset)
    cell = await start_broker()
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.send(topic, producer, b"6")
    assert [(message.offset, message.payload) for message in await inbox.take(3)] == [(3, b"3"), (5, b"5"), (6, b"6")]


async def test_running_clients_go_on_after_a_restart_without_attaching_again(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic, kind=SubscriptionType.SHARED)
    cell = await start_broker()
    inbox = await cell.client.receive(consumer)
    await cell.client.send(topic, producer, b"still here")
    assert (await inbox.next()).payload == b"still here"


async def test_messages_sent_before_the_first_acknowledgement_survive(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    for index in range(3):
        await cell.client.send(topic, producer, str(index).encode())
    cell = await start_broker()
    inbox = await cell.client.receive(consumer)
    assert [message.payload for message in await inbox.take(3)] == [b"0", b"1", b"2"]


async def test_non_reliable_topics_and_their_subscriptions_come_back_too(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    consumer = await cell.client.subscribe(topic)
    cell = await start_broker()
    inbox = await cell.client.receive(consumer)
    await cell.client.send(topic, producer, b"x")
    assert (await inbox.next()).payload == b"x"


async def test_stopping_ends_streams_so_that_clients_come_back(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    stopping = asyncio.ensure_future(cell.broker.stop())
    with pytest.raises(ShuttingDownError):
        await inbox.next()
    await stopping


async def test_messages_under_way_while_it_stops_are_answered_one_way_or_the_other(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    sends = [asyncio.ensure_future(cell.client.send(topic, producer, str(index).encode())) for index in range(50)]
    await sends[0]
    await cell.broker.stop()
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert all(isinstance(outcome, int | UnavailableError) for outcome in outcomes)
    acknowledged = sum(isinstance(outcome, int) for outcome in outcomes)
    cell = await start_broker(max_unacked_messages=100)
    inbox = await cell.client.receive(consumer)
    assert len(await inbox.take(acknowledged)) == acknowledged


async def test_second_broker_on_the_same_folder_refuses_to_start(cell: Cell) -> None:
    with pytest.raises(DataFolderInUseError, match="in use by another broker"):
        await Broker.start(cell.settings)


async def test_folder_whose_metadata_is_missing_is_refused(
    start_broker: StartBroker, topic: TopicName, tmp_path: Path
) -> None:
    cell = await start_broker()
    await cell.client.create_producer(topic)
    await cell.broker.stop()
    await asyncio.to_thread(shutil.rmtree, tmp_path / "data" / "raft")
    with pytest.raises(DamagedDataError, match="restore that folder"):
        await start_broker()


async def test_a_folder_with_metadata_in_sqlite_is_refused_and_left_alone(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    former = tmp_path / "data" / "metadata.sqlite3"
    former.parent.mkdir()
    former.write_bytes(b"SQLite format 3")
    with pytest.raises(DataFolderError, match=r"kept its metadata in SQLite.*choose another folder with --data-dir"):
        await start_broker()
    assert {path.name for path in former.parent.iterdir()} <= {"metadata.sqlite3", "lock", "reserve"}


async def test_damaged_identity_is_refused_and_left_alone(start_broker: StartBroker, tmp_path: Path) -> None:
    cell = await start_broker()
    await cell.broker.stop()
    (tmp_path / "data" / "broker.json").write_text("{")
    with pytest.raises(DamagedDataError, match="is damaged"):
        await start_broker()
    assert (tmp_path / "data" / "broker.json").read_text() == "{"


async def test_folder_of_another_format_is_refused(start_broker: StartBroker, tmp_path: Path) -> None:
    cell = await start_broker()
    await cell.broker.stop()
    (tmp_path / "data" / "broker.json").write_text('{"format": 99, "broker_id": "1"}')
    with pytest.raises(DataFolderError, match="another version"):
        await start_broker()

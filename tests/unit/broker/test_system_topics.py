"""Topics of the namespace `system` on a whole broker: anybody reads them, and brokers alone write them."""

from collections.abc import AsyncIterator

import pytest

from danube.model.calls.stream import Fetch, FetchFrom, ProducerAccess, PublishOpen
from danube.model.errors import (
    InvalidRequestError,
    NotPermittedError,
    PreconditionFailedError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.message import producer_id
from danube.model.records.analytics import ANALYTICS_TOPIC, LAG_JOB, RunWriter, encode_record
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.peers.stream import StreamPeer, payload_batch

SYSTEM_TOPICS = (
    TELEMETRY_TOPIC,
    TELEMETRY_TOPIC.partition(0),
    AUDIT_TOPIC,
    TopicName("system", "new"),
    ANALYTICS_TOPIC.partition(0),
)
BRACKETS = b"[" * 100_000
WRITER = RunWriter(run_id="nightly", attempt="a", job=LAG_JOB)
RESULT = encode_record(WRITER.started(1, as_of_ms=1, time_limit_s=10, window={}))


@pytest.fixture
async def cell(start_broker: StartBroker) -> Cell:
    return await start_broker(telemetry_interval_s=3_600)


@pytest.fixture
async def streams(cell: Cell) -> AsyncIterator[StreamPeer]:
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    yield StreamPeer(channel)
    await channel.close()


@pytest.mark.parametrize("name", SYSTEM_TOPICS, ids=str)
async def test_no_client_publishes_to_a_system_topic_by_any_call(
    cell: Cell, streams: StreamPeer, name: TopicName
) -> None:
    before = [info.topic for info in await cell.admin.topics("system")]
    for strategy in DispatchStrategy:
        with pytest.raises(NotPermittedError, match="which brokers write alone"):
            await cell.client.create_producer(name, strategy=strategy)
    with pytest.raises(NotPermittedError, match="which brokers write alone"):
        await streams.publish().open(name)
    error = NotPermittedError if name in before else TopicNotServedError  # it is not there
    with pytest.raises(error):
        await cell.client.send(name, producer_id(name, "producer"), BRACKETS)
    assert [info.topic for info in await cell.admin.topics("system")] == before


@pytest.mark.parametrize("name", [*SYSTEM_TOPICS, ANALYTICS_TOPIC], ids=str)
async def test_no_administrator_makes_a_system_topic(cell: Cell, name: TopicName) -> None:
    for strategy in DispatchStrategy:
        with pytest.raises(NotPermittedError, match="use another namespace"):
            await cell.admin.create_topic(name, strategy)
    with pytest.raises(NotPermittedError, match="use another namespace"):
        await cell.admin.create_partitioned_topic(name, 2)
    with pytest.raises(NotPermittedError, match="use another namespace"):
        await cell.admin.add_partitions(name, 1)


async def test_what_takes_something_of_a_system_topic_away_takes_a_plan(cell: Cell) -> None:
    inbox = await cell.client.receive(await cell.client.subscribe(TELEMETRY_TOPIC, "watcher"))
    inbox.close()
    with pytest.raises(PreconditionFailedError, match="plan unsubscribe"):
        await cell.admin.unsubscribe(TELEMETRY_TOPIC, "watcher")
    with pytest.raises(PreconditionFailedError, match="plan delete_topic"):
        await cell.admin.delete_topic(TELEMETRY_TOPIC)
    assert await cell.admin.subscriptions(TELEMETRY_TOPIC) == ("watcher",)
    await cell.admin.apply(await cell.admin.plan("delete_topic", topic=str(TELEMETRY_TOPIC)))
    with pytest.raises(TopicNotFoundError):
        await cell.admin.subscriptions(TELEMETRY_TOPIC)


async def test_jobs_publish_results_message_by_message_and_in_batches(cell: Cell, streams: StreamPeer) -> None:
    producer = await cell.client.create_producer(ANALYTICS_TOPIC)
    await cell.client.send(ANALYTICS_TOPIC, producer, RESULT)
    line = await streams.opened(ANALYTICS_TOPIC)
    await line.send(0, payload_batch(ANALYTICS_TOPIC, [RESULT, RESULT]))
    assert await line.stored(1) == [1]
    batches = await streams.fetch(Fetch(topic=ANALYTICS_TOPIC, start=FetchFrom.EARLIEST, end=3)).rest()
    assert sum(batch.end - batch.first for batch in batches) == 3


@pytest.mark.parametrize("payload", [BRACKETS, b"", b"\xff", b"{}", RESULT.replace(b"10", b"1e999")])
async def test_what_is_no_result_is_not_stored_among_results(cell: Cell, streams: StreamPeer, payload: bytes) -> None:
    producer = await cell.client.create_producer(ANALYTICS_TOPIC)
    with pytest.raises(InvalidRequestError, match="records of results alone"):
        await cell.client.send(ANALYTICS_TOPIC, producer, payload)
    line = await streams.opened(ANALYTICS_TOPIC)
    await line.send(0, payload_batch(ANALYTICS_TOPIC, [RESULT, payload]))
    with pytest.raises(InvalidRequestError, match="records of results alone"):
        await line.stored(1)
    (described,) = await cell.admin.describe(ANALYTICS_TOPIC)
    assert described.end_offset == 0


async def test_no_producer_keeps_other_jobs_from_publishing_results(cell: Cell, streams: StreamPeer) -> None:
    with pytest.raises(NotPermittedError, match="shared"):
        await cell.client.create_producer(ANALYTICS_TOPIC, strategy=DispatchStrategy.NON_RELIABLE)
    for access in ProducerAccess:
        if access is not ProducerAccess.SHARED:
            opening = PublishOpen(
                topic=ANALYTICS_TOPIC, producer_name="p", strategy=DispatchStrategy.RELIABLE, access=access
            )
            with pytest.raises(NotPermittedError, match="shared"):
                await streams.publish().open_as(opening)
    assert await cell.client.create_producer(ANALYTICS_TOPIC)


async def test_results_outlive_a_restart_and_are_judged_after_it(start_broker: StartBroker) -> None:
    cell = await start_broker()
    await cell.client.send(ANALYTICS_TOPIC, await cell.client.create_producer(ANALYTICS_TOPIC), RESULT)
    cell = await start_broker()
    producer = producer_id(ANALYTICS_TOPIC, "producer")
    await cell.client.send(ANALYTICS_TOPIC, producer, RESULT)
    with pytest.raises(InvalidRequestError, match="records of results alone"):
        await cell.client.send(ANALYTICS_TOPIC, producer, BRACKETS)

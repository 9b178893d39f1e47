"""Messages that a broker keeps no longer: what goes, what stays, and what those see who come for what is gone."""

import asyncio
from typing import Any

import pytest

from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import Records
from danube.metadata.records.storage import StorageRecords
from danube.model.calls.stream import Fetch, FetchFrom, FetchTime
from danube.model.errors import DanubeError, OffsetTrimmedError, StorageUnavailableError, UnknownOutcomeError
from danube.model.policies import NO_LIMITS
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.runtime.clock import SystemClock
from danube.storage.store import Storage
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.stream import StreamPeer
from tests.unit.broker.keeper import Keeper
from tests.unit.broker.test_audit_log import ENTRY
from tests.unit.storage.store.storage_world import flush_all

MESSAGES = 60
PAYLOAD = b"x" * 400


async def fill(cell: Cell, topic: TopicName, count: int = MESSAGES, first: int = 0) -> None:
    producer = await cell.client.create_producer(topic)
    for number in range(first, first + count):
        await cell.client.send(topic, producer, b"%d " % number + PAYLOAD)


async def numbers(cell: Cell, topic: TopicName, count: int, kind: SubscriptionType) -> list[int]:
    inbox = await cell.client.receive(await cell.client.subscribe(topic, kind=kind))
    found: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            message = await inbox.next()
            found.append(int(message.payload.split()[0]))
            await cell.client.acknowledge(topic, message.offset)
    return found


async def start_of(cell: Cell, topic: TopicName) -> int:
    (described,) = await cell.admin.describe(topic)
    return described.start_offset


async def test_what_nobody_needs_any_more_goes_when_a_topic_has_too_much(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    await fill(cell, topic)
    assert await keepers[-1].let_go() > 0
    (described,) = await cell.admin.describe(topic)
    assert described.storage is not None
    assert 0 < described.start_offset < described.end_offset == MESSAGES
    assert 5_000 < described.storage.stored_bytes <= 10_000
    assert described.storage.segments > 0
    assert (await cell.admin.describe_broker()).storage.dropped_segments > 0  # type: ignore[union-attr]


async def test_what_a_subscription_has_not_read_stays(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    await fill(cell, topic, 30)
    await cell.admin.create_subscription(topic, start=20)
    await fill(cell, topic, 30, first=30)
    await keepers[-1].let_go()
    assert 0 < await start_of(cell, topic) <= 20
    assert await numbers(cell, topic, 40, SubscriptionType.EXCLUSIVE) == list(range(20, 60))


async def test_a_subscription_that_is_put_back_is_asked_where_it_goes(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    await fill(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.LATEST)
    await cell.admin.seek(topic, 0)
    assert await keepers[-1].let_go() == 0
    assert await start_of(cell, topic) == 0


@pytest.mark.parametrize("change", ["create_subscription", "set_jump"])
async def test_retention_sees_a_subscription_that_is_on_its_way_to_its_place(
    change: str,
    keepers: list[Keeper],
    start_broker: StartBroker,
    topic: TopicName,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    await fill(cell, topic)
    if change == "set_jump":
        await cell.admin.create_subscription(topic, start=FetchFrom.LATEST)
    original, dropped = getattr(Records, change), []

    async def slow(self: Records, *arguments: Any, **named: Any) -> Any:
        dropped.append(await keepers[-1].let_go())  # while the metadata store takes its time
        return await original(self, *arguments, **named)

    monkeypatch.setattr(Records, change, slow)
    if change == "set_jump":
        await cell.admin.seek(topic, 20)
    else:
        await cell.admin.create_subscription(topic, start=20)
    assert dropped
    assert await start_of(cell, topic) <= 20
    assert await numbers(cell, topic, 40, SubscriptionType.EXCLUSIVE) == list(range(20, 60))


async def test_retention_sees_who_subscribes_to_a_topic_that_left_and_came_back_while_it_waited(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    await fill(cell, topic)
    original = Storage.retain

    async def wait(self: Storage, *arguments: Any) -> int:  # for a cut, which may take long
        await cell.broker.moves.unload(topic)
        await cell.broker.moves.open_again(topic)
        await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
        return await original(self, *arguments)

    monkeypatch.setattr(Storage, "retain", wait)
    assert await keepers[-1].let_go() == 0
    assert await numbers(cell, topic, MESSAGES, SubscriptionType.EXCLUSIVE) == list(range(MESSAGES))


async def test_what_is_sent_while_a_client_subscribes_is_unread_for_it(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    producer = await cell.client.create_producer(topic)
    original = Records.create_subscription

    async def slow(self: Records, *arguments: Any, **named: Any) -> Any:
        for number in range(MESSAGES):
            await cell.client.send(topic, producer, b"%d " % number + PAYLOAD)
        await keepers[-1].let_go()
        return await original(self, *arguments, **named)

    monkeypatch.setattr(Records, "create_subscription", slow)
    assert await numbers(cell, topic, MESSAGES, SubscriptionType.EXCLUSIVE) == list(range(MESSAGES))


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])
async def test_where_unread_messages_go_too_their_readers_are_led_past_and_that_is_counted(
    kind: SubscriptionType, keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(retention_bytes=10_000, retention_drops_unread=True, telemetry_interval_s=0)
    await fill(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST, kind=kind)
    await keepers[-1].let_go()
    start = await start_of(cell, topic)
    (described,) = await cell.admin.describe(topic)
    assert described.messages_expired == start > 0
    state = described.subscriptions[0].reliable
    assert state is not None
    assert (state.position, state.lag) == (start, MESSAGES - start)
    assert await numbers(cell, topic, MESSAGES - start, kind) == list(range(start, MESSAGES))


async def test_a_consumer_that_is_reading_what_goes_reads_on_behind_it(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(
        retention_bytes=10_000, retention_drops_unread=True, telemetry_interval_s=0, max_unacked_messages=5
    )
    await fill(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await inbox.take(5)
    await keepers[-1].let_go()
    start = await start_of(cell, topic)
    async with asyncio.timeout(PATIENCE_S):
        after = await inbox.take(5)
    assert [message.offset for message in after] == list(range(start, start + 5))


async def test_a_place_that_is_gone_is_refused_with_the_first_that_is_there(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    await fill(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.LATEST)
    await numbers_none(cell, topic)
    await keepers[-1].let_go()
    start = await start_of(cell, topic)
    assert start > 0
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    streams = StreamPeer(channel)
    with pytest.raises(OffsetTrimmedError, match=f"Begin at {start}"):
        await streams.fetch(Fetch(topic=topic, start=start - 1)).rest()
    for begin in (FetchFrom.EARLIEST, FetchTime(0)):
        found = await streams.fetch(Fetch(topic=topic, start=begin)).rest()
        assert found[0].base_offset + found[0].first == start
    with pytest.raises(OffsetTrimmedError, match=f"use {start} to {MESSAGES}"):
        await cell.admin.seek(topic, 0)
    with pytest.raises(OffsetTrimmedError, match=f"use {start} to {MESSAGES}"):
        await cell.admin.peek(topic, start=0)
    assert (await cell.admin.seek(topic, FetchFrom.EARLIEST)).position == start
    await channel.close()


async def numbers_none(cell: Cell, topic: TopicName) -> None:
    """The subscription has nothing to read."""
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    assert state.lag == 0


async def test_telemetry_goes_in_time_and_the_audit_log_stays(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    await start_broker(retention_bytes=10_000)
    telemetry, audit = (keepers[-1].topics.find(str(name)) for name in (TELEMETRY_TOPIC, AUDIT_TOPIC))
    assert telemetry is not None
    assert audit is not None
    assert (telemetry.limits.retention_time_s, telemetry.limits.retention_bytes) == (7 * 86_400, 1 << 30)
    assert telemetry.limits.retention_drops_unread == 1
    assert (audit.limits.retention_time_s, audit.limits.retention_bytes) == (0, 0)


async def test_a_deleted_topic_leaves_no_file(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic)
    await flush_all(keepers[-1].storage)
    folder = keepers[-1].folder(cell.settings.data_dir, topic)
    assert list(folder.iterdir())
    await cell.admin.delete_topic(topic)
    await keepers[-1].storage.sweep_deleted()
    assert not folder.exists()


async def test_what_a_broker_that_ended_left_of_a_deleted_topic_goes_with_the_next_start(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic)
    await flush_all(keepers[-1].storage)
    folder = keepers[-1].folder(cell.settings.data_dir, topic)
    await cell.admin.delete_topic(topic)
    cell = await start_broker(telemetry_interval_s=0)
    assert await keepers[-1].storage.sweep_deleted() <= 1
    assert not folder.exists()
    assert await cell.admin.topics("default") == ()


async def test_a_topic_whose_history_is_damaged_is_refused_alone_and_can_be_deleted(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    other = TopicName("default", "other")
    for each in (topic, other):
        await fill(cell, each)
        await cell.admin.create_subscription(each, start=FetchFrom.EARLIEST)
    await flush_all(keepers[-1].storage)
    folder = keepers[-1].folder(cell.settings.data_dir, topic)
    cell = await start_broker(telemetry_interval_s=0)  # its end tidies up; what is damaged now is what is opened next
    (manifest,) = folder.glob("*.manifest")
    manifest.write_bytes(manifest.read_bytes()[:-1])
    cell = await start_broker(telemetry_interval_s=0)
    with pytest.raises(StorageUnavailableError, match="cannot be read; the broker's log says why"):
        await fill(cell, topic, 1)
    for refused in (cell.client.subscribe(topic), cell.admin.seek(topic, 0), cell.admin.peek(topic)):
        with pytest.raises(DanubeError):
            await refused
    assert await numbers(cell, other, MESSAGES, SubscriptionType.EXCLUSIVE) == list(range(MESSAGES))
    assert (await cell.admin.describe_broker()).storage.refused_topics == 1  # type: ignore[union-attr]
    (described,) = await cell.admin.describe(topic)
    assert described.state is not None
    assert described.state.reason == f"what is stored of {topic} cannot be read; the broker's log says why"
    assert [one.reliable for one in described.subscriptions] == [None]  # its lag is unknown, not 0
    assert described.storage is None
    await cell.admin.delete_topic(topic)
    await keepers[-1].storage.sweep_deleted()
    assert not folder.exists()


async def test_a_full_disk_refuses_messages_says_so_and_lets_everybody_read(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic, 3)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    cell = await start_broker(telemetry_interval_s=0, disk_refuse_free_bytes=1 << 50)
    with pytest.raises(StorageUnavailableError, match="set disk_refuse_free_bytes lower"):
        await fill(cell, topic, 1)
    assert await numbers(cell, topic, 3, SubscriptionType.EXCLUSIVE) == [0, 1, 2]
    described = await cell.admin.describe_broker()
    assert not described.is_healthy
    assert described.storage is not None
    assert described.storage.disk_is_low
    assert "set disk_refuse_free_bytes lower" in (described.refused_reason or "")
    await cell.admin.record(ENTRY)
    await cell.admin.delete_topic(topic)
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic, 1)


async def test_what_metadata_has_let_go_of_is_learnt_also_where_nothing_is_limited_any_more(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    await fill(cell, topic)
    keeper, real = keepers[-1], StorageRecords.point

    async def silent(records: StorageRecords, changes: Any) -> None:
        await real(records, changes)
        raise UnknownOutcomeError("nothing was agreed on in time")

    await flush_all(keeper.storage)
    with monkeypatch.context() as lost:
        lost.setattr(StorageRecords, "point", silent)
        await keeper.let_go()
    served = keeper.topics.get(topic)
    assert isinstance(served, ReliableTopic)
    before = served.log.stats.segments
    served.apply_limits(NO_LIMITS, SystemClock())
    assert await keeper.let_go() == 0
    assert 0 < served.log.stats.segments < before

"""Subscriptions whose making fails half-way, or whose record is there though nobody was told."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from danube.metadata.records.catalog import Records, SubscriptionRecord
from danube.model.calls.stream import FetchFrom
from danube.model.errors import AlreadyExistsError, DanubeError, MetadataError, UnknownOutcomeError
from danube.model.topic import DispatchStrategy, TopicName
from danube.storage.segment import manifest_format
from danube.testing.in_process_broker import Cell, StartBroker
from tests.unit.broker.keeper import Keeper
from tests.unit.storage.store.storage_world import flush_all

Make = Callable[[Cell, TopicName], Awaitable[object]]


async def by_client(cell: Cell, topic: TopicName) -> object:
    return await cell.client.subscribe(topic)


async def by_administrator(cell: Cell, topic: TopicName) -> object:
    return await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)


def nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> SubscriptionRecord:
        raise MetadataError("no leader")

    monkeypatch.setattr(Records, "create_subscription", refuse)


def the_answer_gets_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Records.create_subscription

    async def make(records: Records, *arguments: Any) -> SubscriptionRecord:
        await real(records, *arguments)
        raise UnknownOutcomeError("nothing was agreed on in time")

    monkeypatch.setattr(Records, "create_subscription", make)


@pytest.mark.parametrize("make", [by_client, by_administrator])
async def test_subscriptions_that_could_not_be_made_leave_nothing_that_keeps_their_topic_from_being_cut(
    make: Make,
    keepers: list[Keeper],
    start_broker: StartBroker,
    topic: TopicName,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(manifest_format._BOUNDS, "cursors", 2)
    cell = await start_broker(telemetry_interval_s=0)
    producer = await cell.client.create_producer(topic)
    for _ in range(20):
        await cell.client.send(topic, producer, b"x" * 400)
    with monkeypatch.context() as away:
        nothing_is_made(away)
        for _ in range(3):
            with pytest.raises(DanubeError, match="no leader"):
                await make(cell, topic)
    await flush_all(keepers[-1].storage)
    stats = keepers[-1].storage.stats
    assert (stats.quarantined_topics, stats.segments > 0) == (0, True)


@pytest.mark.parametrize("strategy", list(DispatchStrategy))
async def test_a_subscription_of_which_no_answer_came_can_be_used_once_it_is_asked_for_again(
    strategy: DispatchStrategy, cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await cell.client.create_producer(topic, strategy=strategy)
    with monkeypatch.context() as lost:
        the_answer_gets_lost(lost)
        with pytest.raises(UnknownOutcomeError):
            await cell.client.subscribe(topic)
    if strategy is DispatchStrategy.RELIABLE:
        await cell.client.send(topic, producer, b"since then")
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    if strategy is DispatchStrategy.NON_RELIABLE:
        await cell.client.send(topic, producer, b"since then")
    assert (await inbox.next()).payload == b"since then"


async def test_an_administrator_is_told_that_it_is_there_and_can_put_it_where_it_was_to_be(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.client.send(topic, producer, b"x")
    with monkeypatch.context() as lost:
        the_answer_gets_lost(lost)
        with pytest.raises(UnknownOutcomeError):
            await cell.admin.create_subscription(topic)
    with pytest.raises(AlreadyExistsError, match="'subscription'"):
        await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    assert (await cell.admin.seek(topic, FetchFrom.EARLIEST)).lag == 1

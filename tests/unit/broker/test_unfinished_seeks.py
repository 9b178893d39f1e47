"""Subscriptions that were put elsewhere while the metadata could not be told that they stand there by now."""

import asyncio
from typing import Any

import pytest

from danube.broker import environment
from danube.broker.control.positions import PositionControl
from danube.metadata.records.catalog import Records
from danube.model.calls.stream import FetchFrom
from danube.model.errors import MetadataError
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.testing.in_process_broker import StartBroker
from danube.testing.patience import PATIENCE_S
from tests.unit.broker.keeper import Keeper
from tests.unit.broker.test_positions import stands
from tests.unit.broker.test_retention import MESSAGES, fill, numbers


@pytest.fixture
def controls(monkeypatch: pytest.MonkeyPatch) -> list[PositionControl]:
    """Of each broker that is started, the last one last."""
    found: list[PositionControl] = []
    real = PositionControl.open

    async def note(control: PositionControl) -> None:
        found.append(control)
        await real(control)

    monkeypatch.setattr(PositionControl, "open", note)
    return found


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the metadata cannot be told that a subscription stands where it was put."""
    real, is_away = Records.set_jump, [True]

    async def set_jump(records: Records, name: TopicName, subscription: str, jump: int | None, **named: Any) -> Any:
        if jump is None and is_away[0]:
            raise MetadataError("no leader")
        return await real(records, name, subscription, jump, **named)

    monkeypatch.setattr(Records, "set_jump", set_jump)
    return is_away


async def test_it_is_told_later_and_neither_holds_retention_up_nor_puts_anything_there_again(
    keepers: list[Keeper],
    controls: list[PositionControl],
    away: list[bool],
    start_broker: StartBroker,
    topic: TopicName,
) -> None:
    cell = await start_broker(retention_bytes=10_000, telemetry_interval_s=0)
    await fill(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.LATEST)
    await cell.admin.seek(topic, 0)
    assert await numbers(cell, topic, MESSAGES, SubscriptionType.EXCLUSIVE) == list(range(MESSAGES))
    with pytest.raises(MetadataError):
        await controls[-1].sweep()
    assert await keepers[-1].let_go() == 0
    away[0] = False
    await controls[-1].sweep()
    assert await keepers[-1].let_go() > 0
    cell = await start_broker(telemetry_interval_s=0)
    assert await stands(cell, topic) == (MESSAGES, 0)


async def test_a_subscription_that_is_gone_meanwhile_is_left_alone(
    controls: list[PositionControl], away: list[bool], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic, 3)
    await cell.admin.create_subscription(topic, start=FetchFrom.LATEST)
    await cell.admin.seek(topic, 1)
    await cell.admin.unsubscribe(topic)
    await cell.admin.create_subscription(topic, start=2)
    away[0] = False
    await controls[-1].sweep()
    assert await stands(cell, topic) == (2, 1)


async def test_a_broker_tells_it_by_itself(
    keepers: list[Keeper],
    away: list[bool],
    start_broker: StartBroker,
    topic: TopicName,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "SWEEP_INTERVAL_S", 0.001)
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic, 3)
    await cell.admin.create_subscription(topic, start=FetchFrom.LATEST)
    await cell.admin.seek(topic, 1)
    served = keepers[-1].topics.get(topic).subscription("subscription")
    assert served.record.jump == 1
    away[0] = False
    async with asyncio.timeout(PATIENCE_S):
        while served.record.jump is not None:
            assert await stands(cell, topic) == (1, 2)

"""A plan says what it touches, whichever broker makes it and whichever brokers serve the topics."""

import pytest

from danube.broker.control.plans import peers
from danube.model.calls.stream import FetchFrom
from danube.model.errors import PlanRefusedError
from danube.model.plans.plan import Effect, Impact
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell
from tests.unit.broker.network import Network
from tests.unit.broker.test_positions import MESSAGES, filled

ORDERS = TopicName("default", "orders")


async def spread(network: Network) -> list[Cell]:
    """Three brokers; the first two have a partition each, with messages and a subscription."""
    cells = [await network.start(name) for name in "abc"]
    for index, cell in enumerate(cells[:2]):
        await network.put(ORDERS.partition(index), cell)
        await filled(cell, ORDERS.partition(index))
        await cell.admin.create_subscription(ORDERS.partition(index), start=FetchFrom.EARLIEST)
    return cells


def counts(impact: Impact) -> list[int | None]:
    return [impact.messages, impact.producers, impact.consumers, impact.subscription_count, impact.topic_count]


async def test_every_broker_counts_what_a_deletion_takes_from_all_brokers(network: Network) -> None:
    cells = await spread(network)
    plans = [await cell.admin.plan("delete_topic", topic=str(ORDERS)) for cell in cells]
    expected = counts(plans[0].impact)
    assert expected[0] == 2 * MESSAGES
    assert expected[3:] == [2, 2]
    for plan in plans:
        assert counts(plan.impact) == expected
        assert plan.impact.bytes == plans[0].impact.bytes
        assert plan.impact.bytes
        assert plan.impact.fingerprint == plans[0].impact.fingerprint
        assert not any("Not counted" in line for line in plan.impact.irreversible)
    await cells[2].admin.apply(plans[2])


async def test_every_broker_counts_what_a_move_is_about(network: Network) -> None:
    cells = await spread(network)
    target = str(await network.id_of(cells[2]))
    name = str(ORDERS.partition(1))
    plans = [await cell.admin.plan("unload_topic", effect=Effect.MOVE, topic=name, broker_id=target) for cell in cells]
    impacts = [plan.impact for plan in plans]
    assert [counts(impact)[0] for impact in impacts] == [MESSAGES] * 3
    assert {impact.changes for impact in impacts} == {impacts[0].changes}


async def test_an_owner_that_does_not_answer_is_named_and_its_counts_are_unknown(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = await spread(network)
    known = await cells[0].admin.plan("delete_topic", topic=str(ORDERS))
    monkeypatch.setattr(peers, "PLAN_OWNERS_TIMEOUT_S", 0)
    impact = (await cells[0].admin.plan("delete_topic", topic=str(ORDERS))).impact
    assert counts(impact) == [None, None, None, 2, 2]
    (told,) = [line for line in impact.irreversible if "Not counted" in line]
    assert str(ORDERS.partition(1)) in told
    assert f"the broker at {cells[1].broker.addresses.admin} does not answer" in told
    with pytest.raises(PlanRefusedError, match="does not answer: ask for a new plan"):
        await cells[0].admin.apply(known)


async def test_a_topic_of_a_broker_that_runs_no_more_is_named_as_not_counted(network: Network) -> None:
    cells = await spread(network)
    await network.stop("b")
    impact = (await cells[0].admin.plan("delete_topic", topic=str(ORDERS))).impact
    assert impact.messages is None
    assert any("Not counted" in line and str(ORDERS.partition(1)) in line for line in impact.irreversible)

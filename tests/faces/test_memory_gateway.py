"""The gateway in memory does what tests ask of it."""

import asyncio

import pytest

from danube.admin.target import Target
from danube.model.errors import BrokerUnreachableError, UnsupportedError
from danube.model.plans.plan import Caller, Effect, Face, PlanApplication, PlanRequest
from danube.model.records.audit import AuditEntry, Outcome
from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import ANY_CALL, HOSTILE, connect_to
from tests.faces.seeded import PLAN_ID, seeded_gateway

PERSON = Caller(who="ada@desk", face=Face.CLI)
SYSTEM = TopicName("system", "telemetry")


async def test_two_seeded_gateways_are_alike_and_a_change_shows_in_the_digest() -> None:
    one, other = seeded_gateway(), seeded_gateway()
    assert one.digest() == other.digest()
    await one.create_namespace("payments")
    assert one.digest() != other.digest()


async def test_plans_and_records_are_not_in_the_digest() -> None:
    gateway = seeded_gateway()
    before = gateway.digest()
    await gateway.create_plan(_request("delete_namespace", namespace="staging"))
    await gateway.record(
        AuditEntry(caller=PERSON, operation="x", arguments={}, effect=Effect.READ, outcome=Outcome.DONE)
    )
    assert gateway.digest() == before
    assert (await gateway.plan(PLAN_ID)).asked_by.face is Face.MCP


async def test_it_fails_where_it_is_told_to() -> None:
    gateway = seeded_gateway()
    gateway.failures["brokers"] = BrokerUnreachableError("gone")
    with pytest.raises(BrokerUnreachableError):
        await gateway.brokers()
    assert await gateway.namespaces()
    gateway.failures[ANY_CALL] = BrokerUnreachableError("all gone")
    with pytest.raises(BrokerUnreachableError, match="all gone"):
        await gateway.namespaces()


async def test_it_is_as_slow_as_it_is_told() -> None:
    gateway = seeded_gateway()
    gateway.held = asyncio.Event()
    asking = asyncio.ensure_future(gateway.namespaces())
    async with asyncio.timeout(PATIENCE_S):
        await gateway.waiting.wait()
        assert not asking.done()
        gateway.held.set()
        assert await asking


async def test_as_the_original_it_lacks_what_the_original_lacks() -> None:
    gateway = seeded_gateway()
    gateway.is_original = True
    assert not (await gateway.connection()).is_ours
    for missing in (gateway.describe_broker(), gateway.system_records(SYSTEM, since_ms=0, limit=1)):
        with pytest.raises(UnsupportedError):
            await missing
    plan = await gateway.create_plan(_request("delete_topic", topic="/default/orders"))
    assert (plan.impact.messages, plan.impact.topics) == (None, ("/default/orders",))


async def test_it_serves_hostile_names() -> None:
    gateway = seeded_gateway()
    gateway.serve_hostile_names()
    assert HOSTILE in await gateway.namespaces()
    assert TopicName("default", HOSTILE) in {info.topic for info in await gateway.topics("default")}


async def test_an_operation_that_it_does_not_know_is_planned_and_noted() -> None:
    gateway = seeded_gateway()
    plan = await gateway.create_plan(_request("unload_broker", broker="1"))
    before = gateway.digest()
    await gateway.apply_plan(
        PlanApplication(plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=PERSON)
    )
    assert gateway.cluster.carried_out == ['unload_broker(broker="1")']
    assert gateway.digest() != before


async def test_system_topics_are_read_by_time_and_the_newest_first_kept() -> None:
    gateway = seeded_gateway()
    gateway.publish_system(SYSTEM, b"1", b"2", b"3")
    now_ms = gateway.clock.now_ms()
    found = await gateway.system_records(SYSTEM, since_ms=now_ms, limit=2)
    assert [(record.offset, record.payload) for record in found] == [(1, b"2"), (2, b"3")]
    assert list(await gateway.system_records(SYSTEM, since_ms=now_ms + 1, limit=2)) == []


async def test_every_target_leads_to_it() -> None:
    gateway = seeded_gateway()
    async with connect_to(gateway)(Target()) as connected:
        assert connected is gateway


def _request(operation: str, **arguments: str) -> PlanRequest:
    return PlanRequest(
        operation=operation, arguments=arguments, effect=Effect.DESTROY, caller=PERSON, needs_approval=False
    )

"""Whichever broker of a cluster is asked, the answer is the same: it is about the cluster, not about that broker."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from danube.admin.execution import parse_arguments
from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway import open_gateway
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation, Call
from danube.admin.target import Target
from danube.client import DanubeClient, DispatchStrategy
from danube.model.calls.admin import DescribeTopics
from danube.model.errors import DanubeError
from danube.model.plans.plan import Caller, Effect, Face, PlanApplication, PlanRequest
from danube.model.records.analytics import ANALYTICS_TOPIC
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from tests.faces.places import Place, seeded_place
from tests.faces.seeded import EVENTS, PARTITIONS
from tests.unit.broker.network import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PERSON = Caller(who="person@test", face=Face.CLI)
OF_THE_ASKED = {"self_node_id", "raft_addr", "uptime_s"}
"""Fields that are about the broker that was asked, and say so."""
MOVING = {"value", "last_applied", "bytes", "bytes_per_s", "load", "score", "share", "percent", "reason"}
"""Fields that move by themselves, beside times."""


async def answer(gateway: AdminGateway, operation: AnyOperation, arguments: dict[str, Any]) -> Any:
    call = Call(gateway=gateway, clock=SystemClock(), caller=PERSON)
    try:
        found = await operation.answer(call, parse_arguments(operation, arguments))
    except DanubeError as error:
        return [error.code, str(error)]
    return still(found.model_dump(mode="json"))


def still(value: Any) -> Any:
    """The answer without what moves."""
    match value:
        case dict():
            hidden = OF_THE_ASKED | MOVING
            return {name: still(each) for name, each in value.items() if name not in hidden and not _is_time(name)}
        case list():
            return [still(each) for each in value]
        case _:
            return value


def _is_time(name: str) -> bool:
    return name.endswith(("_ms", "_s", "_per_second"))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Three brokers, of which each has topics, under a load that stands still."""
    async with seeded_place(tmp_path / "b", is_cluster=True, beside=2) as found:
        others = [info.broker_id for info in await found.gateway.brokers() if info.broker_id != found.broker_id]
        for index, broker_id in enumerate(others):
            await move(found.gateway, {"topic": str(EVENTS.partition(index)), "broker_id": broker_id})

        async def is_spread() -> bool:
            page = await found.gateway.describe_topics(DescribeTopics(topics=(EVENTS,), page_size=10))
            owners = {topic.broker_id for topic in page.topics if topic.is_served}
            return len(page.topics) == PARTITIONS and len(owners) == 3

        await until(is_spread)
        await create_results((await found.gateway.brokers())[0].broker_url)
        yield found


async def create_results(url: str) -> None:
    """The one topic of `system` that no broker keeps for itself."""
    async with await DanubeClient.builder().service_url(url).build() as client:
        producer = client.new_producer().with_topic(str(ANALYTICS_TOPIC)).with_name("jobs")
        await producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build().create()


async def move(gateway: AdminGateway, arguments: dict[str, str]) -> None:
    name = "unload_topic"
    request = PlanRequest(operation=name, arguments=arguments, effect=Effect.MOVE, caller=PERSON, needs_approval=False)
    plan = await gateway.create_plan(request)
    await gateway.apply_plan(PlanApplication(plan_id=plan.plan_id, operation=name, arguments=arguments, caller=PERSON))


@pytest.fixture
async def gateways(place: Place) -> AsyncIterator[list[AdminGateway]]:
    """A way to the cluster by each of its brokers."""
    async with AsyncExitStack() as running:
        urls = [info.admin_url for info in await place.gateway.brokers()]
        yield [
            await running.enter_async_context(open_gateway(Target(endpoint=url, timeout_s=PATIENCE_S))) for url in urls
        ]


async def test_every_read_answers_the_same_at_every_broker(
    place: Place, gateways: list[AdminGateway], subtests: pytest.Subtests
) -> None:
    assert len(gateways) == 3
    for operation, arguments in calls(place):
        with subtests.test(f"{operation.name}-{json.dumps(arguments)}"):
            found = await asyncio.gather(*(answer(each, operation, arguments) for each in gateways))
            texts = [json.dumps(each, sort_keys=True, indent=1) for each in found]
            assert texts[1:] == texts[:1] * 2


def calls(place: Place) -> Iterator[tuple[AnyOperation, dict[str, Any]]]:
    """Every example; those about a topic also of one with partitions, and of a partition at another broker."""
    for operation in REGISTRY:
        for example in operation.examples if operation.effect is Effect.READ else ():
            arguments = place.arguments(example)
            yield operation, arguments
            if "topic" in arguments:
                yield operation, {**arguments, "topic": str(EVENTS)}
                yield operation, {**arguments, "topic": str(EVENTS.partition(0))}

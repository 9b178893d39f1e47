"""Brokers of one cluster in processes of their own, and what their administrators see and do."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.model.calls.admin import UNREACHABLE
from danube.model.errors import DanubeError, UnavailableError
from danube.model.ownership import StorageMode
from danube.model.plans.plan import Caller, Effect, Face, PlanApplication, PlanRequest
from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster

PERSON = Caller(who="ada@desk", face=Face.CLI)
LOOK_S = 0.02
"""Between two looks at what other processes see, for which there is no event."""


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return when it holds. A call that fails is made again. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if await holds():
                    return
            except DanubeError:
                pass
            await asyncio.sleep(LOOK_S)


class Administration:
    """Calls of administrators to three brokers."""

    def __init__(
        self, processes: BrokerCluster, mode: StorageMode = StorageMode.LOCAL, credentials: Target | None = None
    ) -> None:
        """`credentials` are those of a target, where the brokers ask for any."""
        self.processes = processes
        self.mode = mode
        self._target = replace(credentials or Target(), timeout_s=PATIENCE_S)

    async def owner(self, topic: TopicName, asked: Sequence[BrokerProcess] = ()) -> BrokerProcess:
        """The broker that serves a topic, according to the first of those that are asked, or of all."""
        async with self.gateway(asked or self.processes.brokers) as gateway:
            return await self._server(gateway, topic)

    async def apply(self, asked: BrokerProcess, operation: str, **arguments: str) -> None:
        """Carry out an operation by a plan."""
        async with self.gateway([asked]) as gateway:
            request = PlanRequest(
                operation=operation, arguments=arguments, effect=Effect.MOVE, caller=PERSON, needs_approval=False
            )
            plan = await gateway.create_plan(request)
            await gateway.apply_plan(
                PlanApplication(plan_id=plan.plan_id, operation=operation, arguments=arguments, caller=PERSON)
            )

    async def id_of(self, broker: BrokerProcess) -> str:
        async with self.gateway([broker]) as gateway:
            return (await gateway.describe_broker()).info.broker_id

    async def leaves(self, topic: TopicName, owner: BrokerProcess) -> None:
        """Return when another broker serves the topic."""
        others = [broker for broker in self.processes.brokers if broker is not owner]

        async def has_left() -> bool:
            async with self.gateway(others) as gateway:
                return await self._server(gateway, topic) is not owner

        await until(has_left)

    async def is_whole(self) -> bool:
        """True while every broker sees all of them, without a drain."""
        for broker in self.processes.brokers:
            async with self.gateway([broker]) as gateway:
                if [info.status for info in await gateway.brokers()] != ["active"] * 3:
                    return False
        return True

    def gateway(self, brokers: Sequence[BrokerProcess]) -> AbstractAsyncContextManager[AdminGateway]:
        return opened(replace(self._target, endpoint=brokers[0].endpoints.admin_url))

    async def _server(self, gateway: AdminGateway, topic: TopicName) -> BrokerProcess:
        """The running broker that serves a topic. Raises UnavailableError."""
        broker_id = (await gateway.topic(topic)).info.broker_id
        urls = {info.broker_id: info.admin_url for info in await gateway.brokers() if info.status != UNREACHABLE}
        for broker in self.processes.brokers:
            if broker.endpoints.admin_url == urls.get(broker_id or ""):
                return broker
        raise UnavailableError(f"{topic} is served by no broker that runs")

"""A whole broker or two, clients and an administrator of one process, on one simulated clock.

Time stands still while a thread of the broker works, so nobody seems slow because the disk was.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self, TypeVar
from unittest.mock import patch

from danube.admin.analytics.live import live_lag
from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway.broker_connection import ConnectionPool
from danube.admin.grpc_gateway.gateway import GrpcGateway
from danube.admin.local_state import LocalState
from danube.admin.target import Target
from danube.broker import environment
from danube.broker.app import Broker
from danube.broker.cluster.metadata_store import MetaStore
from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.config.settings import BrokerSettings
from danube.client import DanubeClient, DanubeClientBuilder
from danube.metadata.memory import MemoryStore
from danube.model.calls.admin import DescribeTopics
from danube.model.lag.group import LagFilter, PartitionLag
from danube.model.lag.verdict import LagPolicy
from danube.model.limits.faces import LAG_LIVE_RECORDS_MAX
from danube.model.plans.plan import Caller, Effect, Face, PlanApplication, PlanRequest
from danube.model.records.telemetry import SYSTEM_NAMESPACE, TELEMETRY_TOPIC, Reading, Stamp, decode_record
from danube.runtime.blocking import BlockingThread, InlineRunner
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock, settle
from danube.testing.simulated.network import MemoryCarrier

T = TypeVar("T")

PERSON = Caller(who="ada@laboratory", face=Face.CLI)
_ANSWER_S = 60.0
"""Simulated time within which a call has its answer."""
_SWEEP_S = 14.3
"""So that retention never works at the moment of telemetry, whose order would be left to chance."""
_RESTART_S, _PAUSE_S = 5.0, 40.0
_START = BlockingThread.start


class BlockingWork:
    """Work that the threads of this process have been given and have not finished."""

    def __init__(self) -> None:
        self._pending = 0
        self._none = asyncio.Event()
        self._none.set()
        self._loop = asyncio.get_running_loop()

    def start(self, thread: BlockingThread, work: Callable[[], None]) -> None:
        """`BlockingThread.start`, counted."""

        def counted() -> None:
            try:
                work()
            finally:
                with suppress(RuntimeError):  # the loop has ended, and nobody waits
                    self._loop.call_soon_threadsafe(self._finished)

        _START(thread, counted)
        self._pending += 1
        self._none.clear()

    async def rest(self) -> None:
        """Return once all tasks wait, and no thread works for any of them."""
        await settle()
        while self._pending:
            async with asyncio.timeout(PATIENCE_S):
                await self._none.wait()
            await settle()

    def _finished(self) -> None:
        self._pending -= 1
        if not self._pending:
            self._none.set()


class World:
    """Brokers, of which the first may be stopped and started again, and those who use them."""

    def __init__(self, folder: Path, brokers: int = 1) -> None:
        self.clock = SimClock()
        self._meta_store = MetaStore(MemoryStore(self.clock), MetaStoreType.MEMORY)
        self._brokers: list[Broker | None] = [None] * brokers
        self.scope = TaskScope("applications")
        self._calls = TaskScope("calls")
        self._folder = folder
        self._carrier = MemoryCarrier(self.clock)
        self._work = BlockingWork()
        self._clients: list[DanubeClient] = []
        self._ending = AsyncExitStack()
        self._admin: AdminGateway | None = None
        self._addresses = [("memory:0", "memory:0")] * brokers

    async def __aenter__(self) -> Self:
        def start(thread: BlockingThread, work: Callable[[], None]) -> None:
            self._work.start(thread, work)

        self._ending.enter_context(patch.object(BlockingThread, "start", start))
        self._ending.enter_context(patch.object(environment, "SWEEP_INTERVAL_S", _SWEEP_S))
        for number in range(len(self._brokers)):
            await self.start_broker(number)
        target = Target(endpoint=f"http://{self._addresses[0][1]}")
        pool = ConnectionPool(target, self._carrier)
        self._ending.push_async_callback(pool.close)
        find_folder = self._folder.joinpath
        runner, rng = InlineRunner(), SystemRng()
        state = LocalState(find_folder, target.endpoint, clock=self.clock, rng=rng, runner=runner)
        self._admin = GrpcGateway(pool, state)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.complete(self.scope.close())
        for client in self._clients:
            await self.complete(client.close())
        for number in reversed(range(len(self._brokers))):
            await self.stop_broker(number)
        await self._ending.aclose()

    @property
    def admin(self) -> AdminGateway:
        """Calls of an administrator."""
        assert self._admin is not None  # noqa: S101 - the world was entered
        return self._admin

    async def start_broker(self, number: int = 0) -> None:
        """Start a broker on its folder, at the addresses that it had."""
        addresses, shared = self._addresses[number], self._folder / "shared"
        shared.mkdir(exist_ok=True)
        of_cluster = {"mode": "cluster", "storage": {"mode": "shared_fs", "folder": shared}}
        settings = BrokerSettings.model_validate(
            {
                **(of_cluster if len(self._brokers) > 1 else {}),
                "data_dir": self._folder / f"data-{number}",
                "broker_addr": addresses[0],
                "admin_addr": addresses[1],
                "durability": "os",
                "journal_file_age_s": 5,  # so that retention has segments to delete
            }
        )
        surroundings = environment.Environment(
            clock=self.clock, carrier=self._carrier, rng=SystemRng(1 + number), meta_store=self._meta_store
        )
        self._brokers[number] = broker = await self.complete(Broker.start(settings, surroundings))
        self._addresses[number] = broker.addresses.broker, broker.addresses.admin

    async def stop_broker(self, number: int = 0) -> None:
        """Stop a broker in good order."""
        if (broker := self._brokers[number]) is not None:
            await self.complete(broker.stop())
            self._brokers[number] = None

    async def restart(self) -> None:
        """Stop the broker and start it again, a few seconds later."""
        await self.stop_broker()
        await self.run_until(self.clock.monotonic_s() + _RESTART_S)
        await self.start_broker()

    async def move(self) -> None:
        """An administrator moves each topic to the other broker."""
        named = await self.complete(self.admin.describe_topics(DescribeTopics(page_size=100)))
        for each in named.topics:
            if each.topic.namespace != SYSTEM_NAMESPACE:
                await self.complete(self.plan("unload_topic", Effect.MOVE, topic=str(each.topic)))

    async def plan(self, operation: str, effect: Effect, **arguments: object) -> None:
        """An administrator does what takes a plan."""
        request = PlanRequest(
            operation=operation, arguments=arguments, effect=effect, caller=PERSON, needs_approval=False
        )
        plan = await self.admin.create_plan(request)
        await self.admin.apply_plan(
            PlanApplication(plan_id=plan.plan_id, operation=operation, arguments=plan.arguments, caller=PERSON)
        )

    async def pause(self) -> None:
        """All stands still for a while, as a machine that is paused, and then goes on."""
        self.clock.skip(_PAUSE_S)

    async def client(self) -> DanubeClient:
        """A new client, as a process of its own would have."""
        builder = DanubeClientBuilder().service_url(f"http://{self._addresses[0][0]}").with_carrier(self._carrier)
        client = await builder.with_clock(self.clock).build()
        self._clients.append(client)
        return client

    async def run_until(self, when_s: float) -> None:
        """Move simulated time on; nothing works behind its back."""
        await self._work.rest()
        while (due_s := self.clock.next_timer_s()) is not None and due_s <= when_s:
            self.clock.advance(max(0.0, due_s - self.clock.monotonic_s()))
            await self._work.rest()
        self.clock.advance(max(0.0, when_s - self.clock.monotonic_s()))

    async def complete(self, call: Coroutine[Any, Any, T]) -> T:
        """The outcome of a call, for which time moves on as far as it must."""
        task: asyncio.Task[T] = self._calls.spawn(call, "call")
        end_s = self.clock.monotonic_s() + _ANSWER_S
        await self._work.rest()
        while not task.done():
            due_s = self.clock.next_timer_s()
            if due_s is None or due_s > end_s:
                task.cancel()
                raise TimeoutError(f"no answer within {_ANSWER_S} simulated seconds")
            await self.run_until(due_s)
        return task.result()

    async def verdicts(self, skew_s: float = 0.0) -> Sequence[PartitionLag]:
        """Verdicts of the live analysis at this moment, by a clock that is so far ahead."""
        clock = SimClock(start_ms=self.clock.now_ms() + round(skew_s * 1_000)) if skew_s else self.clock
        return (await self.complete(live_lag(self.admin, clock, LagFilter(), LagPolicy()))).partitions

    async def telemetry(self) -> Sequence[tuple[Stamp, Reading]]:
        """All that the broker published of itself, for the rules of the job."""
        found = await self.complete(self.admin.system_records(TELEMETRY_TOPIC, since_ms=0, limit=LAG_LIVE_RECORDS_MAX))
        return [record for each in found if (record := decode_record(each.payload)) is not None]

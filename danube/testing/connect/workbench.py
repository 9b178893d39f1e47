"""Workbench of the contract suite: a broker in this process, a topic, and runners of one connector."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy
from danube.client.message import Message
from danube.connect.config.file import ConnectorConfig, Processing, Retry
from danube.connect.connector import Plan
from danube.connect.runner import Runner
from danube.connect.sdk import Definition
from danube.model.errors import TopicNotFoundError
from danube.model.topic import TopicName
from danube.runtime.clock import TimerHandle
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S

S = TypeVar("S")

TOPIC = "/default/orders"
NAME = "contract"
BATCH = 10
"""Records of one batch."""
_SPEED = 200.0
_LOOK_S = 0.01


class FastClock:
    """The system's time, fast: backoffs take no time worth mentioning."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic() * _SPEED

    async def sleep_until(self, when_s: float) -> None:
        await asyncio.sleep(max(0.0, when_s / _SPEED - time.monotonic()))

    def call_at(self, when_s: float, callback: Callable[[], None]) -> TimerHandle:
        delay_s = max(0.0, when_s / _SPEED - time.monotonic())
        return asyncio.get_running_loop().call_later(delay_s, callback)


@dataclass
class Workbench:
    """The parts of one case."""

    cell: Cell
    client: DanubeClient
    runners: list[Runner] = field(default_factory=list)

    async def create(self, topic: str = TOPIC, partitions: int = 0) -> None:
        """Make a topic."""
        producer = self.client.new_producer().with_topic(topic).with_name("maker").with_partitions(partitions)
        async with producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build():
            pass

    async def delete(self, topic: str = TOPIC) -> None:
        """Delete a topic, or all its partitions."""
        await self.cell.admin.delete_topic(TopicName.parse(topic))

    async def produce(self, payloads: Iterable[bytes], topic: str = TOPIC, partitions: int = 0) -> None:
        """Send payloads in order; with partitions, each by a key of its own."""
        builder = self.client.new_producer().with_topic(topic).with_name("maker").with_partitions(partitions)
        async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            await producer.send_many_with_keys((payload.decode("latin-1"), payload) for payload in payloads)

    async def stored(self, topic: str = TOPIC) -> list[Message]:
        """All messages of a topic, or of its partitions one after the other."""
        found: list[Message] = []
        for each in await self.client.partitions(topic):
            async with aclosing(self.client.fetch(each)) as messages:
                found += [message async for message in messages]
        return found

    async def dead_letters(self, topic: str = TOPIC) -> list[Message]:
        """The dead letters of a topic; none where there is no such topic."""
        try:
            return await self.stored(f"{topic}-dlq")
        except TopicNotFoundError:
            return []

    async def run(
        self,
        definition: Definition,
        section: Mapping[str, Any],
        routes: Sequence[Mapping[str, Any]],
        *,
        tells: bool = False,
        **options: Any,  # noqa: ANN401 - of `[processing]`
    ) -> Runner:
        """Start a runner of the connector."""
        config = ConnectorConfig(
            name=NAME,
            kind="contract",
            service_url=self.client.uri,
            retry=Retry(max_retries=2, retry_backoff_ms=1_000),
            processing=Processing(**{"batch_size": BATCH, "batch_timeout_ms": 0, "poll_interval_ms": 1} | options),
        )
        plan = Plan(config, definition, definition.settings.model_validate({**section, "routes": list(routes)}))
        runner = Runner([plan], carrier=self.cell.carrier, clock=FastClock(), tells=tells)
        self.runners.append(runner)
        await runner.start(with_port=False)
        return runner


@asynccontextmanager
async def workbench(folder: Path) -> AsyncIterator[Workbench]:
    """A workbench on a folder; whatever it runs is ended."""
    async with running_broker(folder / "data") as cell:
        address = f"http://{cell.broker.addresses.broker}"
        async with await DanubeClientBuilder().service_url(address).with_carrier(cell.carrier).build() as client:
            bench = Workbench(cell, client)
            try:
                yield bench
            finally:
                for runner in bench.runners:
                    await runner.close()


@dataclass(frozen=True, slots=True)
class Case(Generic[S]):
    """One case of the contract, for an other side of its kind."""

    name: str
    work: Callable[[S, Workbench], Awaitable[None]]

    async def run(self, side: S, folder: Path) -> None:
        """Run it against an empty other side, in an empty folder. Raises AssertionError."""
        async with workbench(folder) as bench:
            await self.work(side, bench)

    def __str__(self) -> str:
        return self.name


async def until(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for a condition. Raises AssertionError, with `what` was waited for, after PATIENCE_S."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await is_so():  # noqa: ASYNC110 - the other side tells nobody of a change
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise AssertionError(f"this did not come true: {what}") from None


def payloads(count: int, first: int = 0) -> list[bytes]:
    """Payloads that are all different."""
    return [f"record-{number}".encode() for number in range(first, first + count)]

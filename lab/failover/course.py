"""The faults of a round, one after the other, and what is seen of each: by another broker, and by the applications."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from danube.admin.gateway import AdminGateway
from danube.model.calls.client import LookupKind
from danube.model.errors import NotFoundError, PreconditionFailedError
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Peer
from danube.testing.processes.broker import BrokerProcess
from lab.failover.administration import LOOK_S, Administration, until
from lab.failover.judge import Report

PAUSE_S = 15.0
SETTLED_S = 0.1
"""An acknowledgement that comes this long after a kill is another broker's."""


class FaultKind(StrEnum):
    """A kind of fault."""

    OWNER_KILLED = "owner killed"
    LEADER_KILLED = "leader killed"
    """The broker that assigns topics, or in every other round the leader of Raft; it has the topics."""
    OWNER_PAUSED = "owner paused"
    ROLLING_RESTART = "rolling restart"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class Outage:
    """A fault that others had to notice; seconds since it happened."""

    fault: str
    detected_s: float
    """Until another broker had seen the lease end."""
    taken_over_s: float
    """Until a lookup at another broker named another owner, for all topics."""
    first_send_s: tuple[float, ...]
    """Until the first acknowledged send of each application."""


@dataclass(frozen=True, slots=True)
class Worker:
    """An application: its topic, and what it has reported so far."""

    topic: TopicName
    report: Callable[[], Report]


class Course:
    """Carries faults out on the brokers of a cluster, on which these applications work."""

    def __init__(self, cluster: Administration, workers: Sequence[Worker], *, by_raft: bool) -> None:
        """`by_raft` says which leader is killed."""
        self._cluster = cluster
        self._workers = workers
        self._by_raft = by_raft
        self.outages: list[Outage] = []
        self.complaints: list[str] = []

    async def run(self, fault: FaultKind) -> None:
        """Carry one fault out; behind it all brokers run, and all applications go on. Raises TimeoutError."""
        match fault:
            case FaultKind.OWNER_KILLED:
                await self._kill(fault, await self._broker(is_leader=False))
            case FaultKind.LEADER_KILLED:
                await self._kill(fault, await self._broker(is_leader=True))
            case FaultKind.OWNER_PAUSED:
                await self._pause(fault, await self._broker(is_leader=False))
            case FaultKind.ROLLING_RESTART:
                for broker in self._cluster.processes.brokers:
                    if code := broker.terminate():
                        self.complaints.append(f"a broker ended with exit code {code} on SIGTERM")
                    broker.start()
                    await until(self._cluster.is_whole)
            case FaultKind.DRAIN:
                await self._drain(await self._broker(is_leader=False))
        await until(self._cluster.is_whole)
        await self._all_go_on()

    async def _kill(self, fault: FaultKind, broker: BrokerProcess) -> None:
        await self._gather(broker)
        await self._watch(fault, broker, broker.kill)
        broker.start()

    async def _pause(self, fault: FaultKind, broker: BrokerProcess) -> None:
        await self._gather(broker)
        pid = broker.pid

        async def end() -> None:
            await asyncio.sleep(PAUSE_S)
            broker.resume()

        # the published client waits without a bound for a call that is under way: until the broker goes on
        await asyncio.gather(self._watch(fault, broker, broker.pause), end())
        await until(self._cluster.is_whole)
        if broker.pid != pid:
            self.complaints.append("the paused broker did not go on in its process")

    async def _drain(self, broker: BrokerProcess) -> None:
        await self._gather(broker)
        broker_id = await self._cluster.id_of(broker)
        await self._cluster.apply(broker, "unload_broker", broker_id=broker_id)
        for worker in self._workers:
            await self._cluster.leaves(worker.topic, broker)
        await self._all_go_on()
        await self._cluster.apply(broker, "activate_broker", broker_id=broker_id)

    async def _watch(self, fault: FaultKind, broker: BrokerProcess, strike: Callable[[], None]) -> None:
        """Have the fault happen, and see what follows."""
        others = [each for each in self._cluster.processes.brokers if each is not broker]
        broker_id, gone_url = await self._cluster.id_of(broker), broker.endpoints.service_url
        async with AsyncExitStack() as parts:
            gateway = await parts.enter_async_context(self._cluster.gateway(others))
            channel = GrpcCarrier(SystemClock()).connect(others[0].endpoints.broker)
            parts.push_async_callback(channel.close)
            peer = Peer(channel)
            began_s, began_ms = time.monotonic(), time.time() * 1_000
            strike()

            async def is_served(topic: TopicName) -> bool:
                answer = await peer.lookup(topic)
                return answer.kind is not LookupKind.FAILED and answer.broker_url != gone_url

            async def taken_over() -> None:
                for worker in self._workers:
                    await until(partial(is_served, worker.topic))

            detected_ms, taken_over_s, *sends = await asyncio.gather(
                self._detected_ms(gateway, broker_id, began_ms),
                self._timed(taken_over()),
                *(self._first_send_s(worker, began_s + SETTLED_S) for worker in self._workers),
            )
        found = Outage(fault, (detected_ms - began_ms) / 1_000, taken_over_s - began_s, tuple(sends))
        self.outages.append(replace(found, first_send_s=tuple(one - began_s for one in sends)))

    @staticmethod
    async def _timed(work: Awaitable[None]) -> float:
        await work
        return time.monotonic()

    @staticmethod
    async def _detected_ms(gateway: AdminGateway, broker_id: str, began_ms: float) -> float:
        """The time at which another broker saw the lease end."""
        found: list[int] = []

        async def is_gone() -> bool:
            states = (await gateway.describe_cluster()).brokers
            seen_ms = next((one.last_seen_ms for one in states if one.broker_id == broker_id), None)
            found.extend([seen_ms] if seen_ms is not None and seen_ms >= began_ms else [])
            return bool(found)

        await until(is_gone)
        return found[0]

    @staticmethod
    async def _first_send_s(worker: Worker, after_s: float) -> float:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                at_s = worker.report().first_acknowledged_after(after_s)
                if at_s is not None:
                    return at_s
                await asyncio.sleep(LOOK_S)

    async def _all_go_on(self) -> None:
        """Return once each application has had a send acknowledged, and a message, since now."""
        now_s = time.monotonic()
        for worker in self._workers:
            await self._first_send_s(worker, now_s)
            sent = max(worker.report().acknowledged)

            async def has_come(worker: Worker = worker, sent: int = sent) -> bool:
                return sent in worker.report().received.values()

            await until(has_come)

    async def _gather(self, broker: BrokerProcess) -> None:
        """Have this broker serve the topics of all applications."""
        broker_id = await self._cluster.id_of(broker)
        for worker in self._workers:

            async def is_here(topic: TopicName = worker.topic) -> bool:
                if await self._cluster.owner(topic) is broker:
                    return True
                try:
                    await self._cluster.apply(broker, "unload_topic", topic=str(topic), broker_id=broker_id)
                except (NotFoundError, PreconditionFailedError):  # it is on its way
                    return False
                return False

            await until(is_here)
        await self._all_go_on()

    async def _broker(self, *, is_leader: bool) -> BrokerProcess:
        """The leader, or the first broker that does not lead."""
        async with self._cluster.gateway(self._cluster.processes.brokers) as gateway:
            cluster = await gateway.describe_cluster()
        leads = cluster.leader_broker_id
        if self._by_raft and is_leader:
            leads = next((one.broker_id for one in cluster.members if one.node_id == cluster.leader_id), leads)
        for broker in self._cluster.processes.brokers:
            if (await self._cluster.id_of(broker) == leads) is is_leader:
                return broker
        raise TimeoutError("no broker leads the cluster")

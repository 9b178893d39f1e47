"""The broker that leads a metadata cluster, kept at 100 % of a processor by messages: there must be no election.

Three broker processes form a cluster. Clients, in processes that are nicer than the brokers, send to a topic of the
leader's broker and read it over and over; there are as many as it takes. Once a second all three brokers are asked,
by the call of `danube-admin cluster status`, who leads Raft in which term: all must answer the same all the time.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.model.calls.admin import ClusterDescription, CreateTopic
from danube.model.errors import DanubeError, UnavailableError
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from lab.trials.busy_report import BusyReport, Lead, Sample
from lab.trials.clients import Clients

CLIENTS_MAX = 4
"""Client processes; on two processors more of them would only take time from each other."""
_ENOUGH_PERCENT = 98.0
_RAMP_S = 3.0
"""For which each number of clients is tried."""
_RAMP_SAMPLES = 2
"""Of them, the newest, say whether it is enough: a client takes a moment to get going."""
_SAMPLE_S = 1.0
_AGREED_S_MAX = 30.0

Tell = Callable[[str], None]


class Ground:
    """The cluster, what it is asked by, who leads it, and the clients. Made by `_open_ground`."""

    def __init__(
        self, brokers: Sequence[BrokerProcess], gateways: Sequence[AdminGateway], runner: BlockingRunner
    ) -> None:
        self._brokers = brokers
        self._gateways = gateways
        self._runner = runner
        self._leader = brokers[0]

    async def settle(self) -> Lead:
        """Wait until all agree who leads Raft; answers that. Raises UnavailableError when they do not."""
        deadline_s = time.monotonic() + _AGREED_S_MAX
        while time.monotonic() < deadline_s:
            views = await asyncio.gather(*map(_view, self._gateways))
            leads = {_lead(view) for view in views}
            if len(leads) == 1 and (lead := leads.pop()) is not None and lead.leader_id is not None:
                self._leader = self._broker_of(lead, views)
                return lead
            await asyncio.sleep(_SAMPLE_S)
        raise UnavailableError(f"the brokers did not agree on who leads Raft within {_AGREED_S_MAX:.0f} s")

    async def clients(self, folder: Path) -> Clients:
        """None yet, of a new topic that the leader's broker serves."""
        topic = TopicName("default", "busy")
        gateway = self._gateways[self._brokers.index(self._leader)]
        await gateway.create_topic(CreateTopic(topic=topic, strategy=DispatchStrategy.RELIABLE))
        return Clients(self._leader.endpoints.service_url, topic, folder)

    async def sample(self, clients: Clients) -> Sample:
        """What the next second brings: who leads in the eyes of each broker, and what the leader's broker does."""
        before = await self._runner.run(lambda: _Use.of(self._leader))
        await asyncio.sleep(_SAMPLE_S)
        views = await asyncio.gather(*map(_view, self._gateways))
        after = await self._runner.run(lambda: _Use.of(self._leader))
        took_s = after.at_s - before.at_s
        return Sample(
            cpu_percent=100 * (after.cpu_s - before.cpu_s) / took_s,
            waited_percent=100 * (after.waited_s - before.waited_s) / took_s,
            leads=[_lead(view) for view in views],
            messages=await self._runner.run(clients.messages),
            at_s=after.at_s,
        )

    def _broker_of(self, lead: Lead, views: Sequence[ClusterDescription | None]) -> BrokerProcess:
        pairs = zip(self._brokers, views, strict=True)
        return next(broker for broker, view in pairs if view is not None and view.node_id == lead.leader_id)


@dataclass(frozen=True, slots=True)
class _Use:
    """What a broker has had of the processors until a moment."""

    at_s: float
    cpu_s: float
    waited_s: float

    @classmethod
    def of(cls, broker: BrokerProcess) -> "_Use":
        """Blocks."""
        return cls(time.monotonic(), broker.cpu_s(), broker.waited_s())


async def busy(folder: Path, seconds: float, *, clients_max: int = CLIENTS_MAX, tell: Tell) -> BusyReport:
    """Keep it busy for so long, on an empty folder. `tell` hears what is going on.

    Raises DanubeError when the trial cannot be made.
    """
    async with AsyncExitStack() as parts:
        runner = BlockingThread("trial")
        parts.push_async_callback(runner.aclose)
        tell("three brokers form a cluster")
        ground = await _open_ground(folder, runner, parts)
        before = await ground.settle()
        clients = await ground.clients(folder)
        parts.push_async_callback(runner.run, clients.close)
        ramp: list[Sample] = []
        while len(clients) < clients_max and not _is_enough(ramp):
            tell(f"client process {len(clients) + 1} begins")
            await runner.run(clients.add)
            ramp += await _samples(ground, clients, _RAMP_S, tell)
        samples = await _samples(ground, clients, seconds, tell)
        await runner.run(clients.check)
        return BusyReport(before=before, ramp=ramp, samples=samples, clients=len(clients))


async def _open_ground(folder: Path, runner: BlockingRunner, parts: AsyncExitStack) -> Ground:
    """Brokers on this folder, killed at the end."""
    cluster = await runner.run(lambda: BrokerCluster(folder))
    parts.push_async_callback(runner.run, cluster.kill)
    await runner.run(cluster.start)
    targets = [Target(endpoint=broker.endpoints.admin_url) for broker in cluster.brokers]
    gateways = [await parts.enter_async_context(opened(target)) for target in targets]
    return Ground(cluster.brokers, gateways, runner)


async def _samples(ground: Ground, clients: Clients, seconds: float, tell: Tell) -> list[Sample]:
    """For so long; at least one."""
    samples: list[Sample] = []
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0 or not samples:
        samples.append(await ground.sample(clients))
        tell(f"{len(clients)} client processes, {max(0, left_s):.0f} s left: {samples[-1].text()}")
    return samples


def _is_enough(ramp: Sequence[Sample]) -> bool:
    """Whether more clients would bring no more; the newest samples say it."""
    newest = [sample.cpu_percent for sample in ramp[-_RAMP_SAMPLES:]]
    return bool(newest) and statistics.median(newest) >= _ENOUGH_PERCENT


async def _view(gateway: AdminGateway) -> ClusterDescription | None:
    """What a broker says; None when it does not answer in time, which is no election."""
    try:
        return await gateway.describe_cluster()
    except DanubeError:
        return None


def _lead(view: ClusterDescription | None) -> Lead | None:
    return None if view is None else Lead(view.leader_id, view.term)

"""The broker that leads a metadata cluster, kept at 100 % of a processor by messages: there must be no election.

Three broker processes form a cluster. Clients, in processes that are nicer than the brokers, send to a topic of the
leader's broker and read it over and over; there are as many as it takes. Once a second all three brokers are asked,
by the call of `danube-admin cluster status`, who leads Raft in which term: all must answer the same all the time.
"""

import asyncio
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.model.calls.admin import ClusterDescription, CreateTopic
from danube.model.errors import DanubeError, UnavailableError
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from lab.kernel.programs import Program, end_programs

CPU_PERCENT_MIN = 90.0  # of one processor: with less the broker was not busy, and nothing is proved


@dataclass(frozen=True, slots=True, order=True)
class Lead:
    """The Raft leader and term that one broker sees."""

    leader_id: str | None  # the node's id; None for nobody
    term: int

    def __str__(self) -> str:
        return f"{self.leader_id or 'nobody'} in term {self.term}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One second."""

    cpu_percent: float  # of one processor, by all threads of the leader's broker
    waited_percent: float  # of the time in which its main thread was ready and had no processor: others had them
    leads: Sequence[Lead | None]  # by broker; None for one that did not answer
    messages: int  # sent and read since the start
    at_s: float

    def text(self) -> str:
        return f"the leader's broker at {self.cpu_percent:.0f} % of a processor, {self.messages:,} messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyReport:
    """The whole time."""

    before: Lead  # on all brokers, when nothing was under way
    ramp: Sequence[Sample]  # while the load grew: its figures do not count, an election in it does
    samples: Sequence[Sample]  # not empty
    clients: int

    @property
    def cpu_percent(self) -> float:
        return statistics.median(sample.cpu_percent for sample in self.samples)

    @property
    def elections(self) -> Sequence[Lead]:
        """Other leaders and terms that were seen, or no leader."""
        seen = {lead for sample in (*self.ramp, *self.samples) for lead in sample.leads if lead is not None}
        return sorted(seen - {self.before}, key=lambda lead: lead.term)

    @property
    def is_good(self) -> bool:
        return not self.elections and self.cpu_percent >= CPU_PERCENT_MIN

    def text(self) -> str:
        lines = [
            f"time:      {self._seconds():,.0f} s, {len(self.samples):,} samples of three brokers",
            f"processor: {self._processor()}",
            f"messages:  {self._rate():,.0f} a second sent and read, by {self.clients} client processes",
            f"leader:    {self.before}; then {', '.join(map(str, self.elections)) or 'no other leader and term'}",
        ]
        if unanswered := sum(sample.leads.count(None) for sample in self.samples):
            lines.append(f"calls:     {unanswered:,} were not answered in time")
        return "\n".join([*lines, self._verdict()])

    def _processor(self) -> str:
        cpu = sorted(sample.cpu_percent for sample in self.samples)
        waited = statistics.median(sample.waited_percent for sample in self.samples)
        return (
            f"the leader's broker used {self.cpu_percent:.0f} % of one (median; {cpu[0]:.0f} to {cpu[-1]:.0f}), "
            f"and waited for one {waited:.0f} % of the time"
        )

    def _verdict(self) -> str:
        if self.elections:
            return "THERE WAS AN ELECTION, or a broker lost sight of the leader. Logs of the brokers were kept."
        if not self.is_good:
            return (
                f"NOT BUSY ENOUGH: under {CPU_PERCENT_MIN:.0f} % of a processor nothing is proved. Where the broker "
                "waited for one, let the machine do nothing else."
            )
        return "A leader that was busy all the time led all the time."

    def _seconds(self) -> float:
        first = self.ramp[-1] if self.ramp else self.samples[0]
        return self.samples[-1].at_s - first.at_s

    def _rate(self) -> float:
        known = [*self.ramp[-1:], *self.samples]
        moved = sum(after.messages - before.messages for before, after in pairwise(known))
        return moved / max(self._seconds(), 1e-9)


NICENESS = 10  # so that clients do not take the processor from the brokers; the brokers have 0
CLIENTS_MAX = 4  # client processes; on two processors more of them would only take time from each other
_ENOUGH_PERCENT = 98.0
_RAMP_S = 3.0  # for which each number of clients is tried
_RAMP_SAMPLES = 2  # of them, the newest, say whether it is enough: a client takes a moment to get going
_SAMPLE_S = 1.0
_POLL_S = 0.05
_AGREED_S_MAX = 30.0

Tell = Callable[[str], None]


class Clients:
    """Programs of `lab.trials.load` on one topic. Every method blocks."""

    def __init__(self, service_url: str, topic: TopicName, folder: Path) -> None:
        self._command = [sys.executable, "-m", "lab.trials.load", service_url, str(topic)]
        self._folder = folder
        self._programs: list[Program] = []

    def __len__(self) -> int:
        return len(self._programs)

    def close(self) -> None:
        end_programs(self._programs)

    def add(self) -> None:
        """Start one more; returns when it moves messages. Raises UnavailableError when it does not."""
        name = f"client{len(self) + 1}"
        report = self._folder / f"{name}.jsonl"
        program = Program(name, [*self._command, str(report)], report, niceness=NICENESS)
        self._programs.append(program)
        pause, deadline_s = threading.Event(), time.monotonic() + PATIENCE_S
        while not _moved(program):
            self.check()
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"a client has moved no message for {PATIENCE_S:.0f} s: {program.last_words()}")
            pause.wait(_POLL_S)

    def messages(self) -> int:
        return sum(map(_moved, self._programs))

    def check(self) -> None:
        """Raise UnavailableError with the last words of a client that ended by itself."""
        for program in self._programs:
            if (how := program.ended()) is not None:
                raise UnavailableError(how)


def _moved(program: Program) -> int:
    told = [line["sent"] + line["read"] for line in program.lines()[-1:]]
    return sum(told)


class Trial:
    """The cluster, what it is asked by, who leads it, and the clients. Made by `_opened`."""

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
        """The next second: the leader that each broker sees, and the work of the leader's broker."""
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
    """A broker's use of the processors until a moment."""

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
        trial = await _opened(folder, runner, parts)
        before = await trial.settle()
        clients = await trial.clients(folder)
        parts.push_async_callback(runner.run, clients.close)
        ramp: list[Sample] = []
        while len(clients) < clients_max and not _is_enough(ramp):
            tell(f"client process {len(clients) + 1} begins")
            await runner.run(clients.add)
            ramp += await _samples(trial, clients, _RAMP_S, tell)
        samples = await _samples(trial, clients, seconds, tell)
        await runner.run(clients.check)
        return BusyReport(before=before, ramp=ramp, samples=samples, clients=len(clients))


async def _opened(folder: Path, runner: BlockingRunner, parts: AsyncExitStack) -> Trial:
    """Brokers on this folder, killed at the end."""
    cluster = await runner.run(lambda: BrokerCluster(folder))
    parts.push_async_callback(runner.run, cluster.kill)
    await runner.run(cluster.start)
    targets = [Target(endpoint=broker.endpoints.admin_url) for broker in cluster.brokers]
    gateways = [await parts.enter_async_context(opened(target)) for target in targets]
    return Trial(cluster.brokers, gateways, runner)


async def _samples(trial: Trial, clients: Clients, seconds: float, tell: Tell) -> list[Sample]:
    """For so long; at least one."""
    samples: list[Sample] = []
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0 or not samples:
        samples.append(await trial.sample(clients))
        tell(f"{len(clients)} client processes, {max(0, left_s):.0f} s left: {samples[-1].text()}")
    return samples


def _is_enough(ramp: Sequence[Sample]) -> bool:
    """True if the newest samples show a processor that is used up."""
    newest = [sample.cpu_percent for sample in ramp[-_RAMP_SAMPLES:]]
    return bool(newest) and statistics.median(newest) >= _ENOUGH_PERCENT


async def _view(gateway: AdminGateway) -> ClusterDescription | None:
    """The answer of a broker; None when it does not answer in time, which is no election."""
    try:
        return await gateway.describe_cluster()
    except DanubeError:
        return None


def _lead(view: ClusterDescription | None) -> Lead | None:
    return None if view is None else Lead(view.leader_id, view.term)

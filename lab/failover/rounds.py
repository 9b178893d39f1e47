"""Rounds of faults on three real brokers over one folder of messages, while applications publish and read.

In each round the owner of the topics is killed, the leader is killed, the owner is paused for 15 s (the others take its
topics over, and it starts again in its process), every broker is restarted in turn, and one is drained. An application
of our client works meanwhile and, where its interpreter is given, one of the published `danube-client`. At the end of a
round everything is read back and judged (`lab.failover.judge`).
"""

import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from danube.client import DanubeClientBuilder
from danube.model.errors import DanubeError, UnavailableError
from danube.model.ownership import StorageMode
from danube.model.topic import TopicName
from danube.testing.processes.broker import end_leftover
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.object_server import ObjectServer
from lab.failover import load
from lab.failover.administration import Administration, until
from lab.failover.course import Course, FaultKind, Outage, Worker
from lab.failover.judge import PROMISES, Report, judge
from lab.kernel.judge import Violation
from lab.kernel.programs import Program, end_programs
from lab.kernel.rounds import Ledger, RoundResult, Soak, broken_by, total, verdict_of

OURS, PUBLISHED = "ours", "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverResult(RoundResult):
    """One line of the ledger."""

    acknowledged: int
    received: int
    errors: int  # raised by the published client, which knows one broker at a time
    outages: tuple[Any, ...]  # as `Outage`


class Application:
    """One program of the load, its topic, and its report as far as it was read."""

    def __init__(self, name: str, number: int, python: Path, urls: Sequence[str], folder: Path) -> None:
        self.name = name
        self.topic = TopicName("default", f"failover-{name}-{number}")
        self._path = folder / f"{name}-{number}.jsonl"
        command = [str(python), "-I", load.__file__, " ".join(urls), str(self.topic), str(self._path)]
        self.program = Program(name, command, self._path)
        self._report = Report()
        self._position = 0
        self._is_over = False

    def report(self) -> Report:
        """All that it has reported by now. Raises DanubeError when it has ended."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._position)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._report.add(json.loads(line))
                    self._position += len(line)
        if not self._is_over and (how := self.program.ended()) is not None:
            raise UnavailableError(how)
        return self._report

    def end(self) -> Report:
        """End it; answers its whole report."""
        self._is_over = True
        end_programs([self.program])
        return self.report()


class FailoverRounds(Soak[FailoverResult]):
    """The rounds over one folder."""

    def __init__(
        self,
        folder: Path,
        wheel_python: Path | None = None,
        *,
        objects: ObjectServer | None = None,
        kinds: Sequence[FaultKind] = tuple(FaultKind),
    ) -> None:
        """With `objects` messages are in its bucket. `kinds` are the faults of a round."""
        folder = folder.absolute()
        super().__init__(Ledger(folder, FailoverResult))
        self._folder = folder
        self._wheel_python = wheel_python
        self._objects = objects
        self._kinds = kinds
        mode = StorageMode.SHARED_FS if objects is None else StorageMode.OBJECT_STORE
        self._processes = BrokerCluster(folder, mode=mode, objects=objects)
        for broker in self._processes.brokers:
            end_leftover(broker.data_dir)
        self._cluster = Administration(self._processes, mode)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        with self._objects or nullcontext(), self._processes:
            await until(self._cluster.is_whole)
            yield

    async def run(self, seed: int) -> FailoverResult:
        began_s, number = time.monotonic(), self.ledger.count
        logged = [len(broker.log()) for broker in self._processes.brokers]
        applications = self._start(number)
        workers = [Worker(each.topic, each.report) for each in applications]
        course = Course(self._cluster, workers, by_raft=number % 2 == 1)
        faults: list[str] = []
        try:
            for fault in self._kinds:
                if not self.stop.is_set():
                    faults.append(fault)
                    await course.run(fault)
        except (DanubeError, TimeoutError) as error:
            course.complaints.append(f"after {faults}: {error!r}")
        reports = [one.end() for one in applications]
        violations = [Violation("failed", complaint) for complaint in course.complaints]
        for one, report in zip(applications, reports, strict=True):
            try:
                violations += judge(str(one.topic), report, await self._held(one.topic))
            except DanubeError as error:
                violations.append(Violation("failed", f"{one.topic} cannot be read: {error!r}"))
        violations += [Violation("failed", f"our client raised {each}") for each in reports[0].errors]
        for broker, start in zip(self._processes.brokers, logged, strict=True):
            if "Traceback" in (said := broker.log()[start:]):
                violations.append(Violation("failed", f"a broker logged {said[said.index('Traceback') :][:600]}"))
        result = FailoverResult(
            round=number,
            seed=seed,
            faults=tuple(faults),
            seconds=round(time.monotonic() - began_s, 1),
            acknowledged=sum(len(report.acknowledged) for report in reports),
            received=sum(len(report.received) for report in reports),
            errors=sum(len(report.errors) for report in reports[1:]),
            outages=tuple(astuple(one) for one in course.outages),
            violations=broken_by(violations, PROMISES),
            what=tuple(map(str, violations[:20])),
        )
        self.ledger.add(result, {})
        return result

    def progress(self, result: FailoverResult, rounds: int) -> str:
        outages = "; ".join(_outage(Outage(*one)) for one in result.outages)
        verdict = "ok " if result.is_good else f"BAD {result.what}"
        return f"round {result.round + 1}/{rounds} {verdict} {result.acknowledged:,} acknowledged: {outages}"

    def report(self) -> str:
        return report(self.ledger)

    def _start(self, number: int) -> list[Application]:
        urls = [broker.endpoints.service_url for broker in self._processes.brokers]
        applications = [Application(OURS, number, Path(sys.executable), [",".join(urls)], self._folder)]
        if self._wheel_python is not None:
            applications.append(Application(PUBLISHED, number, self._wheel_python, urls, self._folder))
        return applications

    async def _held(self, topic: TopicName) -> list[tuple[int, int]]:
        """All that a topic holds."""
        urls = ",".join(broker.endpoints.service_url for broker in self._processes.brokers)
        async with await DanubeClientBuilder().service_url(urls).build() as client:
            bounds = await client.bounds(str(topic))
            async with aclosing(client.fetch(str(topic), start=0, end=bounds.end_offset)) as messages:
                return [(one.msg_id.topic_offset, int(one.payload)) async for one in messages]


def report(ledger: Ledger[FailoverResult]) -> str:
    """All rounds of the ledger, for a person."""
    rounds = ledger.rounds()
    lines = [
        f"rounds:   {len(rounds)}, {sum(one.seconds for one in rounds):,.0f} s",
        f"messages: {total(rounds, 'acknowledged')} acknowledged, {total(rounds, 'received')} received",
        f"          {total(rounds, 'errors')} errors of the published client",
    ]
    by_fault = defaultdict[str, list[Outage]](list)
    for one in rounds:
        for outage in one.outages:
            by_fault[outage[0]].append(Outage(*outage))
    for fault, outages in by_fault.items():
        lines.append(f"{fault} ({len(outages)}), seconds since then, median and worst:")
        lines.append(f"          detected {_spread([one.detected_s for one in outages])}")
        lines.append(f"          taken over {_spread([one.taken_over_s for one in outages])}")
        for at, name in enumerate((OURS, PUBLISHED)[: len(outages[0].first_send_s)]):
            lines.append(f"          first accepted send, {name} {_spread([one.first_send_s[at] for one in outages])}")
    return "\n".join([*lines, *verdict_of(ledger, PROMISES, width=10)])


def _outage(one: Outage) -> str:
    sends = ", ".join(f"{each:.1f}" for each in one.first_send_s)
    return f"{one.fault} {one.detected_s:.1f} detected {one.taken_over_s:.1f} taken over {sends} first send"


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f}, {max(seconds):.2f}"

"""One round of the soak: load a broker, have it suffer, then read everything back and judge it."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from danube.model.errors import DanubeError
from danube.testing.processes.broker import BrokerProcess
from lab.soak import reading
from lab.soak.judge import (
    PROMISES,
    Case,
    Found,
    Known,
    Reports,
    Span,
    Violation,
    afterwards,
    again,
    judge,
    read_reports,
    stored_twice,
)
from lab.soak.ledger import Ledger, RoundResult
from lab.soak.load import Report
from lab.soak.plan import (
    CONFIRMED_S,
    REPORTED_S,
    Fault,
    FaultKind,
    LoadedSubscription,
    LoadedTopic,
    faults,
    our_topics,
    published_topics,
)
from lab.soak.programs import Application, Programs

VERIFY_TIMEOUT_S = 120.0
"""For reading one topic back, and for giving each subscription what it is owed."""
_DRAINED = "drained"
_SHOWN = 20
"""Violations of a round that its line of the ledger spells out."""


@dataclass(slots=True, kw_only=True)
class Ground:
    """What the rounds of one run have in common."""

    folder: Path
    broker: BrokerProcess
    ledger: Ledger
    wheel_python: Path | None
    stop: asyncio.Event
    """Set when no more faults are wanted: the round ends early."""
    drained_s: float = 0.0
    """When the last round's acknowledgements were confirmed; monotonic."""

    @property
    def data_dir(self) -> Path:
        """Where the broker keeps everything."""
        return self.broker.data_dir


class Round:
    """A round; `run` it once."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self._ground = ground
        self._broker = ground.broker
        self._number = ground.ledger.count
        self._seed = seed
        self._folder = ground.folder / f"round-{self._number:05d}"
        self._applications = [Application("ours", Path(sys.executable), our_topics(self._number))]
        if ground.wheel_python is not None:
            published = Application("published", ground.wheel_python, published_topics(self._number))
            self._applications.append(published)
        self._topics = [topic for one in self._applications for topic in one.topics]
        self._suffered: list[str] = []
        self._failures: list[str] = []
        self._forgettable: list[Span] = []
        self._deaths: list[float] = []
        self._paused_s = 0.0
        self._was_interrupted = False

    async def run(self) -> RoundResult:
        """Load and faults, unless this round has had them before it was interrupted; then the verdict.

        Raises DanubeError when the broker does not start, or makes no topics.
        """
        started_s, log_start = time.monotonic(), len(self._broker.log())
        self._start()
        unknown = [topic for topic in self._topics if not self._ground.ledger.known(topic.topic).drained_to]
        await reading.make_topics(self._broker.endpoints, unknown)
        if self._folder.exists():
            self._suffered.append("interrupted")
            self._was_interrupted = True
        else:
            self._folder.mkdir()
            await self._suffer()
        self._start()
        known, violations, counts = await self._verdict()
        if "Traceback" in (said := self._broker.log()[log_start:]):
            self._failures.append(f"the broker logged a traceback: {said[said.index('Traceback') :][:600]}")
        violations += [Violation("failed", 1, failure) for failure in self._failures]
        result = self._result(violations, counts, time.monotonic() - started_s)
        self._ground.ledger.add(result, known)
        if result.is_good:
            shutil.rmtree(self._folder)
        return result

    # Faults

    async def _suffer(self) -> None:
        with Programs(self._applications, self._broker.endpoints.service_url, self._folder) as programs:
            try:
                await programs.begun()
                await self._pause(self._ground.drained_s + CONFIRMED_S - time.monotonic())
                for fault in faults(self._seed):
                    await self._endure(fault, programs)
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                self._failures.append(f"a program or the broker did not do as told: {error}")
            finally:
                self._die()
                self._failures += programs.ended()

    def _start(self) -> None:
        if not self._broker.is_running:
            self._broker.start()

    async def _pause(self, seconds: float) -> None:
        """Wait, or until the round is to end early."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._ground.stop.wait()
        except TimeoutError:
            pass

    async def _endure(self, fault: Fault, programs: Programs) -> None:
        """Have the broker go through a fault. It serves before; behind it it may be dead."""
        if self._ground.stop.is_set():
            return
        if not self._broker.is_running:
            down_s = time.monotonic()
            self._broker.start()
            self._note_return(down_s)
            if fault.under_load:
                await programs.go_on()
        await self._pause(fault.after_s)
        if not self._broker.is_running:
            self._failures.append("the broker ended by itself")
            return
        self._suffered.append(str(fault))
        match fault.kind:
            case FaultKind.KILL:
                self._die()
            case FaultKind.KILL_TWICE:
                self._die()
                self._broker.launch()
                await self._pause(fault.for_s)
                self._die()
            case FaultKind.KILL_PAUSED:
                self._broker.pause()
                self._note_death()
                await self._pause(fault.for_s)
                self._broker.kill()
            case FaultKind.PAUSE:
                self._broker.pause()
                await self._pause(fault.for_s)
                self._broker.resume()
                self._paused_s += fault.for_s
            case FaultKind.TERMINATE:
                if code := self._broker.terminate():
                    self._failures.append(f"the broker ended with exit code {code} on SIGTERM")
                self._deaths.append(time.monotonic())  # not forgettable: what it answered until then is durable

    def _die(self) -> None:
        if self._broker.is_running:
            self._note_death()
        self._broker.kill()

    def _note_death(self) -> None:
        now_s = time.monotonic()
        self._deaths.append(now_s)
        self._forgettable.append((now_s - CONFIRMED_S - self._paused_s, now_s + REPORTED_S))

    def _note_return(self, down_s: float) -> None:
        """What was on its way when the broker went is answered by the next one, which has not sent that message again
        yet: such an acknowledgement has no effect, and the message comes.
        """
        self._forgettable.append((down_s, time.monotonic() + REPORTED_S))

    # The verdict

    async def _verdict(self) -> tuple[dict[str, Known], list[Violation], Counter[str]]:
        loaded = self._reports([one.name for one in self._applications])
        found = await asyncio.gather(*(self._find(topic) for topic in self._topics))
        read = [(topic, holds) for topic, holds in zip(self._topics, found, strict=True) if holds is not None]
        await asyncio.gather(*(self._drain(topic, holds, loaded) for topic, holds in read))
        self._ground.drained_s = time.monotonic()
        drained = self._reports([_DRAINED])
        cases = [
            Case(
                topic=topic,
                known=self._ground.ledger.known(topic.topic),
                loaded=loaded,
                drained=drained,
                found=holds,
                forgettable=None if self._was_interrupted else self._forgettable,
                deaths=self._deaths,
            )
            for topic, holds in read
        ]
        known = {case.topic.topic: afterwards(case) for case in cases}
        return known, [violation for case in cases for violation in judge(case)], _counts(cases, loaded)

    async def _find(self, topic: LoadedTopic) -> Found | None:
        """What a topic holds, after one more message; None when it cannot be read."""
        try:
            async with reading.connected(self._broker.endpoints) as client, asyncio.timeout(VERIFY_TIMEOUT_S):
                await reading.send_last(client, topic, f"last-r{self._number}")
                return await reading.find(client, topic)
        except (DanubeError, TimeoutError) as error:
            self._failures.append(f"{topic.topic} cannot be read: {error!r}")
            return None

    async def _drain(self, topic: LoadedTopic, holds: Found, loaded: Reports) -> None:
        """Give every subscription of a topic what it is owed."""
        known, before = self._ground.ledger.known(topic.topic), self._reports([_DRAINED])
        report = Report(self._folder / f"{_DRAINED}.jsonl")

        async def drain(one: LoadedSubscription) -> None:
            of = f"{topic.topic} {one.name}"
            got = {offset for offset, _ in (*loaded.delivered[of].got, *before.delivered[of].got)}
            owed = set(range(known.drained_to.get(one.name, 0), holds.end)) - got
            try:
                async with reading.connected(self._broker.endpoints) as client, asyncio.timeout(VERIFY_TIMEOUT_S):
                    await reading.drain(client, topic, one, owed, report)
            except TimeoutError:
                pass  # what is missing is a violation
            except DanubeError as error:
                self._failures.append(f"{topic.topic}: {one.name} cannot be read: {error!r}")

        await asyncio.gather(*map(drain, topic.subscriptions))

    def _reports(self, names: Sequence[str]) -> Reports:
        paths = [self._folder / f"{name}.jsonl" for name in names]
        texts = [path.read_text(encoding="utf-8") for path in paths if path.exists()]
        return read_reports([text.splitlines(keepends=True) for text in texts], self._topics)

    def _result(self, violations: Sequence[Violation], counts: Counter[str], seconds: float) -> RoundResult:
        broken = dict.fromkeys(PROMISES, 0)
        for violation in violations:
            broken[violation.promise] += violation.count
        journal = sorted(int(path.stem) for path in self._ground.data_dir.glob("journal/*.journal"))
        return RoundResult(
            round=self._number,
            seed=self._seed,
            faults=tuple(self._suffered),
            seconds=round(seconds, 1),
            sent=counts["sent"],
            acknowledged=counts["acknowledged"],
            stored_twice=counts["stored_twice"],
            given_up=counts["given_up"],
            kept=counts["kept"],
            let_go=counts["let_go"],
            delivered=counts["delivered"],
            again=counts["again"],
            confirmed=counts["confirmed"],
            journal_files=(journal[0], journal[-1]),
            segments=len(list(self._ground.data_dir.glob("segments/*/*.segment"))),
            violations=broken,
            what=tuple(map(str, violations[:_SHOWN])),
        )


def _counts(cases: Sequence[Case], loaded: Reports) -> Counter[str]:
    counts = Counter(sent=sum(loaded.sent.values()), acknowledged=len(loaded.stored), given_up=loaded.given_up)
    for case in cases:
        counts += Counter(kept=len(case.found.records), let_go=case.found.start)
        counts += Counter(again=again(case), stored_twice=stored_twice(case))
        for one in case.topic.subscriptions:
            counts["delivered"] += len(case.got(one.name))
            counts["confirmed"] += len(case.loaded.delivered[f"{case.topic.topic} {one.name}"].confirmed)
    return counts

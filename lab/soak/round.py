"""One round of the soak: load a broker, inject faults, then read everything back and judge it."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from danube.model.errors import DanubeError
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from lab.kernel.judge import Violation
from lab.kernel.programs import Program, end_programs
from lab.kernel.rounds import Ledger, RoundResult, broken_by, pause
from lab.soak import load, reading
from lab.soak.judge import (
    PROMISES,
    Case,
    Found,
    Known,
    Reports,
    Span,
    afterwards,
    again,
    judge,
    stored_twice,
)
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

VERIFY_TIMEOUT_S = 120.0  # for reading one topic back, and for giving each subscription what it is owed
GO_ON_S = 6.0
"""Until a program stores again behind a restart: a channel waits a second or more before it connects once more."""
_POLL_S = 0.05
_DRAINED = "drained"
_SHOWN = 20  # violations of a round that its line of the ledger spells out


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakResult(RoundResult):
    """One line of the ledger."""

    sent: int
    acknowledged: int  # by the broker, to producers
    stored_twice: int  # sends whose answer was lost, that were made again: allowed but with de-duplication
    given_up: int  # sends and acknowledgements that a client raised an error for
    kept: int  # messages that the topics hold now
    let_go: int  # messages that retention has trimmed since the first round
    delivered: int
    again: int  # delivered more than once: allowed within bounds, which `violations` counts
    confirmed: int
    journal_files: tuple[int, int]  # the first one and the last
    segments: int


@dataclass(slots=True, kw_only=True)
class Environment:
    """The parts that the rounds of one run share."""

    folder: Path
    broker: BrokerProcess
    ledger: Ledger[SoakResult]
    wheel_python: Path | None
    stop: asyncio.Event  # set when no more faults are wanted: the round ends early
    drained_s: float = 0.0  # when the last round's acknowledgements were confirmed; monotonic

    def known(self, topic: LoadedTopic) -> Known:
        """The topic as the last round found it; empty before its first round."""
        return Known.of(self.ledger.known.get(topic.topic))


@dataclass(slots=True)
class Application:
    """One program of the load, and the topics that it works on."""

    name: str
    python: Path
    topics: tuple[LoadedTopic, ...]
    program: Program | None = None
    seen: int = 0  # lines of its report that were there when it was last waited for

    def start(self, service_url: str, folder: Path) -> None:
        plan = json.dumps([topic.as_plan() for topic in self.topics])
        report = folder / f"{self.name}.jsonl"
        command = [str(self.python), "-I", load.__file__, service_url, plan, str(report)]
        self.program = Program(self.name, command, report)

    def has_stored(self) -> bool:
        """True once it has stored a message since, or ended."""
        program = self.program
        if program is None or program.ended() is not None:
            return True
        return any(line["stored"] for line in program.lines()[self.seen :])


class Round:
    """A round; `run` it once."""

    def __init__(self, environment: Environment, seed: int) -> None:
        self._environment = environment
        self._broker = environment.broker
        self._number = environment.ledger.count
        self._seed = seed
        self._folder = environment.folder / f"round-{self._number:05d}"
        self._applications = [Application("ours", Path(sys.executable), our_topics(self._number))]
        if environment.wheel_python is not None:
            published = Application("published", environment.wheel_python, published_topics(self._number))
            self._applications.append(published)
        self._topics = [topic for one in self._applications for topic in one.topics]
        self._suffered: list[str] = []
        self._failures: list[str] = []
        self._forgettable: list[Span] = []
        self._deaths: list[float] = []
        self._paused_s = 0.0
        self._was_interrupted = False

    async def run(self) -> SoakResult:
        """Load and faults, unless this round has had them before it was interrupted; then the verdict.

        Raises DanubeError when the broker does not start, or makes no topics.
        """
        started_s, log_start = time.monotonic(), len(self._broker.log())
        self._start()
        unknown = [topic for topic in self._topics if not self._environment.known(topic).drained_to]
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
        violations += [Violation("failed", failure) for failure in self._failures]
        result = self._result(violations, counts, time.monotonic() - started_s)
        self._environment.ledger.add(result, {name: one.as_json() for name, one in known.items()})
        if result.is_good:
            shutil.rmtree(self._folder)
        return result

    # Faults

    async def _suffer(self) -> None:
        try:
            for one in self._applications:
                one.start(self._broker.endpoints.service_url, self._folder)
            if not await self._all_store(PATIENCE_S):
                self._failures.append(f"a program has stored nothing for {PATIENCE_S:.0f} s")
                return
            await self._pause(self._environment.drained_s + CONFIRMED_S - time.monotonic())
            for fault in faults(self._seed):
                await self._endure(fault)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            self._failures.append(f"a program or the broker did not do as told: {error}")
        finally:
            self._die()
            programs = [one.program for one in self._applications if one.program is not None]
            self._failures += [how for program in programs if (how := program.ended()) is not None]
            end_programs(programs)

    async def _all_store(self, wait_s: float) -> bool:
        """Return once each program has stored a message or ended; False when that takes too long."""
        for _ in range(round(wait_s / _POLL_S)):
            if all(one.has_stored() for one in self._applications):
                return True
            await asyncio.sleep(_POLL_S)
        return False

    def _start(self) -> None:
        if not self._broker.is_running:
            self._broker.start()

    async def _pause(self, seconds: float) -> None:
        await pause(seconds, self._environment.stop)

    async def _endure(self, fault: Fault) -> None:
        """Have the broker go through a fault. It serves before; behind it it may be dead."""
        if self._environment.stop.is_set():
            return
        if not self._broker.is_running:
            down_s = time.monotonic()
            self._broker.start()
            self._note_return(down_s)
            if fault.under_load:
                for one in self._applications:
                    one.seen = len(one.program.lines()) if one.program is not None else 0
                await self._all_store(GO_ON_S)
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
        """Note that acknowledgements on their way when the broker went have no effect: the next broker sends again."""
        self._forgettable.append((down_s, time.monotonic() + REPORTED_S))

    # The verdict

    async def _verdict(self) -> tuple[dict[str, Known], list[Violation], Counter[str]]:
        loaded = self._reports([one.name for one in self._applications])
        found = await asyncio.gather(*(self._find(topic) for topic in self._topics))
        read = [(topic, holds) for topic, holds in zip(self._topics, found, strict=True) if holds is not None]
        await asyncio.gather(*(self._drain(topic, holds, loaded) for topic, holds in read))
        self._environment.drained_s = time.monotonic()
        drained = self._reports([_DRAINED])
        cases = [
            Case(
                topic=topic,
                known=self._environment.known(topic),
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
        """All that a topic holds, after one more message; None when it cannot be read."""
        try:
            async with reading.connected(self._broker.endpoints) as client, asyncio.timeout(VERIFY_TIMEOUT_S):
                await reading.send_last(client, topic, f"last-r{self._number}")
                return await reading.find(client, topic)
        except (DanubeError, TimeoutError) as error:
            self._failures.append(f"{topic.topic} cannot be read: {error!r}")
            return None

    async def _drain(self, topic: LoadedTopic, holds: Found, loaded: Reports) -> None:
        known, before = self._environment.known(topic), self._reports([_DRAINED])
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
        """The reports of programs; a last line that is torn is left out."""
        topic_of = {producer.name: topic.topic for topic in self._topics for producer in topic.producers}
        reports = Reports()
        for path in [self._folder / f"{name}.jsonl" for name in names]:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            for line in text.splitlines(keepends=True):
                if line.endswith("\n"):
                    reports.add(line, topic_of)
        return reports

    def _result(self, violations: Sequence[Violation], counts: Counter[str], seconds: float) -> SoakResult:
        data_dir = self._broker.data_dir
        journal = sorted(int(path.stem) for path in data_dir.glob("journal/*.journal"))
        return SoakResult(
            round=self._number,
            seed=self._seed,
            faults=tuple(self._suffered),
            seconds=round(seconds, 1),
            **{name: counts[name] for name in _COUNTED},
            journal_files=(journal[0], journal[-1]),
            segments=len(list(data_dir.glob("segments/*/*.segment"))),
            violations=broken_by(violations, PROMISES),
            what=tuple(map(str, violations[:_SHOWN])),
        )


_COUNTED = ("sent", "acknowledged", "stored_twice", "given_up", "kept", "let_go", "delivered", "again", "confirmed")


def _counts(cases: Sequence[Case], loaded: Reports) -> Counter[str]:
    counts = Counter(sent=sum(loaded.sent.values()), acknowledged=len(loaded.stored), given_up=loaded.given_up)
    for case in cases:
        counts += Counter(kept=len(case.found.records), let_go=case.found.start)
        counts += Counter(again=again(case), stored_twice=stored_twice(case))
        for one in case.topic.subscriptions:
            counts["delivered"] += len(case.got(one.name))
            counts["confirmed"] += len(case.loaded.delivered[f"{case.topic.topic} {one.name}"].confirmed)
    return counts

"""The runner of schedules on a log in memory: one of two works, and what was started is not started again."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from danube.model.records.analytics import AnalyticsJob, RunRecord, RunWriter
from danube.model.records.schedules import LEASE_S, Schedule, schedule_record
from danube.testing.simulated.clock import SimClock
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster
from spark_analytics.schedules import runner as module
from spark_analytics.schedules.log import ScheduleLog
from spark_analytics.schedules.runner import ScheduleRunner


@dataclass
class MemoryTopic:
    records: list[RunRecord] = field(default_factory=list)


class MemoryLog(ScheduleLog):
    """Reads a list in place of a topic."""

    def __init__(self, topic: MemoryTopic) -> None:
        super().__init__(Cluster(service_url="http://127.0.0.1:1", token="secret"))
        self._topic = topic

    def refresh(self) -> None:
        for record in self._topic.records[self._next :]:
            self._records.append(record)
            self.book.read(record)
        self._next = len(self._topic.records)

    def write(self, records: Sequence[RunRecord], producer_name: str) -> None:
        self._topic.records.extend(records)
        self.refresh()


class Child:
    def __init__(self, started: list[list[str]], command: list[str]) -> None:
        started.append(command)
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


def test_one_of_two_runners_works_and_the_other_takes_over_without_a_second_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, topic, started = SimClock(), MemoryTopic(), list[list[str]]()
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_more: Child(started, command))
    monkeypatch.setattr(module, "LEASE_S", LEASE_S)
    schedule = Schedule(name="lag", job=AnalyticsJob.LAG, every_s=3_600, first_ms=clock.now_ms())
    topic.records.append(schedule_record(schedule, clock.now_ms(), "a"))
    steps = Steps(clock, shown=False)
    first, second = (ScheduleRunner(MemoryLog(topic), name, clock, steps, master="local[1]") for name in "ab")
    first.tick()
    second.tick()
    assert len(started) == 1
    assert f"--run-id={schedule.run_id(schedule.first_ms)}" in started[0]
    assert "secret" not in " ".join(started[0])
    writer = RunWriter(run_id=schedule.run_id(schedule.first_ms), attempt="x", job="lag")
    topic.records.append(writer.started(clock.now_ms(), as_of_ms=0, time_limit_s=600, window={}))
    clock.advance(LEASE_S + 1)  # the first runner is killed
    second.tick()
    assert len(started) == 1
    clock.advance(3_600)
    second.tick()
    assert len(started) == 2
    first.tick()
    assert len(started) == 2

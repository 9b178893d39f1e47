"""Schedules in the metadata: one runner has the lease, and no run is begun twice."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from danube.broker.analytics.control import ScheduleControl
from danube.metadata.memory import MemoryStore
from danube.metadata.schedules.records import ScheduleRecords
from danube.model.errors import LimitReachedError, NotFoundError, PreconditionFailedError
from danube.model.limits.faces import SCHEDULE_LEASE_S, SCHEDULES_MAX
from danube.model.records.analytics import AnalyticsJob
from danube.model.records.schedules import BeginRun, RunnerClaim, Schedule
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock

NIGHTLY = Schedule(name="nightly", job=AnalyticsJob.LAG, every_s=3_600, first_ms=0)


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
async def control(clock: SimClock) -> AsyncIterator[ScheduleControl]:
    store = MemoryStore(clock)
    yield ScheduleControl(ScheduleRecords(store, SystemRng(1)), clock)
    await store.close()


async def claim(control: ScheduleControl, runner: str, *, release: bool = False) -> str:
    return (await control.claim(RunnerClaim(runner=runner, release=release))).runner


def begin(control: ScheduleControl, runner: str, schedule: Schedule, clock: SimClock) -> BeginRun:
    del control
    return BeginRun(runner=runner, name=schedule.name, due_ms=clock.now_ms(), seen_begun_ms=schedule.begun_ms)


async def test_one_of_two_runners_has_the_lease_until_it_runs_out_or_is_given_up(
    control: ScheduleControl, clock: SimClock
) -> None:
    assert [await claim(control, runner) for runner in "abab"] == ["a", "a", "a", "a"]
    clock.advance(SCHEDULE_LEASE_S - 1)
    assert await claim(control, "a") == "a"
    clock.advance(SCHEDULE_LEASE_S - 1)
    assert await claim(control, "b") == "a"
    clock.advance(2)
    assert [await claim(control, runner) for runner in "ba"] == ["b", "b"]
    assert (await control.book()).runner == "b"
    assert await claim(control, "a", release=True) == "b"
    assert await claim(control, "b", release=True) == ""
    assert await claim(control, "a") == "a"


async def test_a_run_is_begun_once_and_by_the_runner_with_the_lease(control: ScheduleControl, clock: SimClock) -> None:
    kept = await control.put(NIGHTLY)
    assert kept.first_ms == clock.now_ms() // 1_000 * 1_000
    with pytest.raises(PreconditionFailedError, match="does not have the lease"):
        await control.begin(begin(control, "a", kept, clock))
    await claim(control, "a")
    stale = begin(control, "a", kept, clock)
    begun = await control.begin(stale)
    assert begun.begun_due_ms == stale.due_ms
    with pytest.raises(PreconditionFailedError, match="begun meanwhile"):
        await control.begin(stale)
    clock.advance(SCHEDULE_LEASE_S + 1)  # it was paused
    await claim(control, "b")
    with pytest.raises(PreconditionFailedError, match="does not have the lease"):
        await control.begin(begin(control, "a", begun, clock))


async def test_a_change_keeps_what_was_begun_and_a_removed_schedule_is_gone(
    control: ScheduleControl, clock: SimClock
) -> None:
    kept = await control.put(NIGHTLY)
    await claim(control, "a")
    begun = await control.begin(begin(control, "a", kept, clock))
    changed = await control.put(replace(NIGHTLY, every_s=60, begun_ms=7))
    assert (changed.every_s, changed.begun_ms) == (60, begun.begun_ms)
    clock.advance(5)
    asked = await control.request("nightly")
    assert asked.requested_ms > asked.begun_due_ms
    assert await control.request("nightly") == asked
    await control.remove("nightly")
    assert (await control.book()).schedules == ()
    with pytest.raises(NotFoundError, match="no schedule 'nightly'"):
        await control.request("nightly")


async def test_there_are_so_many_schedules_and_no_more(
    control: ScheduleControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.metadata.schedules.records.SCHEDULES_MAX", 1)
    await control.put(NIGHTLY)
    with pytest.raises(LimitReachedError, match="there are 1 schedules"):
        await control.put(replace(NIGHTLY, name="other"))
    assert SCHEDULES_MAX > 1

import asyncio

import pytest

from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import START_MS, SimClock, end_tasks, settle


def test_time_moves_only_when_told() -> None:
    clock = SimClock()
    before = (clock.now_ms(), clock.monotonic_s())
    clock.advance(1.5)
    assert (before, clock.now_ms(), clock.monotonic_s()) == ((START_MS, 0.0), START_MS + 1_500, 1.5)


def test_timers_fire_by_time_and_then_by_the_order_of_asking() -> None:
    clock, fired = SimClock(), list[tuple[str, float]]()
    for name, when_s in (("late", 2.0), ("first", 1.0), ("second", 1.0), ("never", 9.0)):
        clock.call_at(when_s, lambda name=name: fired.append((name, clock.monotonic_s())))  # type: ignore[misc]
    clock.advance(3.0)
    assert fired == [("first", 1.0), ("second", 1.0), ("late", 2.0)]


def test_a_timer_set_by_a_timer_fires_within_the_same_advance() -> None:
    clock, fired = SimClock(), list[float]()

    def again() -> None:
        clock.call_at(2.0, lambda: fired.append(clock.monotonic_s()))

    clock.call_at(1.0, again)
    clock.advance(2.0)
    assert fired == [2.0]


def test_a_timer_asked_for_the_past_fires_at_the_next_call() -> None:
    clock, fired = SimClock(start_s=10.0), list[float]()
    clock.call_at(3.0, lambda: fired.append(clock.monotonic_s()))
    clock.advance(0)
    assert fired == [10.0]


def test_a_cancelled_timer_never_fires_and_is_not_waited_for() -> None:
    clock, fired = SimClock(), list[str]()
    timer = clock.call_at(1.0, lambda: fired.append("x"))
    timer.cancel()
    timer.cancel()
    assert clock.next_timer_s() is None
    clock.advance(2.0)
    timer.cancel()
    assert fired == []


def test_the_wall_clock_can_jump_back_while_monotonic_time_does_not() -> None:
    clock = SimClock()
    clock.advance(10.0)
    clock.jump_wall(-60.0)
    assert (clock.now_ms(), clock.monotonic_s()) == (START_MS - 50_000, 10.0)


async def test_sleepers_wake_at_their_own_times() -> None:
    clock, woken = SimClock(), list[tuple[str, float]]()

    async def sleeper(name: str, times_s: list[float]) -> None:
        for when_s in times_s:
            await clock.sleep_until(when_s)
            woken.append((name, clock.monotonic_s()))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sleeper("a", [1.0, 3.0]))
        tasks.create_task(sleeper("b", [2.0, 2.5]))
        await clock.run_for(5.0)
    assert woken == [("a", 1.0), ("b", 2.0), ("b", 2.5), ("a", 3.0)]
    assert clock.monotonic_s() == 5.0


async def test_sleeping_until_the_past_returns_at_once() -> None:
    clock = SimClock(start_s=10.0)
    async with asyncio.timeout(PATIENCE_S):
        await clock.sleep_until(10.0)


async def test_a_cancelled_sleeper_leaves_no_timer() -> None:
    clock = SimClock()
    task = asyncio.ensure_future(clock.sleep_until(5.0))
    await settle()
    task.cancel()
    await settle()
    assert (task.cancelled(), clock.next_timer_s()) == (True, None)


async def test_running_until_idle_jumps_from_timer_to_timer() -> None:
    clock = SimClock()
    task = asyncio.ensure_future(clock.sleep_until(1_000.0))
    await clock.run_until_idle()
    assert (task.done(), clock.monotonic_s()) == (True, 1_000.0)


async def test_a_timer_that_rearms_itself_for_ever_is_reported() -> None:
    clock = SimClock()

    def tick() -> None:
        clock.call_at(clock.monotonic_s() + 1.0, tick)

    tick()
    with pytest.raises(TimeoutError, match="still being set after 60 simulated seconds"):
        await clock.run_until_idle(within_s=60)


async def test_settling_lets_chains_of_tasks_run_to_their_end() -> None:
    steps = list[int]()

    async def chain(left: int) -> None:
        steps.append(left)
        if left:
            await asyncio.ensure_future(chain(left - 1))

    task = asyncio.ensure_future(chain(50))
    await settle()
    assert (task.done(), steps) == (True, list(range(50, -1, -1)))


async def test_what_is_left_of_a_process_ends_though_it_does_not_want_to() -> None:
    clock, refusals = SimClock(), 2

    async def work() -> None:
        nonlocal refusals
        while refusals:
            try:
                await clock.sleep_until(100.0)
            except asyncio.CancelledError:
                refusals -= 1

    task = TaskScope("of a dead process").spawn(work(), "work")
    await settle()
    await end_tasks(clock)
    assert (task.done(), clock.monotonic_s()) == (True, 2.0)


async def test_skipped_time_is_told_once_and_late() -> None:
    clock = SimClock()
    told: list[float] = []

    def tick() -> None:
        told.append(clock.monotonic_s())
        clock.call_at(clock.monotonic_s() + 2.0, tick)

    clock.call_at(2.0, tick)
    clock.skip(40.0)
    assert told == [40.0]
    clock.advance(2.0)
    assert told == [40.0, 42.0]

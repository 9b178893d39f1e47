import asyncio
import time

from danube.runtime.clock import SystemClock, sleep_for
from danube.testing.patience import PATIENCE_S


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= SystemClock().now_ms() <= time.time_ns() // 1_000_000


def test_monotonic_time_does_not_go_back() -> None:
    clock = SystemClock()
    times = [clock.monotonic_s() for _ in range(100)]
    assert times == sorted(times)


async def test_sleeping_ends_once_the_time_has_come() -> None:
    clock = SystemClock()
    when_s = clock.monotonic_s() + 0.01
    async with asyncio.timeout(PATIENCE_S):
        await clock.sleep_until(when_s)
        await clock.sleep_until(when_s - 60)
    assert clock.monotonic_s() >= when_s


async def test_sleeping_for_a_while_takes_that_long() -> None:
    clock = SystemClock()
    before_s = clock.monotonic_s()
    async with asyncio.timeout(PATIENCE_S):
        await sleep_for(clock, 0.01)
    assert clock.monotonic_s() >= before_s + 0.01


async def test_timers_fire_on_the_loop_once_their_time_has_come() -> None:
    clock, fired = SystemClock(), asyncio.get_running_loop().create_future()
    when_s = clock.monotonic_s() + 0.01
    clock.call_at(when_s, lambda: fired.set_result(clock.monotonic_s()))
    async with asyncio.timeout(PATIENCE_S):
        assert await fired >= when_s


async def test_a_cancelled_timer_does_not_fire() -> None:
    clock, fired = SystemClock(), list[str]()
    clock.call_at(clock.monotonic_s() - 1, lambda: fired.append("cancelled")).cancel()
    later = asyncio.get_running_loop().create_future()
    clock.call_at(clock.monotonic_s(), lambda: later.set_result(None))
    async with asyncio.timeout(PATIENCE_S):
        await later
    assert fired == []

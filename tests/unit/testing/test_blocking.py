import asyncio

import pytest

from danube.runtime.rng import SystemRng
from danube.testing.simulated.blocking import SimRunner
from danube.testing.simulated.clock import SimClock, settle


def fail() -> None:
    raise OSError("disk")


async def test_work_takes_simulated_time_and_leaves_the_loop_free() -> None:
    clock = SimClock()
    waiting = asyncio.ensure_future(SimRunner(clock, SystemRng(1), longest_s=2.0).run(clock.monotonic_s))
    await settle()
    assert not waiting.done()
    await clock.run_until_idle()
    assert 0 < await waiting < clock.monotonic_s() <= 2.0


async def test_work_is_done_one_after_the_other_in_order() -> None:
    clock, done = SimClock(), list[tuple[str, float]]()
    runner = SimRunner(clock, SystemRng(1))
    tasks = [
        asyncio.ensure_future(runner.run(lambda name=name: done.append((name, clock.monotonic_s()))))  # type: ignore[misc]
        for name in "abcdefgh"
    ]
    await clock.run_until_idle()
    await asyncio.gather(*tasks)
    assert [name for name, _ in done] == list("abcdefgh")
    assert [at_s for _, at_s in done] == sorted(at_s for _, at_s in done)


async def test_an_error_of_the_work_comes_back() -> None:
    clock = SimClock()
    waiting = asyncio.ensure_future(SimRunner(clock, SystemRng(1)).run(fail))
    await clock.run_until_idle()
    with pytest.raises(OSError, match="disk"):
        await waiting


async def test_cancelling_the_waiter_lets_the_work_finish_first() -> None:
    clock, done = SimClock(), list[str]()
    waiting = asyncio.ensure_future(SimRunner(clock, SystemRng(1)).run(lambda: done.append("finished")))
    await settle()
    waiting.cancel()
    await settle()
    assert not waiting.done()
    await clock.run_until_idle()
    assert (waiting.cancelled(), done) == (True, ["finished"])

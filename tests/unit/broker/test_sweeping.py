"""What a broker does every now and then goes on, whatever one of these things meets."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from danube.broker.environment import sweep_on
from danube.model.errors import MetadataError
from danube.model.limits.broker import SWEEP_INTERVAL_S
from danube.runtime.tasks import TaskScope
from danube.testing.simulated.clock import SimClock


class Sweep:
    """Does what its script says, time by time; after its end nothing more happens to it."""

    def __init__(self, *script: Exception | asyncio.Event) -> None:
        self._script: Iterator[Exception | asyncio.Event] = iter(script)
        self.calls = 0

    async def __call__(self) -> None:
        self.calls += 1
        match next(self._script, None):
            case Exception() as error:
                raise error
            case asyncio.Event() as event:
                await event.wait()


@pytest.fixture
async def tasks() -> AsyncIterator[TaskScope]:
    scope = TaskScope("sweeps")
    yield scope
    await scope.close()


@pytest.mark.parametrize("error", [MetadataError("no leader"), KeyError("a fault of ours")])
async def test_a_sweep_that_failed_is_done_again_and_told_of_once(
    tasks: TaskScope, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    clock, sweep = SimClock(), Sweep(error, error, error)
    tasks.spawn(sweep_on(clock, "retention", sweep), "retention")
    await clock.run_for(5 * SWEEP_INTERVAL_S)
    assert sweep.calls == 5
    assert ["retention" in record.getMessage() for record in caplog.records] == [True]


async def test_what_failed_again_after_it_had_gone_well_is_told_of_again(
    tasks: TaskScope, caplog: pytest.LogCaptureFixture
) -> None:
    well = asyncio.Event()
    well.set()
    clock, sweep = SimClock(), Sweep(MetadataError("no leader"), well, MetadataError("no leader"))
    tasks.spawn(sweep_on(clock, "expiry", sweep), "expiry")
    await clock.run_for(4 * SWEEP_INTERVAL_S)
    assert len(caplog.records) == 2


async def test_one_that_waits_holds_up_no_other(tasks: TaskScope) -> None:
    clock, waiting, other = SimClock(), Sweep(asyncio.Event()), Sweep()
    tasks.spawn(sweep_on(clock, "forgetting", waiting), "forgetting")
    tasks.spawn(sweep_on(clock, "retention", other), "retention")
    await clock.run_for(4 * SWEEP_INTERVAL_S)
    assert (waiting.calls, other.calls) == (1, 4)

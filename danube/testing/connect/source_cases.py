"""Cases of the contract of sources that are read."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from danube.connect.runner import Runner
from danube.model.records.connectors import Status
from danube.testing.connect.faults import Faults, Step, faulty
from danube.testing.connect.sides import SourceSide
from danube.testing.connect.workbench import BATCH, TOPIC, Case, Workbench, payloads, until

_COUNT = 3 * BATCH


@dataclass(frozen=True, slots=True)
class _Scene:
    side: SourceSide
    bench: Workbench

    async def run(self, faults: Faults | None = None, *, partitions: int = 0) -> Runner:
        wanted = faulty(self.side.definition, faults)
        return await self.bench.run(wanted, self.side.section, [{"to": TOPIC, "partitions": partitions}])

    async def has(self, wanted: Sequence[bytes]) -> bool:
        return set(wanted) <= {message.payload for message in await self.bench.stored()}

    async def holds(self, wanted: Sequence[bytes]) -> None:
        """Wait until the topic has all that is wanted, each once, and in order where it has no partitions."""

        await until(lambda: self.has(wanted), f"the topic has {len(wanted)} records")
        stored = [message.payload for message in await self.bench.stored()]
        assert Counter(stored) == Counter(wanted)  # noqa: S101 - as above
        if len(await self.bench.client.partitions(TOPIC)) == 1:
            assert stored == list(wanted)  # noqa: S101 - as above


def _case(name: str, work: Callable[[_Scene], Awaitable[None]]) -> Case[SourceSide]:
    return Case(name, lambda side, bench: work(_Scene(side, bench)))


async def _all_are_sent(scene: _Scene) -> None:
    await scene.side.add(payloads(_COUNT))
    await scene.run()
    await scene.holds(payloads(_COUNT))
    await scene.side.add(payloads(5, first=_COUNT))
    await scene.holds(payloads(_COUNT + 5))


async def _drained_and_begun_anew(scene: _Scene) -> None:
    await scene.side.add(payloads(_COUNT))
    runner = await scene.run()
    await scene.holds(payloads(_COUNT))
    assert await runner.drain()  # noqa: S101 - as above
    await scene.side.add(payloads(_COUNT, first=_COUNT))
    await scene.run()
    await scene.holds(payloads(2 * _COUNT))


def _killed(step: Step, occurrence: int, partitions: int) -> Case[SourceSide]:
    async def work(scene: _Scene) -> None:
        faults = Faults(stop_at=(step, occurrence))
        await scene.side.add(payloads(_COUNT))
        runner = await scene.run(faults, partitions=partitions)
        await faults.stands()
        await runner.close()
        await scene.run(partitions=partitions)
        await scene.holds(payloads(_COUNT))

    where = f", {partitions} partitions" if partitions else ""
    return _case(f"killed {step}, number {occurrence}{where}", work)


async def _zombie(scene: _Scene) -> None:
    """A task that was paused before a record comes back after another has sent the same records."""
    faults = Faults(stop_at=(Step.BEFORE_RECORD, BATCH + 3))
    await scene.side.add(payloads(_COUNT))
    paused = await scene.run(faults)
    await faults.stands()
    await paused.disconnect()
    await scene.run()
    await scene.holds(payloads(_COUNT))
    faults.released.set()
    await scene.side.add(payloads(5, first=_COUNT))
    await scene.holds(payloads(_COUNT + 5))


async def _second_stands_by(scene: _Scene) -> None:
    """A second runner sends nothing while the first has the topic, and takes over where that ended."""
    await scene.side.add(payloads(_COUNT))
    first = await scene.run()
    await scene.holds(payloads(_COUNT))
    second = await scene.run()

    async def stands_by() -> bool:
        return [state.status for state in second.states] == [Status.STANDBY]

    await until(stands_by, "the second runner stands by")
    await scene.side.add(payloads(5, first=_COUNT))
    await scene.holds(payloads(_COUNT + 5))
    await first.close()
    await scene.side.add(payloads(5, first=_COUNT + 5))
    await scene.holds(payloads(_COUNT + 10))


def _killed_thrice(seed: int, partitions: int) -> Case[SourceSide]:
    async def work(scene: _Scene) -> None:
        chance = random.Random(seed)  # noqa: S311 - a test's
        await scene.side.add(payloads(_COUNT))
        for _ in range(3):
            step = chance.choice((Step.OPENED, Step.BEFORE_RECORD, Step.BEFORE_CONFIRM, Step.AFTER_CONFIRM))
            faults = Faults(stop_at=(step, 1 if step is Step.OPENED else chance.randint(1, 3)))
            runner = await scene.run(faults, partitions=partitions)
            await faults.stands_or(lambda: scene.has(payloads(_COUNT)))
            await runner.close()
        await scene.run(partitions=partitions)
        await scene.holds(payloads(_COUNT))
        await scene.side.add(payloads(5, first=_COUNT))
        await scene.holds(payloads(_COUNT + 5))

    where = f", {partitions} partitions" if partitions else ""
    return _case(f"killed three times at random, seed {seed}{where}", work)


SOURCE_KILLS = tuple(_killed_thrice(seed, partitions) for partitions in (0, 3) for seed in range(20))
SOURCE_CASES = (
    _case("all records are sent, once and in order", _all_are_sent),
    _case("drained and begun anew", _drained_and_begun_anew),
    *(
        _killed(step, nth, partitions)
        for partitions in (0, 3)
        for step, nth in (
            (Step.OPENED, 1),
            (Step.BEFORE_RECORD, 1),
            (Step.BEFORE_RECORD, BATCH + 3),
            (Step.BEFORE_CONFIRM, 1),
            (Step.AFTER_CONFIRM, 1),
        )
    ),
    _case("a paused task comes back", _zombie),
    _case("a second runner stands by", _second_stands_by),
)

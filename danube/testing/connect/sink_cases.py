"""Cases of the contract of sinks."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from danube.connect.runner import Runner
from danube.connect.sdk import Delivery
from danube.model.records.connectors import Status
from danube.testing.connect.faults import Faults, Step, faulty
from danube.testing.connect.sides import SinkSide
from danube.testing.connect.workbench import BATCH, TOPIC, Case, Workbench, payloads, until

_COUNT = 3 * BATCH


@dataclass(frozen=True, slots=True)
class _Scene:
    side: SinkSide
    bench: Workbench

    @property
    def is_exact(self) -> bool:
        return self.side.definition.delivery is Delivery.EXACTLY_ONCE

    async def run(self, faults: Faults | None = None) -> Runner:
        wanted = faulty(self.side.definition, faults)
        return await self.bench.run(wanted, self.side.section, [{**self.side.route, "from": TOPIC}])

    async def holds(self, wanted: Sequence[bytes], *, twice_max: int = 0) -> None:
        """Wait until the other side holds all that is wanted, and judge what it holds twice."""

        await until(lambda: self.has(wanted), f"the other side holds {len(wanted)} records")
        rows = await self.side.rows()
        assert set(rows) == set(wanted), "the other side holds a record that nobody sent it"  # noqa: S101 - as above
        twice = sum(count - 1 for count in Counter(rows).values())
        allowed = 0 if self.is_exact else twice_max
        assert twice <= allowed, f"{twice} records are there twice, and {allowed} may be"  # noqa: S101 - as above

    async def has(self, wanted: Sequence[bytes]) -> bool:
        return set(wanted) <= set(await self.side.rows())

    async def acknowledged(self, runner: Runner, count: int) -> None:
        """Wait until so many records are worked off: the next runner gets none of them."""

        async def is_level() -> bool:
            return sum(state.written for state in runner.states) >= count

        await until(is_level, f"{count} records are worked off")


def _case(name: str, work: Callable[[_Scene], Awaitable[None]]) -> Case[SinkSide]:
    return Case(name, lambda side, bench: work(_Scene(side, bench)))


async def _all_are_written(scene: _Scene) -> None:
    await scene.bench.produce(payloads(_COUNT))
    await scene.run()
    await scene.holds(payloads(_COUNT))


async def _partitions_are_read(scene: _Scene) -> None:
    await scene.bench.produce(payloads(_COUNT), partitions=3)
    runner = await scene.run()
    await scene.holds(payloads(_COUNT))
    assert len(runner.states) == 3, "there is one task for each partition"  # noqa: S101 - as above


async def _topic_may_come_later(scene: _Scene) -> None:
    runner = await scene.run()

    async def waits() -> bool:
        return [state.status for state in runner.states] == [Status.STANDBY]

    await until(waits, "the task stands by")
    await scene.bench.produce(payloads(_COUNT))
    await scene.holds(payloads(_COUNT))


async def _unknown_failure_is_bisected(scene: _Scene) -> None:
    await scene.bench.produce([*payloads(_COUNT), b"poison", *payloads(5, first=_COUNT)])
    runner = await scene.run(Faults(fails=lambda payload: payload == b"poison"))
    await scene.holds(payloads(_COUNT + 5))
    await scene.acknowledged(runner, _COUNT + 6)
    (letter,) = await scene.bench.dead_letters()
    assert letter.payload == b"poison"  # noqa: S101 - as above
    origin = (letter.attributes["x-original-topic"], letter.attributes["x-original-topic-offset"])
    assert origin == (TOPIC, str(_COUNT))  # noqa: S101 - as above
    assert letter.attributes["x-failure-reason"] == "ValueError: something about this batch is wrong"  # noqa: S101
    assert letter.attributes["x-delivery-attempt"] == "2"  # noqa: S101 - as above


async def _half_a_batch_is_refused(scene: _Scene) -> None:
    await scene.bench.produce(payloads(_COUNT))
    odd, even = payloads(_COUNT)[1::2], payloads(_COUNT)[::2]
    runner = await scene.run(Faults(refuses=lambda payload: payload in odd))
    await scene.holds(even)
    await scene.acknowledged(runner, _COUNT)
    assert [letter.payload for letter in await scene.bench.dead_letters()] == odd  # noqa: S101 - as above


async def _refused_at_the_end_is_refused_once(scene: _Scene) -> None:
    await scene.bench.produce([*payloads(5), b"poison"])
    faults = Faults(refuses=lambda payload: payload == b"poison")
    runner = await scene.run(faults)
    await scene.holds(payloads(5))
    await scene.acknowledged(runner, 6)
    assert await runner.drain()  # noqa: S101 - as above
    await scene.bench.produce(payloads(3, first=5))
    await scene.run(faults)
    await scene.holds(payloads(8))
    assert len(await scene.bench.dead_letters()) == 1  # noqa: S101 - as above


async def _other_side_is_away(scene: _Scene) -> None:
    faults = Faults(down=True)
    await scene.bench.produce(payloads(_COUNT))
    runner = await scene.run(faults)

    async def retries() -> bool:
        return any(state.status is Status.RETRYING and state.restarts >= 2 for state in runner.states)

    await until(retries, "the task begins anew again and again")
    assert [state.reason for state in runner.states] == ["the other side is switched off"]  # noqa: S101 - as above
    faults.down = False
    await scene.holds(payloads(_COUNT))
    assert await scene.bench.dead_letters() == []  # noqa: S101 - as above


async def _many_failures_are_no_dead_letters(scene: _Scene) -> None:
    faults = Faults(fails=lambda _: True)
    await scene.bench.produce(payloads(_COUNT))
    runner = await scene.run(faults)

    async def retries() -> bool:
        return any(state.restarts for state in runner.states)

    await until(retries, "the task begins anew")
    letters = [letter.payload for letter in await scene.bench.dead_letters()]
    assert len(letters) < _COUNT, "not the whole topic is emptied into the dead letters"  # noqa: S101 - as above


async def _drained_in_the_middle(scene: _Scene) -> None:
    faults = Faults(stop_at=(Step.BEFORE_WRITE, 2))
    await scene.bench.produce(payloads(_COUNT))
    runner = await scene.run(faults)
    await faults.stands()
    faults.released.set()
    assert await runner.drain()  # noqa: S101 - as above
    await scene.run()
    await scene.holds(payloads(_COUNT))


def _killed(step: Step, occurrence: int) -> Case[SinkSide]:
    async def work(scene: _Scene) -> None:
        faults = Faults(stop_at=(step, occurrence))
        await scene.bench.produce(payloads(_COUNT))
        runner = await scene.run(faults)
        await faults.stands()
        await runner.close()
        await scene.run()
        await scene.holds(payloads(_COUNT), twice_max=BATCH)

    return _case(f"killed {step}, the {('first', 'second')[occurrence - 1]} time", work)


async def _zombie(scene: _Scene) -> None:
    """A task that was paused before a write comes back after another has written the same records."""
    faults = Faults(stop_at=(Step.BEFORE_WRITE, 2))
    await scene.bench.produce(payloads(_COUNT))
    paused = await scene.run(faults)
    await faults.stands()
    await paused.disconnect()
    await scene.run()
    await scene.holds(payloads(_COUNT))
    faults.released.set()

    async def has_written() -> bool:
        return faults.counts[Step.AFTER_WRITE] >= 2

    await until(has_written, "the paused task has written")
    await scene.holds(payloads(_COUNT), twice_max=BATCH)


def _killed_thrice(seed: int) -> Case[SinkSide]:
    async def work(scene: _Scene) -> None:
        chance, kills = random.Random(seed), 3  # noqa: S311 - a test's
        await scene.bench.produce(payloads(_COUNT))
        for _ in range(kills):
            step = chance.choice((Step.OPENED, Step.BEFORE_WRITE, Step.AFTER_WRITE))
            faults = Faults(stop_at=(step, 1 if step is Step.OPENED else chance.randint(1, 3)))
            runner = await scene.run(faults)
            await faults.stands_or(lambda: scene.has(payloads(_COUNT)))
            await runner.close()
        await scene.run()
        await scene.holds(payloads(_COUNT), twice_max=kills * BATCH)

    return _case(f"killed three times at random, seed {seed}", work)


SINK_KILLS = tuple(_killed_thrice(seed) for seed in range(20))
SINK_CASES = (
    _case("all records are written, once", _all_are_written),
    _case("each partition has a task", _partitions_are_read),
    _case("the topic may come later", _topic_may_come_later),
    _case("a failure that nobody explains is bisected", _unknown_failure_is_bisected),
    _case("half a batch is refused", _half_a_batch_is_refused),
    _case("a refused record at the end is refused once", _refused_at_the_end_is_refused_once),
    _case("the other side is away for long", _other_side_is_away),
    _case("many failures in a row are no dead letters", _many_failures_are_no_dead_letters),
    _case("drained in the middle of a batch", _drained_in_the_middle),
    *(
        _killed(step, nth)
        for step in (Step.OPENED, Step.BEFORE_WRITE, Step.AFTER_WRITE)
        for nth in (1, 2)
        if (step, nth) != (Step.OPENED, 2)
    ),
    _case("a paused task comes back", _zombie),
)

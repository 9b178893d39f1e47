"""Brokers over one shared folder, by seed: they take topics from each other, move them, pause, die, lose their power.

The real journals, the real take-overs, on a disk that loses what was not synced. Whatever happens: what was
acknowledged is at its offset for the last owner, a confirmed position is not lost, offsets have no gap and no double.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from danube.model.errors import DanubeError
from danube.model.subscription import Cursor
from danube.storage.takeover.steps import PROTOCOL, Part, Protocol, Step
from danube.testing.simulated.disk import MachineOffError
from tests.unit.storage.journal_world import Told
from tests.unit.storage.takeover.shared_world import SharedBroker, SharedWorld

TOPICS = (1, 2)
BROKERS = (1, 2, 3)
STEPS = 60
LAST = 9


class Run:
    """One run by seed."""

    def __init__(self, seed: int, protocol: Protocol = PROTOCOL) -> None:
        self.protocol = protocol
        self.chance = random.Random(seed)
        self.world = SharedWorld(seed)
        self.brokers: dict[int, SharedBroker] = {}
        self.tasks: dict[int, list[asyncio.Task[Any]]] = {number: [] for number in BROKERS}
        self.sent: list[tuple[int, bytes, Told]] = []
        self.saved: list[tuple[int, int, Told]] = []
        self.happened: list[str] = []

    async def run(self) -> None:
        for _ in range(STEPS):
            action = self.chance.choices(
                [self.send, self.save, self.take, self.release, self.pause, self.go_on, self.kill, self.lose_power],
                weights=[10, 4, 3, 2, 3, 4, 1, 0.5],
            )[0]
            await action()
            for _ in range(self.chance.choice([0, 1, 3, 30])):
                await asyncio.sleep(0)
        await self.judge()

    async def judge(self) -> None:
        for broker in self.brokers.values():
            broker.writes.release()
        await self.lose_power()
        await self.start(LAST)
        last = self.brokers[LAST]
        await last.acquire(*TOPICS)
        found = {topic: await last.content(topic) for topic in TOPICS}
        for topic, record, told in self.sent:
            if told.all and isinstance(told.all[0], int):
                there = found[topic][told.all[0] : told.all[0] + 1]
                assert there == [record], f"{record!r} was stored at {told.all[0]}, there is {there}: {self.happened}"
        for topic in TOPICS:
            assert len({*found[topic]}) == len(found[topic]), f"a message is there twice: {self.happened}"
            confirmed = [position for one, position, told in self.saved if one == topic and told.all == [None]]
            stands = last.position(topic) or 0
            assert max([0, *confirmed]) <= stands <= len(found[topic]), f"{confirmed} {stands}: {self.happened}"

    # What happens

    async def send(self) -> None:
        broker, topic = self.some_topic()
        if broker is None:
            await self.take()
            return
        record = b"%d" % len(self.sent)
        with contextlib.suppress(DanubeError):
            self.sent.append((topic, record, broker.append(topic, record)))
            self.note(f"{broker.number} sends {record!r} to {topic}")

    async def save(self) -> None:
        broker, topic = self.some_topic()
        if broker is not None:
            log, told = broker.topics[topic].log, Told()
            broker.newest[topic] = Cursor(log.durable_end)
            log.save_cursor(5, broker.newest[topic], told)
            self.saved.append((topic, log.durable_end, told))
            self.note(f"{broker.number} saves {log.durable_end} of {topic}")

    async def take(self) -> None:
        number = self.chance.choice(BROKERS)
        if number not in self.brokers or self.brokers[number].journal.stopped:
            await self.start(number)
            return
        broker = self.brokers[number]
        wanted = [topic for topic in TOPICS if topic not in broker.topics and self.chance.random() < 0.7]
        self.spawn(number, lambda: broker.acquire(*wanted), f"{number} begins {wanted}")

    async def release(self) -> None:
        broker, topic = self.some_topic()
        if broker is not None:
            self.spawn(broker.number, lambda: broker.release(topic), f"{broker.number} gives {topic}")

    async def pause(self) -> None:
        for broker in self.some_broker():
            broker.writes.hold()
            self.note(f"{broker.number} pauses")

    async def go_on(self) -> None:
        for broker in self.some_broker():
            broker.writes.release()
            self.note(f"{broker.number} goes on")

    async def kill(self) -> None:
        for broker in self.some_broker():
            self.note(f"{broker.number} is killed")
            await self.end(broker.number)

    async def lose_power(self) -> None:
        self.note("power cut")
        for number in [*self.brokers]:
            await self.end(number)
        await self.world.power_cut()

    # How

    async def start(self, number: int) -> None:
        if number in self.brokers:
            await self.end(number)
        self.note(f"{number} starts")
        self.brokers[number] = await self.world.start(number, self.protocol)

    async def end(self, number: int) -> None:
        self.brokers.pop(number).kill()
        for task in self.tasks.get(number, ()):
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
        self.tasks[number] = []

    def spawn(self, number: int, work: Callable[[], Coroutine[Any, Any, Any]], what: str) -> None:
        """Have a broker take or give something, unless it does already."""

        async def carefully() -> None:
            with contextlib.suppress(DanubeError, MachineOffError):
                await work()

        if all(task.done() for task in self.tasks[number]):
            self.note(what)
            self.tasks[number] = [asyncio.ensure_future(carefully())]

    def some_broker(self) -> list[SharedBroker]:
        return self.chance.sample([*self.brokers.values()], k=min(1, len(self.brokers)))

    def some_topic(self) -> tuple[SharedBroker | None, int]:
        owners = [(broker, topic) for broker in self.brokers.values() for topic in broker.topics]
        return self.chance.choice(owners) if owners else (None, 0)

    def note(self, what: str) -> None:
        self.happened.append(what)


async def test_nothing_acknowledged_is_lost_whoever_takes_topics_from_whom(seed: int) -> None:
    run = Run(seed)
    try:
        await run.run()
    except (AssertionError, DanubeError) as error:
        error.add_note(f"seed {seed}: {run.happened}")
        raise
    finally:
        await run.world.end()


@pytest.mark.slow
@pytest.mark.parametrize("step", [Step.FENCE, Step.READ, Step.APPEND_AGAIN, Step.COPY_CURSORS, Step.SYNC, Step.SEAL])
async def test_a_taker_that_leaves_out_a_step_is_found_out_by_some_seed(step: Step) -> None:
    assert await is_found_out(PROTOCOL.without(Part.TAKEOVER, step))


async def is_found_out(protocol: Protocol) -> bool:
    for seed in range(200):
        run = Run(seed, protocol)
        try:
            await run.run()
        except (AssertionError, DanubeError, KeyError, IndexError, ValueError):
            return True
        finally:
            await run.world.end()
    return False

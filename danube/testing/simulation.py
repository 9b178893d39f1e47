"""A seed becomes a world, a workload and faults; several lives of a broker later the checkers judge what was seen.

Everything that happens follows from the seed: the same seed gives the same history, in any process.
"""

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from danube.model.errors import DamagedDataError, DanubeError
from danube.storage.journal import JournalSettings
from danube.testing.checkers import Violation, check
from danube.testing.clock import SimClock
from danube.testing.disk import MachineOffError, Operation, SimDisk
from danube.testing.history import Event, Failed, Restarted
from danube.testing.storage_life import StorageLife
from danube.testing.storage_workload import drain, take_step
from danube.testing.storage_world import World, plan_world

LIVES = 5
"""Of the broker, with faults; two more follow without, to judge by."""
STEPS_MAX = 60
"""What happens in one life, at most, besides the passing of time."""
_IDLE = 0.15  # of the lives: they end right after the start, so that nothing else syncs what they found
_SHOWN_MAX = 8

_FAILING = [
    *[Operation.APPEND] * 4,
    *[Operation.SYNC] * 4,
    Operation.TRUNCATE,
    Operation.REWRITE,
    Operation.READ,
    Operation.CREATE,
    Operation.REMOVE,
    Operation.SYNC_FOLDER,
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    seed: int
    history: list[Event]
    lives: list[str]
    violations: list[Violation]

    def report(self) -> str:
        """What was broken, and how to see it again."""
        shown = [f"  {violation}" for violation in self.violations[:_SHOWN_MAX]]
        hidden = len(self.violations) - len(shown)
        return "\n".join(
            [
                f"seed {self.seed}: {len(self.violations)} violation(s)",
                *shown,
                *([f"  ... and {hidden} more"] if hidden else []),
                *(f"  life {number}: {life}" for number, life in enumerate(self.lives)),
                f"replay: pytest tests/simulation -k power_cuts --seed {self.seed}",
            ]
        )


def simulate_storage(seed: int, *, lives: int = LIVES) -> Outcome:
    """Run journal and dispatch through `lives` lives full of faults, and judge."""
    chance = random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets
    world = plan_world(chance, lives)
    settings = _plan_settings(chance)
    disk = SimDisk(chance.getrandbits(32))
    start_ms = SimClock().now_ms()
    for number in range(lives + 2):
        clock = SimClock(start_ms=start_ms)
        course = _Course(world, StorageLife(world, disk, clock, settings), number)
        steps = [course.misbehave] * lives + [course.drain, course.inspect]
        disk = asyncio.run(course.run(steps[number]))
        start_ms = clock.now_ms() + chance.choice([0, 1_000, -60_000])  # it may be set back while the broker is down
    return Outcome(seed, world.history, world.lives, check(world.history))


def _plan_settings(chance: random.Random) -> JournalSettings:
    return JournalSettings(
        file_bytes_max=chance.choice([1_500, 5_000, 20_000]),
        round_bytes_max=chance.choice([500, 4_000, 50_000]),
        cache_bytes_max=chance.choice([0, 2_000, 50_000]),
        backlog_bytes_max=30_000,
    )


class _Course:
    """What happens to one life of the broker, from its faults to its end."""

    def __init__(self, world: World, life: StorageLife, number: int) -> None:
        self._world = world
        self._chance = world.chance
        self._life = life
        self._disk = life.disk
        self._number = number
        self._story: list[str] = []
        self._room_again = STEPS_MAX

    async def run(self, course: Callable[[], Awaitable[None]]) -> SimDisk:
        """Go through a course to the bitter end; answers what the next life finds."""
        by_power = self._chance.random() < 0.6
        try:
            if await self._start_under(course):
                await course()
        except (MachineOffError, TimeoutError):
            self._life.note(Failed("", "the broker hangs"))  # unless the machine is off: then nobody notes anything
        except DanubeError as error:
            self._note_unless_explained(error)
        finally:
            disk = self._disk.power_cut() if by_power else self._disk.process_kill()
            await self._life.bury()
        self._tell("power cut" if by_power else "kill")
        self._world.lives.append(", ".join(self._story))
        self._world.history.append(Restarted(self._story[-1]))
        disk.capacity_bytes = None
        return disk

    async def misbehave(self) -> None:
        """Work while the disk does its worst, and go away in the middle of it or properly."""
        if self._chance.random() < _IDLE:
            self._tell("idle")
            return
        for plan in self._world.topics:
            for subscription in plan.subscriptions:
                if subscription.first_life <= self._number and not subscription.begun:
                    self._life.subscribe(plan, subscription)
        for step in range(self._chance.randint(1, STEPS_MAX)):
            if step == self._room_again:
                self._disk.capacity_bytes = None
            await take_step(self._life, self._world)
            if self._disk.is_off:
                return
        self._life.validate()
        if self._chance.random() < 0.2:
            self._tell("closed")
            await self._life.stop()

    async def drain(self) -> None:
        """Without faults: everything is delivered and acknowledged, and new messages are stored."""
        await drain(self._life, self._world)
        if self._chance.random() < 0.5:
            self._tell("closed")
            await self._life.stop()

    async def inspect(self) -> None:
        """Opening the journal has noted all there is to see."""
        self._life.validate()

    async def _start_under(self, course: Callable[[], Awaitable[None]]) -> bool:
        """Start the broker; says whether it could."""
        if course == self.misbehave:
            self._plan_faults()
        try:
            await self._life.start()
        except DanubeError as error:
            self._tell(f"did not start ({error})")
            self._note_unless_explained(error)
            return False
        return True

    def _note_unless_explained(self, error: DanubeError) -> None:
        """A failing disk explains much, but not damage: nothing here damages what was synced."""
        if isinstance(error, DamagedDataError) or not self._disk.failures:
            self._life.note(Failed("", str(error)))

    def _plan_faults(self) -> None:
        if self._chance.random() < 0.5:
            number = self._chance.choice([self._chance.randint(1, 6), self._chance.randint(1, 100)])
            self._disk.stop_at(number)
            self._tell(f"off at change {number}")
        if self._chance.random() < 0.4:
            for _ in range(self._chance.randint(1, 2)):
                self._plan_failure()
        if self._chance.random() < 0.15:
            room = self._chance.randint(0, 8_000)
            self._room_again = self._chance.randint(1, STEPS_MAX)
            self._disk.capacity_bytes = sum(map(len, self._disk.contents().values())) + room
            self._tell(f"room for {room} bytes until step {self._room_again}")

    def _plan_failure(self) -> None:
        operation = self._chance.choice(_FAILING)
        number, times = self._chance.randint(1, 25), self._chance.choice([1, 1, 3])
        error = self._chance.choice([errno.EIO, errno.ENOSPC])
        self._disk.fail(operation, number, error=error, times=times)
        self._tell(f"{operation} {number} fails {times}x with {errno.errorcode[error]}")

    def _tell(self, words: str) -> None:
        self._story.append(words)

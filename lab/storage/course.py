"""The lives of a broker in a simulation: the faults that strike each, its work, and its end."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

from danube.model.errors import DamagedDataError, DanubeError
from danube.runtime.rng import SystemRng
from danube.storage.settings import StorageSettings
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from lab.kernel.history import Failed, Restarted
from lab.storage.environment import METADATA, Environment
from lab.storage.life import StorageLife
from lab.storage.workload import drain, take_step
from lab.storage.world import World

LIVES = 5  # of the broker, with faults; two more follow without, to judge by
_SLOW = 0.05  # of the lives: a sync may take a second
STEPS_MAX = 60  # most steps of one life
_IDLE = 0.15  # of the lives: they end right after the start, so that nothing else syncs what they found

_FAILING = [
    *[Operation.APPEND] * 4,
    *[Operation.SYNC] * 4,
    Operation.TRUNCATE,
    Operation.REWRITE,
    *[Operation.READ] * 2,
    Operation.CREATE,
    Operation.RENAME,
    Operation.REMOVE,
    Operation.SYNC_FOLDER,
    Operation.MAKE_FOLDER,
    *[Operation.TRANSACT] * 2,
]
_WHERE = ["*", "*", "journal/*", "segments/*"]


def run_lives(world: World, settings: StorageSettings, *, may_lose_power: bool) -> None:
    """Run a broker through its lives, each on the disk that the one before left."""
    chance = world.chance
    disk, start_ms = SimDisk(chance.getrandbits(32)), SimClock().now_ms()
    for number in range(LIVES + 2):
        environment = Environment(
            disk=disk,
            clock=SimClock(start_ms=start_ms),
            rng=SystemRng(chance.getrandbits(63)),
            metadata=world.metadata,
            longest_s=1.0 if number < LIVES and chance.random() < _SLOW else 0.005,
        )
        course = Course(world, StorageLife(world, environment, settings, number), may_lose_power=may_lose_power)
        steps = [course.misbehave] * LIVES + [course.drain, course.inspect]
        disk = asyncio.run(course.run(steps[number]))
        start_ms = environment.clock.now_ms() + chance.choice([0, 1_000, -60_000])  # set back while the broker is down
        start_ms -= round(world.clock_off_s * 1_000)
        world.clock_off_s = 0.0


class Course:
    """One life of the broker, from its faults to its end."""

    def __init__(self, world: World, life: StorageLife, *, may_lose_power: bool = True) -> None:
        self._world, self._chance = world, world.chance
        self._life, self._disk = life, life.disk
        self._may_lose_power = may_lose_power
        self._story: list[str] = []
        self._room_again = STEPS_MAX

    async def run(self, course: Callable[[], Awaitable[None]]) -> SimDisk:
        """Go through a course to the bitter end; answers what the next life finds."""
        by_power = self._chance.random() < 0.6 and self._may_lose_power
        try:
            if await self._start_under(course):
                await course()
        except (MachineOffError, TimeoutError):
            self._life.note(Failed("", "the broker hangs"))  # unless the machine is off: then nobody notes anything
        except DanubeError as error:
            self._note_unless_explained(error)
        finally:
            disk = self._disk.power_cut() if by_power else self._disk.process_kill()
            await self._life.end_life()
        self._story.append("power cut" if by_power else "kill")
        self._world.lives.append(", ".join(self._story))
        self._world.history.append(Restarted(self._story[-1]))
        disk.capacity_bytes = None
        return disk

    async def misbehave(self) -> None:
        """Work while the disk does its worst, and go away in the middle of it or properly."""
        if self._chance.random() < _IDLE:
            self._story.append("idle")
            return
        self._life.subscribe_due()
        for step in range(self._chance.randint(1, STEPS_MAX)):
            if step == self._room_again:
                self._disk.capacity_bytes = None
            await take_step(self._life, self._world)
            if self._disk.is_off:
                return
        self._life.validate()
        if self._chance.random() < 0.2:
            self._story.append("closed")
            await self._life.stop()

    async def drain(self) -> None:
        """Without faults: everything is delivered and acknowledged, and new messages are stored."""
        await drain(self._life, self._world)
        if self._chance.random() < 0.5:
            self._story.append("closed")
            await self._life.stop()

    async def inspect(self) -> None:
        self._life.validate()

    async def _start_under(self, course: Callable[[], Awaitable[None]]) -> bool:
        """Start the broker; says whether it could."""
        if course == self.misbehave:
            self._plan_faults()
        in_background = course != self.misbehave or self._chance.random() < 0.8
        try:
            await self._life.start(in_background=in_background)
        except DanubeError as error:
            self._story.append(f"did not start ({error})")
            self._note_unless_explained(error)
            return False
        return True

    def _note_unless_explained(self, error: DanubeError) -> None:
        """A failing disk explains much, but not damage: nothing here damages what was synced."""
        if isinstance(error, DamagedDataError) or not self._disk.failed:
            self._life.note(Failed("", str(error)))

    def _plan_faults(self) -> None:
        if self._chance.random() < 0.5:
            number = self._chance.randint(1, self._chance.choice([6, 100, 400]))
            self._disk.stop_at(number)
            self._story.append(f"off at change {number}")
        if self._chance.random() < 0.4:
            for _ in range(self._chance.randint(1, 2)):
                self._plan_failure()
        if self._chance.random() < 0.15:
            room = self._chance.randint(0, self._chance.choice([8_000, 40_000]))
            self._room_again = self._chance.randint(1, STEPS_MAX)
            self._disk.capacity_bytes = sum(map(len, self._disk.contents().values())) + room
            self._story.append(f"room for {room} bytes until step {self._room_again}")

    def _plan_failure(self) -> None:
        operation = self._chance.choice(_FAILING)
        is_metadata = operation is Operation.TRANSACT
        number, times = self._chance.randint(1, 6 if is_metadata else 25), self._chance.choice([1, 1, 3])
        where = METADATA if is_metadata else self._chance.choice(_WHERE)
        error = self._chance.choice([errno.EIO, errno.ENOSPC])
        self._disk.fail(operation, number, error=error, name=where, times=times)
        self._story.append(f"{operation} {number} of {where} fails {times}x with {errno.errorcode[error]}")

"""An old copy of metadata under a full data folder: whatever a broker does on it, nothing that was acknowledged goes.

A broker lives through its faults while copies of its metadata are taken. Then one of them is put back, a broker works
on it for a while, and the newest metadata comes back in its turn: two more lives judge that all is there.
"""

import asyncio
from contextlib import suppress

from danube.metadata.state import State, StateSnapshot
from danube.model.errors import DanubeError
from danube.runtime.rng import SystemRng
from danube.storage.segment.manifest import SEGMENTS
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import MachineOffError, SimDisk
from lab.kernel.history import Failed, Keeps
from lab.kernel.judge import CURSORS_ARE_ANSWERED, Violation
from lab.storage.course import LIVES, Course
from lab.storage.environment import Environment, SimTopics
from lab.storage.life import StorageLife
from lab.storage.world import World

_LIVES = 3
_OLD_LIVES_MAX = 2
_OLD_S = 400.0  # of each life on an old copy: flushes, sweeps and merges come to all that is due


class OldMetadata:
    """A run, and the copies of its metadata."""

    def __init__(self, world: World, settings: StorageSettings) -> None:
        self._world = world
        self._chance = world.chance
        self._settings = settings
        self._disk = SimDisk(world.chance.getrandbits(32))
        self._now_ms = SimClock().now_ms()
        self._copies: list[StateSnapshot] = []
        self.faults: list[str] = []

    def run(self) -> None:
        """Live with faults, on an old copy, and with what was newest."""
        for number in range(_LIVES):
            self._copy()
            self._live(number, judges=False)
        newest = self._snapshot()
        for number in range(_LIVES, _LIVES + self._chance.randint(1, _OLD_LIVES_MAX)):
            self._put_back(self._chance.choice(self._copies))
            self._live_on_old(number)
        self._put_back(newest)
        for number in (LIVES, LIVES + 1):
            self._live(number, judges=True)

    def explains(self, violation: Violation) -> bool:
        """True for a cursor beyond messages that retention had trimmed, and that came back with what is older."""
        trims = [one.name for one in self._world.topics.values() if one.keeps is not Keeps.EVERYTHING]
        return violation.promise == CURSORS_ARE_ANSWERED and violation.topic in trims

    def _live(self, number: int, *, judges: bool) -> None:
        environment = self._environment()
        life = StorageLife(self._world, environment, self._settings, number)
        course = Course(self._world, life)
        steps = course.drain if judges and number == LIVES else course.inspect if judges else course.misbehave
        if not judges:
            self._chance_to_copy(life)
        self._disk = asyncio.run(course.run(steps))
        self._now_ms = environment.clock.now_ms() + 1_000 - round(self._world.clock_off_s * 1_000)
        self._world.clock_off_s = 0.0

    def _chance_to_copy(self, life: StorageLife) -> None:
        """Take copies in the middle of a life, too."""
        validate = life.disk.sync_folder

        def sync_folder(name: str) -> None:
            if self._chance.random() < 0.05:
                self._copy()
            validate(name)

        life.disk.sync_folder = sync_folder  # type: ignore[method-assign]

    def _live_on_old(self, number: int) -> None:
        environment = self._environment()
        self._world.lives.append("an old copy of the metadata")
        asyncio.run(self._on_old(environment, number))
        by_power = self._chance.random() < 0.5
        self._disk = self._disk.power_cut() if by_power else self._disk.process_kill()
        self._now_ms = environment.clock.now_ms() + 1_000

    async def _on_old(self, environment: Environment, number: int) -> None:
        disk, clock, world = environment.disk, environment.clock, self._world
        world.metadata.enter(disk, clock)
        folders = set(disk.list(SEGMENTS)) if disk.exists(SEGMENTS) else set()
        try:
            titles = await environment.wait_for(SimTopics(world.metadata, environment.rng).all())
            storage = await environment.wait_for(environment.open(self._settings, frozenset(titles.values())))
            await self._look_at_ids(environment, folders)
            storage.start()
            for topic_id in titles.values():
                with suppress(DanubeError, ValueError):  # of those that were deleted since
                    storage.topic(topic_id, epoch=number + 1)
            await clock.run_for(_OLD_S)
            await environment.wait_for(self._work(storage))
            if self._chance.random() < 0.5:
                await environment.wait_for(storage.close())
        except (DanubeError, MachineOffError, TimeoutError) as error:
            world.history.append(Failed("", f"a broker on old metadata: {error!r}"))
        finally:
            await environment.end_life()

    async def _work(self, storage: Storage) -> None:
        await storage.journal.rotate()
        for _ in range(3):
            await storage.flush()
        await storage.sweep_orphans()
        await storage.sweep_deleted()

    async def _look_at_ids(self, environment: Environment, folders: set[str]) -> None:
        highest = max((int(name) for name in folders if name.isdecimal()), default=0)
        given_out = await environment.wait_for(environment.records.last_topic_id())
        if given_out < highest:
            self.faults.append(f"topic id {given_out + 1} is given out, and something is stored under {highest}")

    def _environment(self) -> Environment:
        return Environment(
            disk=self._disk,
            clock=SimClock(start_ms=self._now_ms),
            rng=SystemRng(self._chance.getrandbits(63)),
            metadata=self._world.metadata,
        )

    def _snapshot(self) -> StateSnapshot:
        return self._world.metadata._state.snapshot()  # noqa: SLF001 - as a copy of the file has it

    def _copy(self) -> None:
        self._copies.append(self._snapshot())

    def _put_back(self, copy: StateSnapshot) -> None:
        self._world.metadata._state = State.of(copy)  # noqa: SLF001 - as a copy of the file has it

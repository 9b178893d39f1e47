"""Damage by the medium to synced files of a storage: flipped bits, cut ends, missing files.

A broker works without faults and stops. Then one file is damaged, and the next broker has to say so, name the file, or
serve what was stored: never other bytes, never less in silence, and a topic's segments are no other topic's trouble.
"""

import asyncio
import random
from dataclasses import dataclass, field

from danube.model.errors import DamagedDataError, DanubeError, DataFolderError, StorageUnavailableError
from danube.runtime.rng import SystemRng
from danube.storage.journal.format import MARK_NAME
from danube.storage.segment.manifest import folder_of
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import SimDisk
from lab.kernel.history import Event, Failed, LogFound
from lab.storage.clients import LogReader
from lab.storage.environment import Environment
from lab.storage.life import StorageLife
from lab.storage.workload import flush, rotate, take_step
from lab.storage.world import World

STEPS_MAX = 60
_WORKING_LIVES = 2
_EPOCH = 9
_TOLD = (DamagedDataError, StorageUnavailableError, DataFolderError)


@dataclass(frozen=True, slots=True)
class Damage:
    """A damage of one file."""

    name: str
    what: str

    @property
    def topic_folder(self) -> str | None:
        """The folder of the topic whose file it is; None of the journal's."""
        folder = self.name.rpartition("/")[0]
        return folder if folder.startswith("segments/") else None

    @property
    def is_harmless(self) -> bool:
        """True if the file only saves reading another one, or only describes others."""
        return self.name.endswith((".index", f"/{MARK_NAME}"))

    def is_named(self, error: DanubeError) -> bool:
        """True if the error leads to the file; for a file of the journal it may name another one that misses it."""
        return self.name in str(error) or (self.topic_folder is None and "journal/" in str(error))


def damage_one(disk: SimDisk, chance: random.Random) -> Damage:
    """Damage a file that a broker has left behind."""
    contents = {name: data for name, data in disk.contents().items() if data}
    folder = chance.choice(["journal/", "segments/", "segments/"])
    name = chance.choice([name for name in contents if name.startswith(folder)] or [*contents])
    size = len(contents[name])
    match chance.choice(["flip", "flip", "flip", "cut", "remove"]):
        case "flip":
            position, bit = chance.randrange(size), chance.randrange(8)
            disk.flip_bit(name, position, bit)
            return Damage(name, f"bit {bit} of byte {position} is flipped")
        case "cut":
            end = chance.randrange(size)
            disk.open_append(name).truncate(end)
            return Damage(name, f"only {end} of {size} bytes are left")
        case _:
            disk.remove(name)
            return Damage(name, "it is not there any more")


@dataclass(slots=True)
class Damaged:
    """A world whose disk was damaged, and what the next broker said."""

    world: World
    settings: StorageSettings
    chance: random.Random
    faults: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)  # the errors that were answered, as they should be
    damage: Damage | None = None
    _clock: SimClock = field(default_factory=SimClock)
    _stored: dict[int, LogFound] = field(default_factory=dict)

    def run(self) -> None:
        """Work, damage, judge."""
        disk = SimDisk(self.chance.getrandbits(32))
        for number in range(_WORKING_LIVES):
            disk = asyncio.run(self._work(disk, number))
        disk = asyncio.run(self._look(disk))
        damage = self.damage = damage_one(disk, self.chance)
        asyncio.run(self._judge(disk, damage))

    def _environment(self, disk: SimDisk) -> Environment:
        self.world.metadata.enter(disk, self._clock)
        rng = SystemRng(self.chance.getrandbits(63))
        return Environment(disk=disk, clock=self._clock, rng=rng, metadata=self.world.metadata)

    async def _work(self, disk: SimDisk, number: int) -> SimDisk:
        life = StorageLife(self.world, self._environment(disk), self.settings, number)
        await life.start()
        life.subscribe_due(all_of_them=True)
        for _ in range(self.chance.randint(STEPS_MAX // 2, STEPS_MAX)):
            await take_step(life, self.world)
        rotate(life, self.world)
        await life.clock.run_for(1.0)
        if self.chance.random() < 0.6:
            flush(life, self.world)
            await life.clock.run_for(1.0)
        await life.stop()
        left = disk.process_kill()
        await life.end_life()
        return left

    async def _look(self, disk: SimDisk) -> SimDisk:
        """Note what is stored, and stop again."""
        life = StorageLife(self.world, self._environment(disk), self.settings, _WORKING_LIVES)
        at = len(self.world.history)
        await life.start(in_background=False)
        ids = {plan.name: plan.topic_id for plan in self.world.topics.values()}
        found = [event for event in self.world.history[at:] if isinstance(event, LogFound)]
        self._stored = {ids[event.topic]: event for event in found}
        await life.stop()
        left = disk.process_kill()
        await life.end_life()
        return left

    async def _judge(self, disk: SimDisk, damage: Damage) -> None:
        environment = self._environment(disk)
        try:
            storage = await environment.wait_for(environment.open(self.settings, frozenset(self._stored)))
        except DanubeError as error:
            self._judge_error(damage, error, None)
        else:
            await environment.wait_for(self._judge_topics(storage, damage))
            await environment.wait_for(storage.flush())
            await environment.wait_for(self._judge_topics(storage, damage))
            await environment.wait_for(storage.close())
        disk.process_kill()
        await environment.end_life()

    async def _judge_topics(self, storage: Storage, damage: Damage) -> None:
        for topic_id, stored in self._stored.items():
            try:
                seen = await _read(storage, topic_id, stored.start)
            except DanubeError as error:
                self._judge_error(damage, error, topic_id)
            else:
                self._judge_log(stored, seen)

    def _judge_error(self, damage: Damage, error: DanubeError, topic_id: int | None) -> None:
        """An error is right of whatever the damaged file serves, and it leads there."""
        self.told.append(str(error))
        is_concerned = damage.topic_folder in (None, folder_of(topic_id) if topic_id is not None else None)
        if damage.is_harmless:
            self.faults.append(f"without {damage.name} everything is there: {error}")
        if not is_concerned:
            self.faults.append(f"{topic_id or 'the broker'} suffers from damage that is not its own: {error}")
        if not isinstance(error, _TOLD) or not damage.is_named(error):
            self.faults.append(f"{error!r} does not say that {damage.name} is damaged")

    def _judge_log(self, stored: LogFound, seen: list[Event]) -> None:
        before = dict(stored.records)
        for event in seen:
            if isinstance(event, Failed):
                self.faults.append(f"{stored.topic}: {event.what}")
            for offset, message in event.records if isinstance(event, LogFound) else ():
                if before.pop(offset, None) != message:
                    self.faults.append(f"{stored.topic}: offset {offset} is {message!r} now")
        if before:
            self.faults.append(f"{stored.topic}: nobody says that {sorted(before)} are gone")


async def _read(storage: Storage, topic_id: int, start: int) -> list[Event]:
    """Everything in a topic's log, and what is wrong with it. Raises DanubeError where it cannot be read."""
    seen: list[Event] = []
    log = storage.topic(topic_id, _EPOCH)
    if log.start_offset != start:
        seen.append(Failed(str(topic_id), f"the log begins at {log.start_offset}, it began at {start}"))
    await LogReader(str(topic_id), log, seen.append).look()
    return seen

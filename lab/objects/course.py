"""A course of brokers over one object store, by seed, and the promises that it is judged by.

Brokers append, flush, take topics over, release them, lose their process and their disk, and start again, while the
store answers SlowDown, loses answers, and does writes late. At the end the store answers, and one broker reads all.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import DanubeError
from danube.model.subscription import Cursor
from danube.storage.batches.batch import encode_messages, records
from danube.storage.log.topic_log import TopicLog
from danube.storage.takeover.object_storage import ObjectStorage
from danube.testing.simulated.disk import MachineOffError
from danube.testing.simulated.objects import Faults
from lab.kernel.chance import weighted
from lab.objects.world import ObjectsWorld

BROKERS = (1, 2, 3)
TOPICS = (1, 2)
STEPS = 60
_FAULTS = Faults(refused=0.05, unanswered=0.05, late=0.04)
_STUCK_S = 60.0
_TURNS = 40
_POWER_CUTS = 0.3
_SMALL_FILES = 3_000
"""Bytes of a journal file, where files are to leave often."""


@dataclass(slots=True)
class Told:
    """Answers about one topic to any client."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    uploaded: dict[int, bytes] = field(default_factory=dict)
    """Of these, with journals on disks: in the store for sure."""
    owner: int = 0
    """That acknowledged last."""
    sent: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class Course:
    """One seed's run; `violations` says what broke a promise."""

    world: ObjectsWorld
    told: dict[int, Told] = field(default_factory=lambda: {topic_id: Told() for topic_id in TOPICS})
    storages: dict[int, ObjectStorage] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    number: int = 0
    acknowledgements: int = 0
    gone: set[int] = field(default_factory=set)
    """Brokers that have lost their disks."""

    async def run(self) -> None:
        """Go through the course, and judge its end."""
        await self.world.create(*TOPICS)
        steps: dict[Callable[[], Awaitable[None]], float] = {
            self._append: 12,
            self._start: 2,
            self._take_over: 3,
            self._release: 1,
            self._kill: 2,
            self._flush: 3,
            self._remove_journals: 1,
            self._deliver_late: 1,
        }
        if self.world.is_local:
            steps |= {self._upload: 4, self._lose_disk: 2}
        await self._start()
        for _ in range(STEPS):
            await self._safely(weighted(self.world.chance, steps))
        await self._judge()

    async def _safely(self, step: Callable[[], Awaitable[None]]) -> None:
        """A broker that fails is started again; other errors than Danube's break a promise."""
        try:
            async with asyncio.timeout(_STUCK_S):
                await step()
        except TimeoutError:
            self.violations.append(f"{step.__name__} does not end")
        except (DanubeError, MachineOffError):
            await self._bury_stopped()

    def _any(self) -> tuple[int, ObjectStorage] | None:
        return self.world.chance.choice(sorted(self.storages.items())) if self.storages else None

    async def _append(self) -> None:
        chosen = self._any()
        if chosen is None:
            return
        number, storage = chosen
        for topic_id in sorted(storage.owned):
            log, told = storage.topic(topic_id), self.told[topic_id]
            waiting: list[tuple[bytes, asyncio.Future[object]]] = []
            for _ in range(self.world.chance.randint(1, 6)):
                self.number += 1
                record = b"%d/%d/" % (topic_id, self.number) + self.world.chance.randbytes(300)
                done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                told.sent.add(record)
                log.append_batch(encode_messages([record]), done.set_result)
                waiting.append((record, done))
            log.save_cursor(5, Cursor(max(told.acknowledged, default=0)), None)
            await asyncio.wait([one for _, one in waiting])
            for record, done in waiting:
                offset = done.result()
                if isinstance(offset, int):
                    self._acknowledge(topic_id, offset, record)
                    told.owner = number
        await self._bury_stopped()

    def _acknowledge(self, topic_id: int, offset: int, record: bytes) -> None:
        self.acknowledgements += 1
        before = self.told[topic_id].acknowledged.setdefault(offset, record)
        if before != record:
            self.violations.append(f"offset {offset} of topic {topic_id} was acknowledged twice")

    async def _start(self) -> None:
        free = [one for one in BROKERS if one not in self.storages]
        if free:
            number = self.world.chance.choice(free)
            self.gone.discard(number)
            self.storages[number] = await self.world.start(number, retries_max=6)

    async def _take_over(self) -> None:
        chosen = self._any()
        if chosen is not None:
            wanted = self.world.chance.sample(TOPICS, self.world.chance.randint(1, len(TOPICS)))
            await chosen[1].acquire(wanted, self._may_own)

    def _may_own(self, record: TopicStorage) -> bool:
        """With journals on disks a topic waits for its owner, unless that has lost its disk."""
        return not self.world.is_local or record.owner == 0 or record.owner in self.gone

    async def _upload(self) -> None:
        chosen = self._any()
        if chosen is not None:
            try:
                await chosen[1].upload()
            except OSError:
                return
            for told in self.told.values():
                if told.owner == chosen[0]:
                    told.uploaded = dict(told.acknowledged)

    async def _lose_disk(self) -> None:
        """Lose a disk: with it goes what it acknowledged and had not uploaded, and nothing else."""
        chosen = self._any()
        if chosen is None:
            return
        await self._kill_one(chosen[0])
        del self.world.disks[chosen[0]]
        self.gone.add(chosen[0])
        for told in self.told.values():
            if told.owner == chosen[0]:
                told.acknowledged = dict(told.uploaded)

    async def _release(self) -> None:
        chosen = self._any()
        if chosen is None or not chosen[1].owned:
            return
        topic_id = self.world.chance.choice(sorted(chosen[1].owned))
        log = chosen[1].topic(topic_id)

        async def stop() -> dict[int, Cursor]:
            cursor = log.cursor(5)
            return {} if cursor is None else {5: cursor}

        await chosen[1].release(topic_id, stop)

    async def _kill(self) -> None:
        chosen = self._any()
        if chosen is not None:
            del self.storages[chosen[0]]
            self.world.kill(chosen[0], power=self.world.chance.random() < _POWER_CUTS)

    async def _flush(self) -> None:
        chosen = self._any()
        if chosen is not None:
            await chosen[1].flush()

    async def _remove_journals(self) -> None:
        chosen = self._any()
        if chosen is not None:
            await chosen[1].remove_journals()

    async def _deliver_late(self) -> None:
        for way in self.world.all_ways:
            way.deliver_late()

    async def _bury_stopped(self) -> None:
        for number, storage in [*self.storages.items()]:
            if storage.stopped is not None:
                del self.storages[number]
                with contextlib.suppress(MachineOffError):
                    await self.world.stop(number)

    async def _judge(self) -> None:
        """A broker that is started last owns all, and has what was acknowledged, where it was."""
        await self._deliver_late()
        for number in [*self.storages]:
            await self._kill_one(number)
        self.world.faults = Faults()
        await self._deliver_late()
        if self.world.is_local:
            await self._release_all()
        storage = await self.world.start(9)
        owned = await storage.acquire(TOPICS)
        for topic_id in TOPICS:
            if topic_id not in owned:
                self.violations.append(f"topic {topic_id} cannot be served")
                continue
            await self._compare(storage, topic_id)

    async def _release_all(self) -> None:
        """Every broker comes back, and hands over what waited for it."""
        for number in BROKERS:
            storage = await self.world.start(number)
            for topic_id in sorted(storage.owned):
                log = storage.topic(topic_id)

                async def stop(log: TopicLog = log) -> dict[int, Cursor]:
                    cursor = log.cursor(5)
                    return {} if cursor is None else {5: cursor}

                await storage.release(topic_id, stop)

    async def _kill_one(self, number: int) -> None:
        del self.storages[number]
        self.world.kill(number)

    async def _compare(self, storage: ObjectStorage, topic_id: int) -> None:
        log, told = storage.topic(topic_id), self.told[topic_id]
        found: dict[int, bytes] = {}
        at = log.start_offset
        while batches := await log.read(at, 100_000):
            for batch in batches:
                found.update(enumerate(records(batch.body, 0, batch.count), batch.base_offset))
            at = batches[-1].end_offset
        lost = {offset for offset, record in told.acknowledged.items() if found.get(offset) != record}
        if lost:
            self.violations.append(f"topic {topic_id}: acknowledged offsets {sorted(lost)[:5]} are not what was stored")
        if strange := [offset for offset, record in found.items() if record not in told.sent]:
            self.violations.append(f"topic {topic_id}: offsets {strange[:5]} were never sent")
        if sorted(found) != list(range(log.start_offset, log.durable_end)):
            self.violations.append(f"topic {topic_id}: its offsets have gaps")


async def run_course(seed: int, *, is_local: bool = False) -> Course:
    """Run one seed, in the time of this process: nothing in it waits. `is_local` is for journals on disks."""
    faults = Faults(_FAULTS.refused, _FAULTS.unanswered, _FAULTS.late)
    file_bytes_max = _SMALL_FILES if is_local else 20_000
    course = Course(ObjectsWorld(seed=seed, faults=faults, is_local=is_local, file_bytes_max=file_bytes_max))
    try:
        await course.run()
    finally:
        await course.world.end()
    return course

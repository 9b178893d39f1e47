"""Brokers' storages over one shared folder, by seed: the whole life of topics that change their owners.

They take topics from each other by force and by plan, append, flush, retain, delete, remove journals, pause, fail, die,
lose their power and come back. The promises are in `lab.takeover.judge`.
"""

import asyncio
import contextlib
import errno
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from danube.metadata.memory import MemoryStore
from danube.metadata.records.storage import StorageRecords, add_ownership, add_tombstone
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import DanubeError, OffsetTrimmedError
from danube.model.subscription import Cursor
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.storage.batches.batch import encode_messages, records
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.storage.settings import StorageSettings
from danube.storage.takeover.shared_storage import SharedStorage
from danube.testing.simulated.clock import SimClock, end_tasks
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from lab.kernel.chance import seeded, weighted
from lab.takeover.environment import Machine

T = TypeVar("T")

BROKERS = (1, 2, 3)
STEPS = 120
SUBSCRIPTION = 5
_FAILING = [
    *[Operation.APPEND, Operation.SYNC, Operation.READ] * 2,
    Operation.CREATE,
    Operation.RENAME,
    Operation.REMOVE,
    Operation.SYNC_FOLDER,
    Operation.MAKE_FOLDER,
]
_TOPICS = 3
_KEPT_BYTES = 3_000
_TASKS_MAX = 3  # of one broker at a time
_PATIENCE_S = 300.0


@dataclass(slots=True)
class Topic:
    """Answers about one topic, to any client."""

    topic_id: int
    told: dict[int, bytes] = field(default_factory=dict)
    """By offset: what producers were told is stored, and what readers were shown."""
    sent: set[bytes] = field(default_factory=set)
    confirmed: int = 0  # the highest position of the subscription that is surely stored
    retained: bool = False  # whether retention may have taken something


@dataclass(slots=True, eq=False)
class Life:
    """One life of a broker."""

    machine: Machine
    storage: SharedStorage | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    release: set[int] = field(default_factory=set)
    pending: dict[int, list["asyncio.Future[Any]"]] = field(default_factory=dict)  # appends without an answer, by topic
    newest: dict[int, int] = field(default_factory=dict)  # positions of subscriptions, by topic; they never go back


class StuckError(Exception):
    """Something that has to come to an end does not."""


class SharedRun(ABC):
    """One run by seed."""

    def __init__(self, seed: int, settings: Callable[[random.Random], StorageSettings]) -> None:
        self.chance = seeded(seed)
        self.clock = SimClock()
        self.disk = SimDisk(self.chance.getrandbits(32))
        self.store = MemoryStore(self.clock)
        self.records = StorageRecords(self.store, SystemRng(seed))
        self.settings = settings(self.chance)
        self.topics = {number: Topic(number) for number in range(1, _TOPICS + 1)}
        self.deleted: set[int] = set()
        self.lives: dict[int, Life] = {}
        self.happened: list[str] = []
        self.faults: list[str] = []
        self._numbers = iter(range(1, 1_000_000))

    async def run(self) -> None:
        """Let things happen, then judge."""
        actions: dict[Callable[[], object], float] = {
            self.send: 12,
            self.save: 4,
            self.read: 3,
            self.acquire: 6,
            self.release: 3,
            partial(self.tidy, flush_once, "flushes"): 6,
            partial(self.tidy, SharedStorage.remove_journals, "retires"): 4,
            partial(self.tidy, self.retain, "retains"): 1.5,
            self.sweep: 1,
            self.delete: 0.6,
            self.cancel: 1,
            self.pause: 2,
            self.resume: 4,
            self.kill: 1,
            self.fail: 1,
            self.lose_power: 0.3,
        }
        for number in BROKERS:
            self.start(number)
        try:
            for topic_id in self.live():
                await self.create_topic(topic_id)
            for _ in range(STEPS):
                weighted(self.chance, actions)()
                await self.clock.run_for(self.chance.choice([0.0, 0.002, 0.01, 0.1]))
            await self.judge()
        except StuckError as error:
            self.wrong(f"stuck: {error}")
        finally:
            await self.end_life()

    # What happens

    def send(self) -> None:
        life, topic = self.some_topic()
        if life is None or topic.topic_id in life.release:
            return
        with contextlib.suppress(DanubeError, MachineOffError):
            log = self.log(life, topic)
            for _ in range(self.chance.randint(1, 4)):
                text = b"%d-%d " % (topic.topic_id, next(self._numbers)) + b"." * self.chance.randint(0, 400)
                topic.sent.add(text)
                stored = self.expect(life, topic, lambda outcome, text=text: self.told(topic, outcome, text))  # type: ignore[misc]
                log.append_batch(encode_messages([text]), stored)

    def save(self) -> None:
        """Have a position stored, of what is durable."""
        life, topic = self.some_topic()
        if life is None or topic.topic_id in life.release:
            return
        with contextlib.suppress(DanubeError, MachineOffError):
            log = self.log(life, topic)
            before = log.cursor(SUBSCRIPTION)
            least = max(life.newest.get(topic.topic_id, 0), before.position if before else log.start_offset)
            position = life.newest[topic.topic_id] = self.chance.randint(min(least, log.durable_end), log.durable_end)
            log.save_cursor(
                SUBSCRIPTION, Cursor(position), self.expect(life, topic, lambda _: self.confirm(topic, position))
            )

    def read(self) -> None:
        life, topic = self.some_topic()
        if life is not None:
            self.spawn(life, lambda: self.look(self.log(life, topic), topic), f"reads {topic.topic_id}")

    def acquire(self) -> None:
        """Have a broker begin with topics; one that cannot write any more, or is not there, starts."""
        number = self.chance.choice(BROKERS)
        life = self.lives.get(number)
        if life is None or (life.storage is not None and life.storage.stopped):
            self.start(number)
        elif life.storage is not None:
            storage = life.storage
            wanted = [each for each in self.live() if each not in storage.owned and self.chance.random() < 0.6]
            self.spawn(life, lambda: storage.acquire(wanted), f"begins {wanted}")

    def release(self) -> None:
        life, topic = self.some_topic()
        if life is not None and life.storage is not None and topic.topic_id not in life.release:
            storage = life.storage
            self.spawn(life, lambda: self.give_away(life, storage, topic), f"gives {topic.topic_id}")

    def tidy(self, work: Callable[[SharedStorage], Awaitable[object]], what: str) -> None:
        """Have one broker do background work on its storage."""
        for life, storage in self.some_storage():
            self.spawn(life, partial(work, storage), what)

    def sweep(self) -> None:
        """Have files removed that nobody needs."""
        for life, storage in self.some_storage():
            self.spawn(life, storage.sweep_orphans, "sweeps orphans")
            self.spawn(life, storage.sweep_deleted, "sweeps deleted topics")

    def delete(self) -> None:
        """Delete a topic, and have another one in its place; brokers hear of it, or do not."""
        topic_id = self.chance.choice(self.live())
        self.deleted.add(topic_id)
        following = len(self.topics) + 1
        self.topics[following] = Topic(following)
        self.asked(self.create_topic(following), "create")
        self.note(f"{topic_id} is deleted")
        self.asked(self.delete_topic(topic_id), "delete")
        for life in self.lives.values():
            if life.storage is not None and self.chance.random() < 0.7:
                life.storage.forget(topic_id)

    def cancel(self) -> None:
        """Have a broker give up what it has under way, at any point of it."""
        for life in self.some_life():
            under_way = [task for task in life.tasks if not task.done()] if life.storage is not None else []
            for task in under_way[:1]:
                task.cancel()
                self.note(f"{life.machine.number} is cancelled: {task.get_name()}")

    def pause(self) -> None:
        for life in self.some_life():
            life.machine.pause()
            self.note(f"{life.machine.number} pauses")

    def resume(self) -> None:
        paused = [life for life in self.lives.values() if life.machine.is_paused]
        for life in paused[:1]:
            life.machine.resume()
            self.note(f"{life.machine.number} goes on")

    def kill(self) -> None:
        for life in self.some_life():
            self.end(life.machine.number, "is killed")

    def fail(self) -> None:
        """Have one of the next things fail that a broker asks of the folder."""
        for life in self.some_life():
            operation, number = self.chance.choice(_FAILING), self.chance.randint(1, 8)
            life.machine.disk.fail(operation, number, error=self.chance.choice([errno.EIO, errno.ENOSPC]))
            self.note(f"{operation} {number} of {life.machine.number} fails")

    def lose_power(self) -> None:
        """End all of them, and of the folder is left what a power cut leaves."""
        self.note("power cut")
        for number in [*self.lives]:
            self.end(number, "is off")
        self.disk = self.disk.power_cut()

    # How

    def start(self, number: int) -> None:
        if number in self.lives:
            self.end(number, "is restarted")
        life = self.lives[number] = Life(Machine(number, self.disk.join(), self.clock, self.chance))

        async def open_it() -> None:
            life.storage = await life.machine.open(self.store, self.settings)

        self.spawn(life, open_it, "starts")

    def end(self, number: int, how: str) -> None:
        """End a life; what it had under way ends with it."""
        life = self.lives.pop(number)
        life.machine.kill()
        self.note(f"{number} {how}")
        for task in life.tasks:
            task.cancel()

    def spawn(self, life: Life, work: Callable[[], Awaitable[object]], what: str) -> None:
        """Have a broker do something meanwhile, unless it has enough to do."""
        life.tasks = [task for task in life.tasks if not task.done()]
        if len(life.tasks) < _TASKS_MAX:
            self.note(f"{life.machine.number} {what}")
            life.tasks.append(self.asked(self.carefully(life, work, what), what))

    def asked(self, work: Coroutine[Any, Any, T], what: str) -> "asyncio.Task[T]":
        """Something that is under way."""
        return TaskScope("simulation").spawn(work, what)

    async def carefully(self, life: Life, work: Callable[[], Awaitable[object]], what: str) -> None:
        """Run work that may be refused; any other error is a fault."""
        try:
            await work()
        except (DanubeError, MachineOffError, OSError) as error:
            self.note(f"{life.machine.number} {what}: {type(error).__name__} {error}"[:200])
        except Exception as error:
            self.wrong(f"broker {life.machine.number} {what}: {error!r}")

    def expect(self, life: Life, topic: Topic, then: Callable[[Any], None]) -> Callable[[Any], None]:
        """A callback for the journal, which `give_away` waits for."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = life.pending.setdefault(topic.topic_id, [])
        waiting.append(answered)

        def done(outcome: object) -> None:
            if not answered.done():
                answered.set_result(None)
            if not isinstance(outcome, DanubeError):
                then(outcome)

        return done

    async def give_away(self, life: Life, storage: SharedStorage, topic: Topic) -> None:
        """A planned move, from its owner's side."""

        async def stop() -> Mapping[int, Cursor]:
            life.release.add(topic.topic_id)
            for answered in life.pending.pop(topic.topic_id, []):
                await answered
            cursor = log.cursor(SUBSCRIPTION)
            return {SUBSCRIPTION: cursor} if cursor else {}

        log = self.log(life, topic)
        try:
            await storage.release(topic.topic_id, stop)
        finally:
            if topic.topic_id not in storage.owned:
                life.release.discard(topic.topic_id)

    async def retain(self, storage: SharedStorage) -> None:
        """Retention of all topics, which leaves what the subscription needs."""

        def unread(topic_id: int) -> int:
            cursor = storage.topic(topic_id).cursor(SUBSCRIPTION) if topic_id in storage.owned else None
            return min(cursor.position, self.topics[topic_id].confirmed) if cursor else 0

        for topic_id in storage.owned:
            self.topics[topic_id].retained = True
        await storage.retain(lambda _: Retention(None, _KEPT_BYTES), unread)

    async def create_topic(self, topic_id: int) -> None:
        """As the broker's control does when a topic is created."""
        builder = TransactionBuilder(self.store)
        add_ownership(builder, topic_id)
        await self.store.transact(builder.transaction(f"create {topic_id}"))

    async def delete_topic(self, topic_id: int) -> None:
        """As the broker's control does when a topic is deleted."""
        builder = TransactionBuilder(self.store)
        add_tombstone(builder, topic_id)
        await self.store.transact(builder.transaction(f"delete {topic_id}"))

    async def look(self, log: TopicLog, topic: Topic) -> None:
        """Read a topic from a place in it; what is shown once is promised to stay."""
        at = self.chance.randint(log.start_offset, log.durable_end)
        try:
            while batches := await log.read(at, self.chance.choice([1, 1_000, 100_000])):
                for batch in batches:
                    for text in records(batch.body, 0, batch.count):
                        self.told(topic, batch.base_offset, bytes(text))
                at = batches[-1].end_offset
        except OffsetTrimmedError:
            return

    def told(self, topic: Topic, offset: int, text: bytes) -> None:
        """Somebody was told that this is at this offset."""
        before = topic.told.setdefault(offset, text)
        if before != text:
            self.wrong(f"topic {topic.topic_id}: offset {offset} is {_short(before)} and {_short(text)}")
        if text not in topic.sent:
            self.wrong(f"topic {topic.topic_id}: offset {offset} is {_short(text)}, which nobody sent")

    def confirm(self, topic: Topic, position: int) -> None:
        topic.confirmed = max(topic.confirmed, position)

    def log(self, life: Life, topic: Topic) -> TopicLog:
        """The log of a topic that a broker owns; retention goes by those that are open."""
        assert life.storage is not None  # noqa: S101 - it has topics
        open_log = life.storage._logs.get(topic.topic_id)  # noqa: SLF001 - as a broker keeps the one it opened
        return open_log or life.storage.topic(topic.topic_id)

    def live(self) -> list[int]:
        """The topics that exist."""
        return [topic_id for topic_id in self.topics if topic_id not in self.deleted]

    def some_life(self) -> list[Life]:
        """One, if there is one."""
        return self.chance.sample([*self.lives.values()], k=min(1, len(self.lives)))

    def some_storage(self) -> list[tuple[Life, SharedStorage]]:
        """One that is open, if there is one."""
        found = [(life, life.storage) for life in self.lives.values() if life.storage is not None]
        return self.chance.sample(found, k=min(1, len(found)))

    def some_topic(self) -> tuple[Life | None, Topic]:
        """One that a broker takes for its own."""
        owned = [
            (life, self.topics[topic_id])
            for life in self.lives.values()
            if life.storage is not None
            for topic_id in sorted(life.storage.owned)
        ]
        return self.chance.choice(owned) if owned else (None, self.topics[1])

    def note(self, what: str) -> None:
        self.happened.append(what)

    def wrong(self, what: str) -> None:
        self.faults.append(what)

    async def patiently(self, work: Coroutine[Any, Any, object], what: str) -> None:
        """Let time pass until `work` is done."""
        task = self.asked(work, what)
        until_s = self.clock.monotonic_s() + _PATIENCE_S
        while not task.done():
            if self.clock.monotonic_s() > until_s:
                task.cancel()
                raise StuckError(f"{what} does not end")
            await self.clock.run_for(0.02)
        task.result()

    # The end

    @abstractmethod
    async def judge(self) -> None:
        """Have somebody take over what is left, and note what is wrong."""

    async def end_life(self) -> None:
        for number in [*self.lives]:
            self.end(number, "is over")
        await end_tasks(self.clock)


async def flush_once(storage: SharedStorage) -> None:
    """Begin a new journal file, and flush the others."""
    await storage.journal.rotate()  # otherwise only age does it
    await storage.flush()


def _short(text: bytes) -> str:
    return text.partition(b" ")[0].decode()

"""One life of a broker's storage and dispatch on a simulated disk: a journal, its topics, their consumers.

The real journal, dispatch driver and engine run in it; producers and consumers are as simple as can be. What they see
is noted in the world's history, until the machine is off: from then on nobody sees anything.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import Acknowledged, Appended, Nacked
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.errors import DanubeError, InternalError, InvalidBatchError, StorageUnavailableError
from danube.model.subscription import Cursor, SubscriptionType
from danube.rpc.carrier import Caller
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.storage.batch import RecordKind, RecordView, encode_messages, encode_payloads
from danube.storage.journal import Journal, JournalSettings
from danube.storage.log import StoredBatch, TopicLog
from danube.testing.blocking import SimRunner
from danube.testing.clock import SimClock
from danube.testing.disk import SimDisk
from danube.testing.history import (
    AppendAcknowledged,
    CursorFound,
    Delivered,
    DeliveryAcknowledged,
    Event,
    Failed,
    LogFound,
    Sent,
    Subscribed,
)
from danube.testing.storage_world import (
    BROKER_ID,
    SubscriptionPlan,
    TopicPlan,
    World,
    decode_record,
    encode_record,
)
from danube.wire.encode import record_of_payload

_TICK_S = 0.01
_PATIENCE_S = 30.0  # longer than anything here may take while the disk answers
_BURIAL_STEPS_MAX = 100
_WINDOW = 10

T = TypeVar("T")


class SimConsumer:
    """A consumer and its stream. It reads at once what it is sent, unless it stalls, and acknowledges when told to."""

    def __init__(self, life: "StorageLife", served: "ServedSubscription", consumer_id: int) -> None:
        self.consumer_id = consumer_id
        self.stalled = False
        self.attached = False
        self.unanswered: dict[int, None] = {}
        self._life = life
        self._served = served

    @property
    def caller(self) -> Caller:
        return Caller(address="memory")

    @property
    def room(self) -> int:
        return 0 if self.stalled else 1_000_000

    def open(self) -> None:
        return None

    def write(self, message: bytes) -> None:
        offset, text = decode_record(message)
        self.unanswered[offset] = None
        self._life.note(Delivered(self._served.topic.name, self._served.plan.name, offset, text))

    def finish(self) -> None:
        self.attached = False

    def fail(self, error: DanubeError) -> None:  # noqa: ARG002 - what the protocol gives
        self.attached = False

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None


@dataclass(slots=True)
class ServedSubscription:
    """A subscription that this life serves."""

    topic: TopicPlan
    plan: SubscriptionPlan
    driver: DispatchDriver
    consumers: list[SimConsumer] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether everything durable is acknowledged."""
        return not self.driver.engine.lag

    def attach(self, consumer: SimConsumer) -> None:
        """Open the consumer's stream, unless it is open."""
        if not consumer.attached:
            consumer.attached = True
            self.driver.attach(consumer.consumer_id, consumer, _WINDOW)

    def detach(self, consumer: SimConsumer) -> None:
        """Break the consumer's stream: what it has not answered is sent again."""
        if consumer.attached:
            consumer.attached = False
            consumer.unanswered.clear()
            self.driver.detach(consumer.consumer_id)

    def unstall(self, consumer: SimConsumer) -> None:
        """Have the consumer read again."""
        consumer.stalled = False
        if consumer.attached:
            self.driver.ready(consumer.consumer_id)


class StorageLife:
    """A broker from its start to its end."""

    def __init__(self, world: World, disk: SimDisk, clock: SimClock, settings: JournalSettings) -> None:
        self.disk = disk
        self.clock = clock
        self.subscriptions: list[ServedSubscription] = []
        self.unanswered = 0
        """Messages handed to the journal whose fate nobody was told yet."""
        self._world = world
        self._settings = settings
        self._logs: dict[str, TopicLog] = {}
        self._journal: Journal | None = None
        self._tasks = TaskScope("simulation")

    @property
    def journal(self) -> Journal:
        """The journal of a broker that has started."""
        if self._journal is None:
            raise InternalError("the broker has not started")
        return self._journal

    def note(self, event: Event) -> None:
        """Add to the history what someone saw."""
        if not self.disk.is_off:
            self._world.history.append(event)

    # From start to end

    async def start(self) -> None:
        """Open the journal, note what is in it, and serve every subscription that has begun. Raises DanubeError."""
        self.disk.lock("lock")
        rng = SystemRng(self._world.chance.getrandbits(63))
        journal = self._journal = await self.patiently(
            Journal.open(
                self.disk,
                self.clock,
                rng=rng,
                runner=SimRunner(self.clock, rng),
                read_runner=SimRunner(self.clock, rng),
                settings=self._settings,
                broker_id=BROKER_ID,
            )
        )
        for topic in self._world.topics:
            log = self._logs[topic.name] = journal.topic(topic.topic_id, epoch=1)
            await self.look_at(topic)
            for plan in topic.subscriptions:
                self._restore(topic, log, plan)

    async def stop(self) -> None:
        """End as a broker that was asked to."""
        await self.patiently(self.journal.close())

    async def bury(self) -> None:
        """End what is left of a life whose disk is off."""
        for served in self.subscriptions:
            served.driver.close()
        for _ in range(_BURIAL_STEPS_MAX):
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if not left:
                return
            for task in left:
                task.cancel()
            await self.clock.run_for(1.0)
        raise RuntimeError("tasks of a dead broker do not end")

    async def patiently(self, work: Coroutine[Any, Any, T]) -> T:
        """Let time pass until `work` is done. Raises TimeoutError when the machine goes off meanwhile, or it hangs."""
        task = self._tasks.spawn(work, "work")
        until_s = self.clock.monotonic_s() + _PATIENCE_S
        while not task.done():
            if self.disk.is_off or self.clock.monotonic_s() > until_s:
                raise TimeoutError("nobody answers any more" if self.disk.is_off else "this takes too long")
            await self.clock.run_for(_TICK_S)
        result: T = task.result()
        return result

    # Logs

    async def look_at(self, topic: TopicPlan) -> None:
        """Note all that is in a topic's log."""
        log = self._logs[topic.name]
        found: list[tuple[int, str]] = []
        end = log.durable_end
        offset = log.start_offset
        while offset < end:
            batches = await self.patiently(log.read(offset, 4_096))
            for batch in batches:
                found += _records(batch)
            offset = batches[-1].end_offset
        self.note(LogFound(topic.name, tuple(found)))

    def peek(self, topic: TopicPlan, offset: int) -> None:
        """Read a little from the log as someone who fetches would, and note it."""
        self._tasks.spawn(self._peek(topic, offset), "peek")

    def durable_end(self, topic: TopicPlan) -> int:
        """The offset after the topic's last durable record."""
        return self._logs[topic.name].durable_end

    async def _peek(self, topic: TopicPlan, offset: int) -> None:
        try:
            batches = await self._logs[topic.name].read(offset, 1_024)
        except StorageUnavailableError:
            return
        for batch in batches:
            for at, text in _records(batch):
                self.note(Delivered(topic.name, "reader", at, text))

    # Producers

    def send(self, topic: TopicPlan, producer: str, size: int) -> None:
        """Send one message, as an official client does."""
        text = self._world.next_message(topic)
        record = encode_record(topic, producer, text, size)
        self._append(topic, producer, [text], lambda log, done: log.append_record(record, done))

    def send_batch(self, topic: TopicPlan, producer: str, count: int, size: int) -> None:
        """Send a batch of messages that the client made."""
        texts = [self._world.next_message(topic) for _ in range(count)]
        if count % 2:
            body = encode_messages([encode_record(topic, producer, text, size) for text in texts])
        else:
            body = encode_payloads(encode_record(topic, producer, "", 0), [text.encode() for text in texts])
        self._append(topic, producer, texts, lambda log, done: log.append_batch(body, done))

    def send_damaged(self, topic: TopicPlan, producer: str) -> None:
        """Send a batch whose checksum is wrong: it must be refused, and nothing of it stored."""
        body = bytearray(encode_messages([encode_record(topic, producer, "damaged", 10)]))
        body[-20] ^= 1
        try:
            self._logs[topic.name].append_batch(bytes(body), lambda _: None)
        except (InvalidBatchError, StorageUnavailableError):
            return
        self.note(Failed(topic.name, "a batch with a wrong checksum was accepted"))

    def _append(
        self, topic: TopicPlan, producer: str, texts: list[str], append: Callable[[TopicLog, Callable[..., None]], None]
    ) -> None:
        for text in texts:
            self.note(Sent(topic.name, producer, text))

        def done(outcome: int | DanubeError) -> None:
            self.unanswered -= 1
            if isinstance(outcome, int):
                for offset, text in enumerate(texts, outcome):
                    self.note(AppendAcknowledged(topic.name, text, offset))

        self.unanswered += 1
        try:
            append(self._logs[topic.name], done)
        except DanubeError as error:
            self.unanswered -= 1
            if not error.retryable:
                self.note(Failed(topic.name, f"a message was refused: {error}"))

    # Subscriptions and consumers

    def subscribe(self, topic: TopicPlan, plan: SubscriptionPlan) -> None:
        """Begin a subscription at the log's end, once that is durable."""
        log = self._logs[topic.name]
        start = log.durable_end

        def saved(error: DanubeError | None) -> None:
            if error is None and not self.disk.is_off and not plan.begun:
                plan.begun = True
                self.note(self._subscribed(topic, plan, start))
                self._serve(topic, log, plan, Cursor(start))

        log.save_cursor(plan.subscription_id, Cursor(start), saved)

    def acknowledge(self, served: ServedSubscription, consumer: SimConsumer, offsets: range) -> None:
        """Have a consumer be done with those of `offsets` that it was sent."""
        done = [offset for offset in consumer.unanswered if offset in offsets]
        for offset in done:
            del consumer.unanswered[offset]
            self.note(DeliveryAcknowledged(served.topic.name, served.plan.name, offset))
            served.driver.handle(Acknowledged(offset, offset + 1))

    def nack(self, served: ServedSubscription, consumer: SimConsumer, offset: int) -> None:
        """Have a consumer send one message back."""
        del consumer.unanswered[offset]
        served.driver.handle(Nacked(offset))

    def validate(self) -> None:
        """Note every engine whose state is wrong."""
        for served in self.subscriptions:
            try:
                served.driver.engine.validate()
            except InternalError as error:
                self.note(Failed(served.topic.name, str(error)))

    def _restore(self, topic: TopicPlan, log: TopicLog, plan: SubscriptionPlan) -> None:
        if self.disk.is_off:
            return
        cursor = log.cursor(plan.subscription_id)
        if not plan.begun and cursor is not None:  # it began, but the broker died before it could say so
            plan.begun = True
            self.note(self._subscribed(topic, plan, cursor.position))
        if plan.begun:
            self.note(CursorFound(topic.name, plan.name, cursor))
            self._serve(topic, log, plan, cursor or Cursor(0))

    def _subscribed(self, topic: TopicPlan, plan: SubscriptionPlan, start: int) -> Subscribed:
        return Subscribed(topic.name, plan.name, start, exclusive=plan.type is SubscriptionType.EXCLUSIVE)

    def _serve(self, topic: TopicPlan, log: TopicLog, plan: SubscriptionPlan, cursor: Cursor) -> None:
        engine = DispatchEngine(plan.type, cursor, log.durable_end, RedeliveryPolicy())
        driver = DispatchDriver(
            log,
            plan.subscription_id,
            engine,
            clock=self.clock,
            tasks=self._tasks,
            on_unreadable=lambda consumer_id: self._break(served, consumer_id),
        )
        served = ServedSubscription(topic, plan, driver)
        served.consumers = [SimConsumer(self, served, index + 1) for index in range(plan.consumers)]
        log.on_durable(lambda durable_end: driver.handle(Appended(durable_end)))
        self.subscriptions.append(served)
        for consumer in served.consumers:
            served.attach(consumer)

    def _break(self, served: ServedSubscription, consumer_id: int) -> None:
        for consumer in served.consumers:
            if consumer.consumer_id == consumer_id:
                served.detach(consumer)


def _records(batch: StoredBatch) -> list[tuple[int, str]]:
    view = RecordView(batch.body)
    records = view.slice(0, batch.count)
    if view.header.kind is RecordKind.PAYLOADS:
        records = [record_of_payload(view.shared, record) for record in records]
    return [(offset, decode_record(record)[1]) for offset, record in enumerate(records, batch.base_offset)]

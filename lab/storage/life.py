"""One life of a broker's storage and dispatch on a simulated machine: its topics, their producers and consumers.

The real storage, dispatch driver and engine run in it; producers and consumers are as simple as can be. What they see
is noted in the world's history, until the machine is off: from then on nobody sees anything.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import Acknowledged, Appended, Nacked
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.errors import (
    DamagedDataError,
    DanubeError,
    InternalError,
    InvalidBatchError,
    StorageUnavailableError,
)
from danube.model.subscription import Cursor, SubscriptionType
from danube.runtime.tasks import TaskScope
from danube.storage.batches.batch import encode_messages, encode_payloads
from danube.storage.log.topic_log import TopicLog
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.simulated.disk import MachineOffError, Operation
from lab.kernel.history import (
    AppendAcknowledged,
    CursorFound,
    DeliveryAcknowledged,
    Event,
    Failed,
    Sent,
    Subscribed,
    TopicBegun,
    TopicDeleted,
)
from lab.storage.clients import LogReader, ServedSubscription, SimConsumer
from lab.storage.environment import Environment, SimTopics
from lab.storage.world import SubscriptionPlan, TopicPlan, World, encode_record

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class ServedTopic:
    """A topic that this life serves."""

    plan: TopicPlan
    log: TopicLog
    subscriptions: list[ServedSubscription] = field(default_factory=list)
    beginning: dict[int, int] = field(default_factory=dict)  # where subscriptions start that nobody was told of yet

    @property
    def oldest_unread(self) -> int | None:
        """The lowest offset that a subscription needs, after a crash too; None without subscriptions."""
        needed = list(self.beginning.values())
        for served in self.subscriptions:
            durable = self.log.cursor(served.plan.subscription_id)
            needed.append(min(served.driver.engine.position, durable.position if durable is not None else 0))
        return min(needed, default=None)

    def pass_over(self, start_offset: int) -> None:
        for served in self.subscriptions:
            served.pass_over(start_offset)


class StorageLife:
    """A broker from its start to its end."""

    def __init__(self, world: World, environment: Environment, settings: StorageSettings, number: int) -> None:
        self.disk = environment.disk
        self.clock = environment.clock
        self.wait_for = environment.wait_for
        self.topics: list[ServedTopic] = []
        self.unanswered = 0  # messages handed to the journal whose fate nobody was told yet
        self._world = world
        self._environment = environment
        self._settings = settings
        self._number = number
        self._metadata = SimTopics(environment.metadata, environment.rng)
        self._storage: Storage | None = None
        self._closing = False
        self._tasks = TaskScope("simulation", on_failure=self._note_crash)

    @property
    def storage(self) -> Storage:
        """The storage of a broker that has started."""
        if self._storage is None:
            raise InternalError("the broker has not started")
        return self._storage

    @property
    def subscriptions(self) -> list[ServedSubscription]:
        return [served for topic in self.topics for served in topic.subscriptions]

    def note(self, event: Event) -> None:
        if not self.disk.is_off:
            self._world.history.append(event)

    # From start to end

    async def start(self, *, in_background: bool = True) -> None:
        """Open the storage, note what is in it, and serve every topic and subscription there is. Raises DanubeError.

        In the background it is flushed and swept as in a broker; otherwise only on demand.
        """
        self.disk.lock("lock")
        self._environment.metadata.enter(self.disk, self.clock)
        titles = await self.wait_for(self._metadata.all())
        self._note_deleted(frozenset(titles.values()))
        self._storage = await self.wait_for(self._environment.open(self._settings, frozenset(titles.values())))
        if in_background:
            self.storage.start()
        for title in self._world.titles:
            if title in titles:
                await self._serve_topic(self._world.topics[titles[title]])
            else:
                await self.create(title)

    async def stop(self) -> None:
        """End as a broker that was asked to."""
        self._closing = True
        await self.wait_for(self.storage.close())

    async def end_life(self) -> None:
        for served in self.subscriptions:
            served.driver.close()
        await self._environment.end_life()

    def spawn(self, work: Callable[[], Coroutine[Any, Any, object]], name: str) -> None:
        """Have something done meanwhile; it may fail when the disk does, and not for another reason."""
        self._tasks.spawn(self._unless_the_disk_fails(work, name), name)

    def read(self, topic: ServedTopic, work: Callable[[LogReader], Coroutine[Any, Any, object]], name: str) -> None:
        """Have somebody read meanwhile; it may fail when the topic is deleted, too."""
        self._tasks.spawn(self._unless_the_disk_fails(lambda: work(self._reader(topic)), name, topic), name)

    # Topics

    async def create(self, title: str) -> None:
        """Make a topic and serve it; whether it was made may become known only later."""
        plan = self._world.next_topic(title, self._number + 1)
        try:
            await self.wait_for(self._metadata.create(title, plan.topic_id))
        except DanubeError as error:
            self._note_unless_explained(error)
            return
        await self._serve_topic(plan)
        if plan.created:
            self.subscribe_due()

    async def delete(self, topic: ServedTopic) -> None:
        """Delete a topic, as an administrator has it done; whether it is may become known only later."""
        for served in topic.subscriptions:
            served.driver.close()
        self.topics.remove(topic)
        topic.log.close()
        try:
            await self.wait_for(self._metadata.delete(topic.plan.title, topic.plan.topic_id))
        except DanubeError as error:
            self._note_unless_explained(error)
            return
        self._note_deleted(frozenset(self._world.topics) - {topic.plan.topic_id})
        self.storage.forget(topic.plan.topic_id)

    async def look_at(self, topic: ServedTopic) -> None:
        """Note all that is in a topic's log."""
        await self.wait_for(self._reader(topic).look())

    # Producers

    def send(self, topic: ServedTopic, producer: str, size: int) -> None:
        """Send one message, as an official client does."""
        text = self._world.next_message(topic.plan)
        record = encode_record(topic.plan, producer, text, size)
        self._append(topic, producer, [text], lambda log, done: log.append_record(record, done))

    def send_batch(self, topic: ServedTopic, producer: str, count: int, size: int) -> None:
        """Send a batch of messages that the client made."""
        texts = [self._world.next_message(topic.plan) for _ in range(count)]
        if count % 2:
            body = encode_messages([encode_record(topic.plan, producer, text, size) for text in texts])
        else:
            body = encode_payloads(encode_record(topic.plan, producer, "", 0), [text.encode() for text in texts])
        self._append(topic, producer, texts, lambda log, done: log.append_batch(body, done))

    def send_damaged(self, topic: ServedTopic, producer: str) -> None:
        """Send a batch whose checksum is wrong: it must be refused, and nothing of it stored."""
        body = bytearray(encode_messages([encode_record(topic.plan, producer, "damaged", 10)]))
        body[-20] ^= 1
        try:
            topic.log.append_batch(bytes(body), lambda _: None)
        except (InvalidBatchError, StorageUnavailableError):
            return
        self.note(Failed(topic.plan.name, "a batch with a wrong checksum was accepted"))

    def _append(
        self,
        topic: ServedTopic,
        producer: str,
        texts: list[str],
        append: Callable[[TopicLog, Callable[..., None]], None],
    ) -> None:
        for text in texts:
            self.note(Sent(topic.plan.name, producer, text))

        def done(outcome: int | DanubeError) -> None:
            self.unanswered -= 1
            if isinstance(outcome, int):
                for offset, text in enumerate(texts, outcome):
                    self.note(AppendAcknowledged(topic.plan.name, text, offset))

        self.unanswered += 1
        try:
            append(topic.log, done)
        except DanubeError as error:
            self.unanswered -= 1
            if not error.retryable:
                self.note(Failed(topic.plan.name, f"a message was refused: {error}"))

    # Subscriptions and consumers

    def subscribe_due(self, *, all_of_them: bool = False) -> None:
        for topic in self.topics:
            for plan in topic.plan.subscriptions:
                if not plan.begun and (all_of_them or plan.first_life <= self._number):
                    self._subscribe(topic, plan)

    def _subscribe(self, topic: ServedTopic, plan: SubscriptionPlan) -> None:
        """Begin a subscription at the log's end, once that is durable."""
        if plan.subscription_id in topic.beginning:
            return
        start = topic.beginning[plan.subscription_id] = topic.log.durable_end

        def saved(error: DanubeError | None) -> None:
            del topic.beginning[plan.subscription_id]
            if error is None and not self.disk.is_off and not plan.begun:
                plan.begun = True
                self.note(_subscribed(topic, plan, start))
                self._serve(topic, plan, Cursor(start))

        topic.log.save_cursor(plan.subscription_id, Cursor(start), saved)

    def acknowledge(self, served: ServedSubscription, consumer: SimConsumer, offsets: range) -> None:
        """Have a consumer be done with those of `offsets` that it was sent."""
        done = [offset for offset in consumer.unanswered if offset in offsets]
        for offset in done:
            del consumer.unanswered[offset]
            self.note(DeliveryAcknowledged(served.topic.name, served.plan.name, offset))
            served.driver.handle(Acknowledged(offset, offset + 1))

    def nack(self, served: ServedSubscription, consumer: SimConsumer, offset: int) -> None:
        del consumer.unanswered[offset]
        served.driver.handle(Nacked(offset))

    def validate(self) -> None:
        for served in self.subscriptions:
            try:
                served.driver.engine.validate()
            except InternalError as error:
                self.note(Failed(served.topic.name, str(error)))

    # Inside

    async def _serve_topic(self, plan: TopicPlan) -> None:
        """Note what is in a topic, and serve it and its subscriptions, unless the disk keeps that from being so."""
        try:
            topic = ServedTopic(plan, self.storage.topic(plan.topic_id, epoch=self._number + 1))
            if not plan.created and not self.disk.is_off:
                plan.created = True
                self.note(TopicBegun(plan.name, plan.keeps))
            await self.look_at(topic)
        except DanubeError as error:
            self._note_unless_explained(error)
            return
        self.topics.append(topic)
        topic.log.on_trimmed(topic.pass_over)
        for subscription in plan.subscriptions:
            self._restore(topic, subscription)

    def _restore(self, topic: ServedTopic, plan: SubscriptionPlan) -> None:
        if self.disk.is_off:
            return
        cursor = topic.log.cursor(plan.subscription_id)
        if not plan.begun and cursor is not None:  # it began, but the broker died before it could say so
            plan.begun = True
            self.note(_subscribed(topic, plan, max(cursor.position, topic.log.start_offset)))
        if plan.begun:
            self.note(CursorFound(topic.plan.name, plan.name, cursor))
            self._serve(topic, plan, cursor or Cursor(0))

    def _serve(self, topic: ServedTopic, plan: SubscriptionPlan, cursor: Cursor) -> None:
        driver = DispatchDriver(
            topic.log,
            plan.subscription_id,
            DispatchEngine(plan.type, cursor, topic.log.durable_end, RedeliveryPolicy()),
            clock=self.clock,
            tasks=self._tasks,
            on_unreadable=lambda consumer_id: served.break_off(consumer_id),  # noqa: PLW0108 - it is made below
        )
        name = topic.plan.name
        consumers = [SimConsumer(self.note, name, plan.name, index + 1) for index in range(plan.consumers)]
        served = ServedSubscription(topic.plan, plan, driver, consumers)
        topic.log.on_durable(lambda durable_end: driver.handle(Appended(durable_end)))
        topic.subscriptions.append(served)
        served.pass_over(topic.log.start_offset)
        for consumer in served.consumers:
            served.attach(consumer)

    def _note_deleted(self, topic_ids: frozenset[int]) -> None:
        """Note which of the topics that were there are not among these."""
        for plan in self._world.topics.values():
            if plan.created and not plan.deleted and plan.topic_id not in topic_ids and not self.disk.is_off:
                plan.deleted = True
                self.note(TopicDeleted(plan.name))

    def _reader(self, topic: ServedTopic) -> LogReader:
        return LogReader(topic.plan.name, topic.log, self.note)

    async def _unless_the_disk_fails(
        self, work: Callable[[], Coroutine[Any, Any, object]], name: str, topic: ServedTopic | None = None
    ) -> None:
        try:
            await work()
        except DanubeError as error:
            if self._closing or (topic is not None and topic not in self.topics):
                return
            self._note_unless_explained(error, name, is_read=topic is not None)

    def _note_unless_explained(self, error: DanubeError, what: str = "", *, is_read: bool = False) -> None:
        """A failing disk explains much, but not damage: nothing here damages what was synced.

        That nothing can be written explains no read that fails.
        """
        explained = Operation.READ in self.disk.failed if is_read else bool(self.disk.failed)
        if isinstance(error, DamagedDataError) or not explained:
            self.note(Failed("", f"{what}: {error}" if what else str(error)))

    def _note_crash(self, error: BaseException) -> None:
        if not isinstance(error, MachineOffError):
            self.note(Failed("", f"a task failed: {error!r}"))


def _subscribed(topic: ServedTopic, plan: SubscriptionPlan, start: int) -> Subscribed:
    return Subscribed(topic.plan.name, plan.name, start, exclusive=plan.type is SubscriptionType.EXCLUSIVE)

"""Telemetry publisher: the task that publishes readings of this broker to the topic `/system/telemetry`.

`changes.py` selects them, `readings.py` makes them. A tick never delays the broker: it works in slices. A batch that
cannot be stored is left out, since the next one contains the same and more.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from danube.broker.subscriptions.subscription import AnySubscription, ReliableSubscription
from danube.broker.telemetry.changes import Entity, EntityReading, Mark, Selection, TelemetryChanges
from danube.broker.telemetry.readings import (
    Totals,
    mark_subscription,
    mark_topic,
    read_broker,
    read_subscription,
    read_topic,
)
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.client import OutgoingMessage
from danube.model.errors import DanubeError, PreconditionFailedError, StorageUnavailableError
from danube.model.limits.broker import (
    TELEMETRY_FULL_INTERVAL_S,
    TELEMETRY_LOOKS_MAX,
    TELEMETRY_RECORDS_MAX,
    TELEMETRY_SLICE_S,
)
from danube.model.message import producer_id
from danube.model.records.telemetry import (
    TELEMETRY_PRODUCER,
    TELEMETRY_TOPIC,
    BrokerReading,
    Reading,
    Stamp,
    encode_record,
)
from danube.model.topic import TopicName
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.process import Process
from danube.runtime.tasks import outcome_of
from danube.storage.batches.batch import BatchOrigin, encode_payloads
from danube.storage.store import Storage
from danube.wire.encode import send_message

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySource:
    """The source in each record."""

    broker_id: int
    start_id: int
    """Of this start of the broker."""
    broker_url: str
    version: str


class Telemetry:
    """Publishes one batch a tick, of one record for each thing that changed; see `docs/formats/telemetry.md`."""

    def __init__(
        self,
        topics: Topics,
        storage: Storage,
        source: TelemetrySource,
        *,
        clock: Clock,
        process: Process,
        runner: BlockingRunner,
        records_max: int = TELEMETRY_RECORDS_MAX,
    ) -> None:
        """`process` is asked through `runner`. A batch has at most `records_max` records."""
        self._topics = topics
        self._storage = storage
        self._source = source
        self._clock = clock
        self._process = process
        self._runner = runner
        self._records_max = records_max
        self._changes = self._new_changes()
        self._topic_id = 0
        """Of the topic to which readings were published."""
        self._started_s = clock.monotonic_s()
        self._sequence = 0
        self._failing = False

    async def run(self, interval_s: float) -> None:
        """A tick every `interval_s`, for ever."""
        while True:
            await sleep_for(self._clock, interval_s)
            await self.tick()

    async def open(self) -> None:
        """Create the topic if it is not there; where it cannot be, that is logged, and each tick tries again."""
        try:
            await self._topic()
        except DanubeError as error:
            self._failed(error)

    async def tick(self) -> int:
        """Publish the changes; answers the number of records. A failure is logged once."""
        try:
            published = await self._publish()
        except DanubeError as error:
            self._failed(error)
            return 0
        if self._failing:
            self._failing = False
            _log.info("telemetry is published again")
        return published

    async def _publish(self) -> int:
        if self._storage.stopped is not None:
            raise StorageUnavailableError(self._storage.stopped)
        topic = await self._topic()
        if topic.record.topic_id != self._topic_id:
            self._topic_id = topic.record.topic_id
            self._changes = self._new_changes()
        totals = await self._observe()
        at_ms = self._clock.now_ms()
        selection = self._changes.select(self._clock.monotonic_s())
        if not selection:
            return 0
        usage = await self._runner.run(self._process.usage)
        uptime_s = self._clock.monotonic_s() - self._started_s
        broker = read_broker(self._storage, totals, usage, self._source.version, uptime_s)
        records = await self._encode(selection, broker, at_ms)
        body = self._body(topic.record.name, records)
        await outcome_of(lambda done: topic.log.append_batch(body, done))
        self._changes.commit(selection)
        self._sequence += len(records)
        topic.messages_in += len(records)
        topic.bytes_in += sum(map(len, records))
        return len(records)

    def _new_changes(self) -> TelemetryChanges:
        """One record of a batch is the broker's own."""
        return TelemetryChanges(records_max=self._records_max - 1, full_interval_s=TELEMETRY_FULL_INTERVAL_S)

    async def _topic(self) -> ReliableTopic:
        """The topic; created again when it was deleted. Raises PreconditionFailedError when it keeps no messages."""
        topic = await self._topics.own_topic(TELEMETRY_TOPIC)
        if not isinstance(topic, ReliableTopic):
            raise PreconditionFailedError(f"{TELEMETRY_TOPIC} is not a reliable topic: delete it, it is made anew")
        return topic

    async def _observe(self) -> Totals:
        """Observe every topic and subscription."""
        self._changes.begin()
        totals = Totals()
        turns = _Turns(self._clock)
        await self._read_unread_times()
        for entity, mark, read in _everything(self._topics, totals):
            self._changes.observe(entity, mark, read)
            if turns.is_over():
                await turns.next()
        return totals

    async def _read_unread_times(self) -> None:
        """Read the append time of the oldest unread message of subscriptions, some of them in each tick."""
        left = TELEMETRY_LOOKS_MAX
        turns = _Turns(self._clock)
        for topic in list(self._topics):
            for subscription in list(topic.subscriptions.values()):
                if not left or self._storage.silence() is not None:
                    return
                if isinstance(subscription, ReliableSubscription) and subscription.must_read_unread_time:
                    left -= 1
                    await subscription.read_unread_time()
            if turns.is_over():
                await turns.next()

    async def _encode(self, selection: Selection, broker: BrokerReading, at_ms: int) -> list[bytes]:
        """The records of a selection, the broker's own last."""
        turns = _Turns(self._clock)
        records: list[bytes] = []
        for sequence, (reading, full, gone) in enumerate(_contents(selection, broker), self._sequence):
            stamp = Stamp(
                broker_id=str(self._source.broker_id),
                start_id=str(self._source.start_id),
                sequence=sequence,
                at_ms=at_ms,
                full=full,
                gone=gone,
            )
            records.append(encode_record(stamp, reading))
            if turns.is_over():
                await turns.next()
        return records

    def _body(self, topic: TopicName, records: list[bytes]) -> bytes:
        """A batch that names no producer id: the numbers of a producer go on after a restart, and these do not."""
        now_ms = self._clock.now_ms()
        shared = OutgoingMessage(
            request_id=0,
            producer_id=producer_id(topic, TELEMETRY_PRODUCER),
            topic=str(topic),
            broker_addr=self._source.broker_url,
            payload=b"",
            publish_time_ms=now_ms,
            producer_name=TELEMETRY_PRODUCER,
        )
        origin = BatchOrigin(first_publish_ms=now_ms, last_publish_ms=now_ms)
        return encode_payloads(send_message(shared), records, origin)

    def _failed(self, error: DanubeError) -> None:
        if not self._failing:
            _log.warning("telemetry cannot be published, and is left out until it can: %s", error)
        self._failing = True


class _Turns:
    """Yields to the event loop after each time slice."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_s = clock.monotonic_s()

    def is_over(self) -> bool:
        return self._clock.monotonic_s() >= self._begun_s + TELEMETRY_SLICE_S

    async def next(self) -> None:
        await asyncio.sleep(0)
        self._begun_s = self._clock.monotonic_s()


def _everything(topics: Topics, totals: Totals) -> Iterator[tuple[Entity, Mark, Callable[[], EntityReading]]]:
    """Each topic and subscription as it is when it is asked for: they change, come and go meanwhile."""
    for topic in list(topics):
        totals.add(topic)
        yield (topic.name, None), mark_topic(topic), partial(read_topic, topic)
        subscriptions: list[tuple[str, AnySubscription]] = [*topic.subscriptions.items()]
        for name, subscription in subscriptions:
            read = partial(read_subscription, topic, subscription)
            yield (topic.name, name), mark_subscription(topic, subscription), read


def _contents(selection: Selection, broker: BrokerReading) -> Iterator[tuple[Reading, bool, bool]]:
    for each in selection.chosen:
        yield each.reading, each.full, each.gone
    yield broker, selection.ends_full_round, False

"""Life of a sink's task: one partition, from its subscription to the other side."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from danube.client import Consumer, ConsumerOptions
from danube.client.message import Message
from danube.connect.batch import Batch, Partition, Record
from danube.connect.config.routes import SinkRoute
from danube.connect.failures import StandbyError
from danube.connect.sdk import Context, Definition, Delivery
from danube.connect.tasks.careful_writer import CarefulWriter
from danube.connect.tasks.dead_letters import SUBSCRIPTION, DeadLetterTopic, as_sent
from danube.connect.tasks.decoding import Decoding
from danube.connect.tasks.surroundings import Draining, Surroundings
from danube.model.calls.stream import FetchFrom
from danube.model.errors import (
    InvalidRequestError,
    PreconditionFailedError,
    SettingsError,
    TopicNotFoundError,
    UnsupportedError,
)
from danube.model.limits.faces import (
    CONNECT_IDLE_S,
    CONNECT_PREFETCH_BATCHES,
    CONNECT_RECONNECT_S,
    CONNECT_REPLAY_IDLE_TURNS,
)
from danube.model.ranges import RangeSet
from danube.model.records.connectors import Status
from danube.model.subscription import SubscriptionType

REPLAY = "-replay"
"""After a subscription's name, that of the subscription to its dead letters."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class WrittenOffsets:
    """Offsets that the other side has and whose acknowledgement is not confirmed; it outlives a life."""

    topic_id: int = 0
    ranges: RangeSet = field(default_factory=RangeSet)

    def of(self, topic_id: int) -> RangeSet:
        """Those of a topic; of a topic made anew there are none."""
        if topic_id != self.topic_id:
            self.topic_id, self.ranges = topic_id, RangeSet()
        return self.ranges


class SinkLife:
    """From one subscription to its end. Raises what ends it; a new one continues."""

    def __init__(
        self,
        around: Surroundings,
        definition: Definition,
        context: Context,
        topic: str,
        *,
        draining: Draining,
        written: WrittenOffsets,
        replay_until: int | None = None,
    ) -> None:
        """With `replay_until` the topic is one of dead letters, and its life is complete at that offset."""
        self._around = around
        self._route: SinkRoute = context.route
        self._topic = topic
        self._draining = draining
        self._subscription = self._route.subscription or around.config.name
        self._is_exact = definition.delivery is Delivery.EXACTLY_ONCE
        self._sink = definition.make(context)
        self._letters = DeadLetterTopic(
            around.client,
            self._route.dead_letters,
            f"{around.config.name}-dlq",
            self._subscription.removesuffix(REPLAY),
        )
        self._decoding = Decoding(around.client, definition.schema, self._route.expected_schema_subject)
        self._writer = CarefulWriter(
            self._sink.write,
            self._refuse,
            tries_max=around.config.retry.max_retries,
            backoff=around.config.retry.backoff,
            clock=around.clock,
            rng=around.rng,
            metrics=around.metrics,
            saves_ends=self._is_exact,
        )
        self._memory = written
        self._written = written.ranges
        self._partition = Partition(topic)
        self._has_offsets = True
        self._next: int | None = None
        """Of an exact sink, the end of what the other side has; None while it has nothing."""
        self._replay_until = replay_until
        self._idle_turns = self._end = 0
        self._is_level = not self._is_exact
        """The other side was compared with the end of the topic."""

    async def run(self) -> None:
        """Serve until it is to drain."""
        await self._find_partition()
        consumer = self._consumer()
        try:
            await self._sink.open()
            await consumer.subscribe()
            if self._is_exact:
                self._next = await self._sink.position(self._partition)
                self._around.state.position = self._next
            self._around.state.change(Status.RUNNING, self._around.clock.monotonic_s())
            while not (self._draining.wanted or self._is_complete()):
                await self._turn(consumer)
        finally:
            try:
                await consumer.end(in_order=True)  # a failure of the other side is none of the messages
                await self._letters.close()
            finally:
                await self._sink.close()

    def _is_complete(self) -> bool:
        """True for a replay that is at its end, or gets nothing any more: an earlier one has been there."""
        if self._replay_until is None:
            return False
        return self._end >= self._replay_until or self._idle_turns >= CONNECT_REPLAY_IDLE_TURNS

    async def _turn(self, consumer: Consumer) -> None:
        messages = await self._gather(consumer)
        self._idle_turns = 0 if messages else self._idle_turns + 1
        if messages:
            self._around.metrics.received.inc(len(messages))
            await self._take(messages)
            await self._acknowledge(consumer, messages)
            self._end = max(message.offset for message in messages) + 1
        elif not self._is_level:
            self._is_level = True
            if self._next is not None:
                await self._fill((await self._around.client.bounds(self._topic)).end_offset)

    async def _gather(self, consumer: Consumer) -> list[Message]:
        """The messages of the next batch; none after a while without any."""
        processing, clock = self._around.config.processing, self._around.clock
        messages = await consumer.receive_many(processing.batch_size, timeout_s=CONNECT_IDLE_S)
        until_s = clock.monotonic_s() + processing.batch_timeout_ms / 1_000
        while messages and len(messages) < processing.batch_size and not self._draining.wanted:
            left_s = until_s - clock.monotonic_s()
            if left_s <= 0:
                break
            messages += await consumer.receive_many(processing.batch_size - len(messages), timeout_s=left_s)
        return messages

    async def _take(self, messages: list[Message]) -> None:
        """Have the other side hold these messages, and an exact one all before them."""
        if not self._has_offsets:
            await self._write(messages, 0, 0)
            return
        fresh = [message for message in messages if self._is_fresh(message.offset)]
        if len(fresh) < len(messages) or (self._is_exact and self._next is None):
            await self._start_offset()
            self._around.metrics.repeated.inc(len(messages) - len(fresh))
        for run in _runs(sorted(fresh, key=_offset)):
            start, end = run[0].offset, run[-1].offset + 1
            if self._is_exact:
                await self._fill(start)
            await self._write(run, start, end)

    def _is_fresh(self, offset: int) -> bool:
        if self._is_exact:
            return self._next is None or offset >= self._next
        return offset not in self._written

    async def _fill(self, until: int) -> None:
        """Write what the other side lacks before an offset: it was restored, or records come out of order."""
        if self._next is None or self._next >= until:
            return
        first = await self._start_offset()
        if first > self._next:
            gone = min(first, until)
            _log.warning("%s: offsets %d to %d are gone, and were never written", self._topic, self._next, gone - 1)
            self._next = gone
        if self._next < until:
            _log.info("%s: the other side has all before %d: reading up to %d again", self._topic, self._next, until)
            await self._write_stored(self._next, until)
        self._next = until

    async def _start_offset(self) -> int:
        """The first offset that the topic has. Raises StandbyError where it is another topic of the same name."""
        bounds = await self._around.client.bounds(self._topic)
        if bounds.topic_id != self._partition.topic_id:
            raise StandbyError(f"topic {self._topic} was made anew: its task begins anew, too")
        return bounds.start_offset

    async def _write_stored(self, start: int, end: int) -> None:
        size, chunk = self._around.config.processing.batch_size, list[Message]()
        async with aclosing(self._around.client.fetch(self._topic, start=start, end=end)) as stored:
            async for message in stored:
                chunk.append(message)
                if len(chunk) == size:
                    await self._write(chunk, start, chunk[-1].offset + 1)
                    start, chunk = chunk[-1].offset + 1, []
        if chunk:
            await self._write(chunk, start, end)

    async def _write(self, messages: Sequence[Message], start: int, end: int) -> None:
        with self._around.metrics.batch(len(messages)):
            decoded = await self._decoding.decode(self._own(messages))
            for record, reason in decoded.refused:
                await self._refuse(record, reason, 1)
            await self._writer.write(Batch(self._partition, start, end, decoded.records))
        self._around.metrics.processed.inc(len(decoded.records))
        self._around.state.written += len(messages)
        if self._is_exact:
            self._next = end
        elif self._has_offsets:
            self._written.add(start, end)
        self._around.state.position = end

    def _own(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those that are for this sink: of dead letters, the ones that it refused."""
        if self._replay_until is None:
            return messages
        origin = self._subscription.removesuffix(REPLAY)
        return [as_sent(each) for each in messages if each.attributes.get(SUBSCRIPTION) == origin]

    async def _refuse(self, record: Record[Any], reason: str, tries: int) -> None:
        self._around.metrics.failed.inc()
        await self._letters.store(record.message, reason, tries, self._around.clock.now_ms())
        self._around.metrics.dead_letters.inc()
        self._around.state.dead += 1
        _log.warning(
            "%s: record %d of %s is in %s: %s",
            *(self._around.config.name, record.offset, self._topic, self._letters.topic, reason),
        )

    async def _acknowledge(self, consumer: Consumer, messages: list[Message]) -> None:
        await consumer.ack_many(messages)
        if self._has_offsets and not self._is_exact:
            for run in _runs(sorted(messages, key=_offset)):
                self._written.remove(run[0].offset, run[-1].offset + 1)

    async def _find_partition(self) -> None:
        """The id of the topic, and whether it has offsets."""
        try:
            bounds = await self._around.client.bounds(self._topic)
        except TopicNotFoundError:
            raise StandbyError(f"topic {self._topic} is not there") from None
        except (UnsupportedError, PreconditionFailedError, InvalidRequestError):
            self._has_offsets = False
            if self._is_exact:
                raise SettingsError(
                    f"{self._topic} keeps no offsets, which an exact sink needs: use a reliable topic"
                ) from None
            return
        self._partition = Partition(self._topic, bounds.topic_id)
        self._written = self._memory.of(bounds.topic_id)

    def _consumer(self) -> Consumer:
        if self._is_exact and self._route.subscription_type is SubscriptionType.SHARED:
            raise SettingsError(
                f"the route of {self._route.topic} has subscription_type Shared, and an exact sink needs all records "
                "of a partition: use Exclusive or Failover"
            )
        around, route = self._around, self._route
        builder = around.client.new_consumer().with_topic(self._topic).with_subscription(self._subscription)
        builder.with_consumer_name(f"{around.config.name}-{around.rng.new_id():x}")
        builder.with_subscription_type(route.subscription_type)
        builder.with_options(ConsumerOptions(connect_total_s=CONNECT_RECONNECT_S, retry_total_s=CONNECT_RECONNECT_S))
        if not self._has_offsets:
            builder.with_streams(enabled=False)
        elif route.start == "earliest":
            builder.with_start(FetchFrom.EARLIEST)
        return builder.with_prefetch_messages(CONNECT_PREFETCH_BATCHES * around.config.processing.batch_size).build()


def _offset(message: Message) -> int:
    return message.offset


def _runs(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Messages whose offsets follow on one another, of a list in order; repeated ones are left out."""
    run: list[Message] = []
    for message in messages:
        if run and message.offset == run[-1].offset:
            continue
        if run and message.offset != run[-1].offset + 1:
            yield run
            run = []
        run.append(message)
    if run:
        yield run

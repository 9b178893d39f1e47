"""Clients of a simulated storage: consumers with the subscriptions that serve them, and readers of whole logs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.events import SkipRange
from danube.model.errors import DanubeError, OffsetTrimmedError
from danube.rpc.carrier import Caller
from danube.runtime.clock import Clock, sleep_for
from danube.storage.batches.batch import RecordKind, RecordView
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.topic_log import TopicLog
from danube.wire.encode import record_of_payload
from lab.kernel.history import Delivered, Event, Failed, LogFound
from lab.storage.world import SubscriptionPlan, TopicPlan, decode_record

_WINDOW = 10


class SimConsumer:
    """A consumer and its stream. It reads at once what it is sent, unless it stalls, and acknowledges when told to."""

    is_left = False

    def __init__(self, note: Callable[[Event], None], topic: str, subscription: str, consumer_id: int) -> None:
        self.consumer_id = consumer_id
        self.stalled = False
        self.attached = False
        self.unanswered: dict[int, None] = {}
        self._note = note
        self._topic = topic
        self._subscription = subscription

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
        self._note(Delivered(self._topic, self._subscription, offset, text))

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

    def break_off(self, consumer_id: int) -> None:
        for consumer in self.consumers:
            if consumer.consumer_id == consumer_id:
                self.detach(consumer)

    def unstall(self, consumer: SimConsumer) -> None:
        consumer.stalled = False
        if consumer.attached:
            self.driver.ready(consumer.consumer_id)

    def pass_over(self, start_offset: int) -> None:
        """Retention has let the messages below go: the subscription goes on behind them."""
        position = self.driver.engine.position
        if position < start_offset:
            self.driver.handle(SkipRange(position, start_offset))


READER = "reader"  # the subscription of readers in the history
_TRIMMED_MAX = 20  # how often retention may move the start while a reader is at it


class LogReader:
    """Reads one topic's log. Raises what the log raises, but for what retention took: it goes on behind that."""

    def __init__(self, name: str, log: TopicLog, note: Callable[[Event], None]) -> None:
        self._name = name
        self._log = log
        self._note = note

    async def look(self) -> None:
        """Note all that is in the log."""
        for _ in range(_TRIMMED_MAX):
            start, found = self._log.start_offset, list[tuple[int, str]]()
            try:
                await self._read_on(start, self._log.durable_end, 4_096, found.extend)
            except OffsetTrimmedError:
                continue
            self._note(LogFound(self._name, tuple(found), start))
            return
        self._note(Failed(self._name, "the start of the log moves all the time"))

    async def read_through(self, clock: Clock, pauses_s: Sequence[float]) -> None:
        """Read from offset 0 to the end as a replay does, with pauses in which the log goes on; note each message."""
        at = 0
        for pause_s in pauses_s:
            try:
                batches = await self._read(at, 1_024)
            except OffsetTrimmedError as error:
                at = error.start_offset
                continue
            if not batches:
                return
            self._deliver(records_of(batches))
            at = batches[-1].end_offset
            await sleep_for(clock, pause_s)

    async def peek(self, offset: int) -> None:
        """Read a little, as someone who fetches would, and note it."""
        try:
            self._deliver(records_of(await self._read(offset, 1_024)))
        except OffsetTrimmedError as error:
            if error.start_offset <= offset:
                self._note(Failed(self._name, f"offset {offset} is refused, though the log begins before it"))

    async def find_time(self, append_time_ms: int) -> None:
        """Look for the first message of a time on, and note it when it is not."""
        end = self._log.durable_end
        found = await self._log.offset_at(append_time_ms)
        times = [await self._log.append_time_ms(offset) for offset in (found - 1, found) if offset >= 0]
        before, after = times if found else (None, *times)
        if before is not None and before >= append_time_ms:
            self._note(Failed(self._name, f"offset {found - 1} is of {append_time_ms} ms or later: {found} was found"))
        if after is None and found < end and found >= self._log.start_offset:
            self._note(Failed(self._name, f"offset {found} was found by its time, and has none"))
        if after is not None and after < append_time_ms and found < end:
            self._note(Failed(self._name, f"offset {found} was found for {append_time_ms} ms: it is of {after} ms"))

    async def _read_on(self, at: int, end: int, bytes_max: int, take: Callable[[list[tuple[int, str]]], None]) -> None:
        time_ms = 0
        while at < end:
            batches = await self._read(at, bytes_max)
            if not batches:
                self._note(Failed(self._name, f"there is nothing at offset {at}, and the log ends at {end}"))
                return
            times = [time_ms, *(batch.append_time_ms for batch in batches)]
            if times != sorted(times):
                self._note(Failed(self._name, f"append times go back after offset {at}: {times}"))
            take(records_of(batches))
            at, time_ms = batches[-1].end_offset, times[-1]

    async def _read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        batches = await self._log.read(offset, bytes_max)
        at = offset
        for batch in batches:
            if not batch.base_offset <= at < batch.end_offset or (at > offset and batch.base_offset != at):
                self._note(Failed(self._name, f"{batch.base_offset} to {batch.end_offset} was read at offset {at}"))
            at = batch.end_offset
        return batches

    def _deliver(self, records: list[tuple[int, str]]) -> None:
        for offset, text in records:
            self._note(Delivered(self._name, READER, offset, text))


def records_of(batches: Sequence[StoredBatch]) -> list[tuple[int, str]]:
    """Every record of the batches: its offset and its text."""
    found: list[tuple[int, str]] = []
    for batch in batches:
        view = RecordView(batch.body)
        records = view.slice(0, batch.count)
        if view.header.kind is RecordKind.PAYLOADS:
            records = [record_of_payload(view.shared, record) for record in records]
        found += [(offset, decode_record(record)[1]) for offset, record in enumerate(records, batch.base_offset)]
    return found

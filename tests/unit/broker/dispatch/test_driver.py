import asyncio
from typing import cast

import pytest

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import Acknowledged, DeadLetter, Nacked, Seek
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.calls.client import OutgoingMessage
from danube.model.errors import DamagedDataError, OffsetTrimmedError
from danube.model.limits.broker import DEAD_LETTER_RETRY_S, RECEIVE_FAILURE_DELAY_S
from danube.model.policies import PoisonPolicy
from danube.model.subscription import Cursor, SubscriptionType
from danube.rpc.carrier import ServerStream
from danube.runtime.tasks import TaskScope
from danube.storage.batches.batch import encode_payloads
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.topic_log import TopicLog
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from danube.wire.decode import received_message
from danube.wire.encode import send_message

COUNT = 4
SHARED = send_message(
    OutgoingMessage(
        request_id=1,
        producer_id=1,
        topic="/default/t",
        broker_addr="",
        payload=b"",
        publish_time_ms=1,
        producer_name="p",
    )
)


class ColdLog:
    """A log whose batches are read when the test says so."""

    topic_id = 1
    durable_end = COUNT

    def __init__(self) -> None:
        self.may_read = asyncio.Event()

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        """Nothing is in memory."""
        return None

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        await self.may_read.wait()
        return [StoredBatch(0, COUNT, 1, encode_payloads(SHARED, [b"x"] * COUNT))]

    def save_cursor(self, subscription_id: int, cursor: Cursor) -> None:
        """Not asked for here."""


class TrimmedLog(ColdLog):
    """One whose first batches went while they were asked for."""

    start_offset = 2
    reads = 0

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        self.reads += 1
        found = await super().read(offset, bytes_max)
        if offset < self.start_offset:
            raise OffsetTrimmedError("gone", self.start_offset)
        return found


class DamagedLog(ColdLog):
    """One that cannot be read."""

    reads = 0

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        self.reads += 1
        raise DamagedDataError("a bit is wrong")


class HotLog(ColdLog):
    """One whose batches are in memory."""

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        return [StoredBatch(0, COUNT, 1, encode_payloads(SHARED, [b"x"] * COUNT))] if offset < COUNT else []


class Stream:
    """Keeps the offsets that were written."""

    room = 1_000

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.written = asyncio.Event()

    def write(self, message: bytes) -> None:
        self.offsets.append(received_message(message).offset)
        self.written.set()


def driver_of(
    log: ColdLog, tasks: TaskScope, clock: SimClock, kind: SubscriptionType, policy: RedeliveryPolicy
) -> DispatchDriver:
    engine = DispatchEngine(kind, Cursor(0), COUNT, policy)
    return DispatchDriver(cast("TopicLog", log), 1, engine, clock=clock, tasks=tasks, on_unreadable=lambda _: None)


async def test_what_waited_to_be_written_before_a_seek_is_not_written_twice() -> None:
    log, stream, tasks = ColdLog(), Stream(), TaskScope("test")
    driver = driver_of(log, tasks, SimClock(), SubscriptionType.SHARED, RedeliveryPolicy())
    driver.attach(1, cast("ServerStream", stream), 10)
    driver.handle(Seek(1))
    log.may_read.set()
    async with asyncio.timeout(PATIENCE_S):
        await stream.written.wait()
    assert stream.offsets == [1, 2, 3]
    await tasks.close()


async def test_what_cannot_be_read_is_logged_once_and_told_each_time(caplog: pytest.LogCaptureFixture) -> None:
    log, tasks, clock = DamagedLog(), TaskScope("test"), SimClock()
    told: list[int] = []
    engine = DispatchEngine(SubscriptionType.SHARED, Cursor(0), COUNT, RedeliveryPolicy())
    driver = DispatchDriver(cast("TopicLog", log), 1, engine, clock=clock, tasks=tasks, on_unreadable=told.append)
    for turn in range(3):
        driver.attach(1, cast("ServerStream", Stream()), 10)
        await clock.run_for(RECEIVE_FAILURE_DELAY_S)
        driver.detach(1)
        assert (log.reads, told) == (turn + 1, [1] * (turn + 1))
    assert [record.message for record in caplog.records] == ["offset 0 of topic id 1 cannot be read: a bit is wrong"]
    await tasks.close()


async def test_keys_that_are_not_in_memory_are_read_in_the_background() -> None:
    log, stream, tasks = ColdLog(), Stream(), TaskScope("test")
    driver = driver_of(log, tasks, SimClock(), SubscriptionType.KEY_SHARED, RedeliveryPolicy())
    driver.attach(1, cast("ServerStream", stream), 10, ("p*",))
    assert stream.offsets == []
    log.may_read.set()
    async with asyncio.timeout(PATIENCE_S):
        await stream.written.wait()
    assert stream.offsets == [0]
    await tasks.close()


@pytest.mark.parametrize(
    ("kind", "expected"), [(SubscriptionType.EXCLUSIVE, [2, 3]), (SubscriptionType.KEY_SHARED, [2])]
)
async def test_a_read_for_what_retention_let_go_of_goes_on_at_what_is_left(
    kind: SubscriptionType, expected: list[int]
) -> None:
    log, stream, tasks = TrimmedLog(), Stream(), TaskScope("test")
    driver = driver_of(log, tasks, SimClock(), kind, RedeliveryPolicy())
    driver.attach(1, cast("ServerStream", stream), 10)
    log.may_read.set()
    async with asyncio.timeout(PATIENCE_S):
        await stream.written.wait()
    assert stream.offsets == expected
    assert driver.engine.position == TrimmedLog.start_offset
    assert log.reads <= 3
    await tasks.close()


class StalledStream(Stream):
    """One that takes nothing until it is told to, and then as many messages as it is told."""

    room = 0

    def write(self, message: bytes) -> None:
        super().write(message)
        self.room -= 1


def hot_driver(kind: SubscriptionType, clock: SimClock, tasks: TaskScope) -> DispatchDriver:
    """Of a log whose batches are in memory, so that nothing but the stream holds a message up."""
    log = HotLog()
    return driver_of(log, tasks, clock, kind, RedeliveryPolicy(ack_timeout_s=30.0, max_redelivery_count=2))


async def test_what_a_stalled_consumer_was_never_sent_does_not_time_out() -> None:
    clock, tasks, stream = SimClock(), TaskScope("test"), StalledStream()
    driver = hot_driver(SubscriptionType.EXCLUSIVE, clock, tasks)
    driver.attach(1, cast("ServerStream", stream), 2)
    await clock.run_for(30.5)  # what had been sent would be in back-off now, and new messages go out
    stream.room = 1_000
    driver.ready(1)
    assert stream.offsets == [0, 1]
    assert driver.counts.redelivered == 0
    await tasks.close()


async def test_an_acknowledgement_of_what_was_never_sent_changes_nothing() -> None:
    clock, tasks, stream = SimClock(), TaskScope("test"), StalledStream()
    driver = hot_driver(SubscriptionType.EXCLUSIVE, clock, tasks)
    driver.attach(1, cast("ServerStream", stream), 2)
    await clock.run_for(30.5)
    driver.handle(Acknowledged(0, 2))
    assert driver.engine.position == 0
    await tasks.close()


async def test_nothing_overtakes_what_a_stalled_consumer_waits_for() -> None:
    clock, tasks, stream = SimClock(), TaskScope("test"), StalledStream()
    driver = hot_driver(SubscriptionType.EXCLUSIVE, clock, tasks)
    driver.attach(1, cast("ServerStream", stream), 3)
    await clock.run_for(20.0)
    stream.room = 1
    driver.ready(1)
    await clock.run_for(10.5)  # the first one timed out, those behind it were never sent
    stream.room = 1_000
    driver.ready(1)
    assert stream.offsets[:3] == [0, 1, 2]
    await tasks.close()


async def test_another_consumer_gets_what_a_stalled_one_was_never_sent() -> None:
    clock, tasks, stalled, other = SimClock(), TaskScope("test"), StalledStream(), Stream()
    driver = hot_driver(SubscriptionType.SHARED, clock, tasks)
    driver.attach(1, cast("ServerStream", stalled), COUNT)
    driver.attach(2, cast("ServerStream", other), COUNT)
    await clock.run_for(30.5)
    assert other.offsets == [0, 1, 2, 3]
    driver.engine.validate()
    await tasks.close()


async def test_a_dead_letter_that_nobody_carries_is_kept_and_tried_again() -> None:
    log, stream, tasks, clock = ColdLog(), Stream(), TaskScope("test"), SimClock()
    policy = RedeliveryPolicy(
        max_redelivery_count=0, poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic="/default/d", base_delay_s=0.0
    )
    driver = driver_of(log, tasks, clock, SubscriptionType.EXCLUSIVE, policy)
    driver.attach(1, cast("ServerStream", stream), 10)
    driver.handle(Nacked(0))
    assert (driver.engine.dead_letters, driver.engine.position) == (1, 0)
    dead_letters: list[DeadLetter] = []
    driver.on_dead_letter = dead_letters.append
    clock.advance(DEAD_LETTER_RETRY_S)
    assert [dead_letter.offset for dead_letter in dead_letters] == [0]
    await tasks.close()

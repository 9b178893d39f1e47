import asyncio
from typing import cast

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import Nacked, Seek
from danube.broker.dispatch.instructions import DeadLetter
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.calls import OutgoingMessage
from danube.model.limits import DEAD_LETTER_RETRY_S
from danube.model.policies import PoisonPolicy
from danube.model.subscription import Cursor, SubscriptionType
from danube.rpc.carrier import ServerStream
from danube.runtime.tasks import TaskScope
from danube.storage.batch import encode_payloads
from danube.storage.log import StoredBatch, TopicLog
from danube.testing.clock import SimClock
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

    def read_hot(self, offset: int, bytes_max: int) -> None:
        """Nothing is in memory."""

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        await self.may_read.wait()
        return [StoredBatch(0, COUNT, 1, encode_payloads(SHARED, [b"x"] * COUNT))]

    def save_cursor(self, subscription_id: int, cursor: Cursor) -> None:
        """Not asked for here."""


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
    async with asyncio.timeout(10):
        await stream.written.wait()
    assert stream.offsets == [1, 2, 3]
    await tasks.close()


async def test_keys_that_are_not_in_memory_are_read_in_the_background() -> None:
    log, stream, tasks = ColdLog(), Stream(), TaskScope("test")
    driver = driver_of(log, tasks, SimClock(), SubscriptionType.KEY_SHARED, RedeliveryPolicy())
    driver.attach(1, cast("ServerStream", stream), 10, ("p*",))
    assert stream.offsets == []
    log.may_read.set()
    async with asyncio.timeout(10):
        await stream.written.wait()
    assert stream.offsets == [0]
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
    letters: list[DeadLetter] = []
    driver.on_dead_letter = letters.append
    clock.advance(DEAD_LETTER_RETRY_S)
    assert [letter.offset for letter in letters] == [0]
    await tasks.close()

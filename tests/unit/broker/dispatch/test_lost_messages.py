"""What a repair marked as lost is passed over: no consumer gets it, and none waits for it."""

import asyncio
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import Acknowledged, Seek
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.subscription import Cursor, SubscriptionType
from danube.rpc.carrier import ServerStream
from danube.runtime.tasks import TaskScope
from danube.storage.batches.batch import encode_payloads
from danube.storage.batches.placeholder import is_placeholder, placeholders
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.topic_log import TopicLog
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from tests.unit.broker.dispatch.test_driver import SHARED, ColdLog, Stream

MARKED = range(1, 3)


def sound(offset: int) -> StoredBatch:
    return StoredBatch(offset, 1, 1, encode_payloads(SHARED, [b"x"]))


def marked(offsets: range) -> StoredBatch:
    (marker,) = placeholders(1, "/default/t", offsets, 1)
    return StoredBatch(offsets.start, len(offsets), 1, marker.encoded[-marker.body_bytes :])


class MendedLog(ColdLog):
    """One whose middle was lost."""

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        await self.may_read.wait()
        found = [sound(0), marked(MARKED), sound(3)]
        return [batch for batch in found if batch.end_offset > offset]


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_lost_messages_are_sent_to_nobody_and_wait_for_nobody(kind: SubscriptionType) -> None:
    log, stream, tasks = MendedLog(), Stream(), TaskScope("test")
    engine = DispatchEngine(kind, Cursor(0), 4, RedeliveryPolicy())
    driver = DispatchDriver(
        cast("TopicLog", log), 1, engine, clock=SimClock(), tasks=tasks, on_unreadable=lambda _: None
    )
    driver.attach(1, cast("ServerStream", stream), 10)
    log.may_read.set()
    for offset in (0, 3):
        async with asyncio.timeout(PATIENCE_S):
            while offset not in stream.offsets:
                await stream.written.wait()
                stream.written.clear()
        driver.handle(Acknowledged(offset, offset + 1))
    assert (stream.offsets, engine.position) == ([0, 3], 4)
    assert engine.passed_over.skipped == len(MARKED)
    await tasks.close()


class Patchwork(ColdLog):
    """Batches of which some are lost; each read answers so many of them."""

    def __init__(self, sizes: list[tuple[int, bool]], read_max: int) -> None:
        super().__init__()
        self.may_read.set()
        self._read_max = read_max
        self._batches: list[StoredBatch] = []
        self.sound: list[int] = []
        at = 0
        for size, is_lost in sizes:
            offsets = range(at, at + size)
            at += size
            self._batches += [marked(offsets)] if is_lost else [sound(offset) for offset in offsets]
            self.sound += [] if is_lost else offsets
        self.durable_end = at

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        return [batch for batch in self._batches if batch.end_offset > offset][: self._read_max]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=8),
    read_max=st.integers(1, 9),
    window=st.integers(1, 9),
    kind=st.sampled_from(SubscriptionType),
    seeks=st.booleans(),
)
def test_wherever_messages_are_lost_consumers_get_the_others_and_nothing_else(
    sizes: list[tuple[int, bool]], read_max: int, window: int, kind: SubscriptionType, *, seeks: bool
) -> None:
    async def run() -> None:
        log, stream, tasks = Patchwork(sizes, read_max), Stream(), TaskScope("test")
        engine = DispatchEngine(kind, Cursor(0), log.durable_end, RedeliveryPolicy())
        driver = DispatchDriver(
            cast("TopicLog", log), 1, engine, clock=SimClock(), tasks=tasks, on_unreadable=lambda _: None
        )
        driver.attach(1, cast("ServerStream", stream), window)
        for _ in range(1 + seeks):
            async with asyncio.timeout(PATIENCE_S):
                while engine.position < log.durable_end:
                    for offset in stream.offsets:
                        driver.handle(Acknowledged(offset, offset + 1))
                    await asyncio.sleep(0)
            assert sorted(stream.offsets) == log.sound
            stream.offsets.clear()
            driver.handle(Seek(0))
        driver.close()
        await tasks.close()

    asyncio.run(run())


def test_a_marker_is_told_from_any_other_batch() -> None:
    assert is_placeholder(marked(MARKED).body)
    assert not is_placeholder(sound(0).body)


def test_many_lost_messages_take_several_markers() -> None:
    made = list(placeholders(1, "/default/t", range(10, 10 + 70_000), 5))
    assert [(one.base_offset, one.end_offset) for one in made] == [(10, 65_546), (65_546, 70_010)]

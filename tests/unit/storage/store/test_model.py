"""Any sequence of what may happen to a storage, against a list of records."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import OffsetTrimmedError
from danube.model.subscription import Cursor
from danube.storage.batches.batch import encode_messages
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage
from danube.testing.simulated.disk import SimDisk
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import (
    StorageWorld,
    always,
    fill,
    read_all,
    record_of,
    records_from,
    storage_settings,
)

TOPICS = (1, 2, 3)
SUBSCRIPTION = 9

STEPS = st.one_of(
    st.tuples(st.just("fill"), st.sampled_from(TOPICS), st.integers(1, 12)),
    st.tuples(st.just("batch"), st.sampled_from(TOPICS), st.integers(1, 8)),
    st.tuples(st.just("cursor"), st.sampled_from(TOPICS), st.integers(0, 100)),
    st.tuples(st.just("read"), st.sampled_from(TOPICS), st.integers(0, 100)),
    st.tuples(st.just("rotate"), st.just(0), st.just(0)),
    st.tuples(st.just("flush"), st.just(0), st.just(0)),
    st.tuples(st.just("retain"), st.just(0), st.integers(0, 6_000)),
    st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    st.tuples(st.just("power cut"), st.just(0), st.just(0)),
)


@dataclass
class Model:
    """What one topic must hold."""

    records: list[bytes] = field(default_factory=list)
    start: int = 0
    cursor: Cursor | None = None


class Play:
    """A storage and what it should hold."""

    def __init__(self, seed: int) -> None:
        self.world = StorageWorld(SimDisk(seed))
        self.world.settings = storage_settings(
            file_bytes_max=2_048, segment_bytes_max=2_048, journal={"cache_bytes_max": 2_048}
        )
        self.models = {topic_id: Model() for topic_id in TOPICS}
        self.logs: dict[int, TopicLog] = {}

    @property
    def storage(self) -> Storage:
        return self.world.storage

    async def run(self, steps: list[tuple[str, int, int]]) -> None:
        self.open_logs(await self.world.open())
        for name, topic_id, number in steps:
            await getattr(self, name.replace(" ", "_"))(topic_id, number)
            self.world.clock.advance(1)
        await self.check()
        await self.world.end()

    def open_logs(self, storage: Storage) -> None:
        self.logs = {topic_id: storage.topic(topic_id, 1) for topic_id in TOPICS}

    async def fill(self, topic_id: int, count: int) -> None:
        model = self.models[topic_id]
        model.records += await fill(self.logs[topic_id], count, size=60, first=len(model.records))

    async def batch(self, topic_id: int, count: int) -> None:
        model, told = self.models[topic_id], Told()
        records = [record_of(topic_id, len(model.records) + at, 100) for at in range(count)]
        self.logs[topic_id].append_batch(encode_messages(records), told)
        assert await told.offset() == len(model.records)
        model.records += records

    async def cursor(self, topic_id: int, position: int) -> None:
        model, saved = self.models[topic_id], Told()
        model.cursor = Cursor(min(position, len(model.records)))
        self.logs[topic_id].save_cursor(SUBSCRIPTION, model.cursor, saved)
        assert await saved.outcome() is None

    async def read(self, topic_id: int, offset: int) -> None:
        model, log = self.models[topic_id], self.logs[topic_id]
        try:
            batches = await log.read(offset, 300)
        except OffsetTrimmedError as error:
            assert offset < error.start_offset == log.start_offset
            return
        found = records_from(batches, offset)
        assert found == model.records[offset : offset + len(found)]
        assert bool(found) == (offset < len(model.records))

    async def rotate(self, *_: Any) -> None:
        await self.storage.journal.rotate()

    async def flush(self, *_: Any) -> None:
        assert not (await self.storage.flush()).failed

    async def retain(self, _: int, bytes_max: int) -> None:
        await self.storage.retain(always(Retention(None, bytes_max)), self.oldest_unread)
        for topic_id, model in self.models.items():
            unread, start = self.oldest_unread(topic_id), self.logs[topic_id].start_offset
            assert model.start <= start <= max(model.start, len(model.records) if unread is None else unread)
            model.start = start

    def oldest_unread(self, topic_id: int) -> int | None:
        cursor = self.models[topic_id].cursor
        return cursor.position if cursor is not None else None

    async def reopen(self, *_: Any) -> None:
        self.open_logs(await self.world.reopen())
        await self.check()

    async def power_cut(self, *_: Any) -> None:
        self.open_logs(await self.world.after_power_cut())
        await self.check()

    async def check(self) -> None:
        for topic_id, model in self.models.items():
            log = self.logs[topic_id]
            assert (log.start_offset, log.durable_end) == (model.start, len(model.records))
            assert await read_all(log) == model.records[model.start :]
            assert log.cursor(SUBSCRIPTION) == model.cursor
            await self.check_times(log, model)

    async def check_times(self, log: TopicLog, model: Model) -> None:
        times = [await log.append_time_ms(offset) for offset in range(model.start, len(model.records))]
        assert None not in times
        for at_ms in sorted({time_ms for time_ms in times if time_ms is not None})[:5]:
            found = await log.offset_at(at_ms)
            assert found == model.start + times.index(at_ms)


@given(st.lists(STEPS, min_size=15, max_size=50), st.integers(0, 1_000))
def test_whatever_happens_nothing_is_lost_moved_or_doubled(steps: list[tuple[str, int, int]], seed: int) -> None:
    asyncio.run(Play(seed).run(steps))

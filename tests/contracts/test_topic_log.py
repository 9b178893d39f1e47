"""What every topic's log promises, wherever its batches are kept."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from danube.model.errors import InvalidBatchError, OffsetTrimmedError
from danube.model.message import SEQUENCED_BIT
from danube.model.subscription import Cursor
from danube.storage.batches.batch import BatchOrigin, encode_messages
from danube.storage.batches.producer_state import SequencedBatch, sequenced_batch
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.disk import Operation
from tests.contracts.topic_log_places import DISKS, PLACEMENTS, TAKEN, LogPlace, log_place
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import always, fill, flush_all, read_all, record_of, records_from

SLOW_READ, FAST_READ = 300, 100_000


@pytest.fixture(params=[f"{placement}-{disk}" for placement, disk in itertools.product([*PLACEMENTS, *TAKEN], DISKS)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LogPlace]:
    """Every placement on every disk in turn."""
    placement, _, disk = request.param.partition("-")
    one = log_place(placement, disk, tmp_path)
    await one.open()
    async with asyncio.timeout(PATIENCE_S):
        yield one
    await one.close()


async def filled(place: LogPlace, count: int = 50, topic_id: int = 1) -> tuple[TopicLog, list[bytes]]:
    """A log with records, kept where the placement keeps them."""
    log = place.log(topic_id)
    records = await fill(log, count)
    await place.settle()
    return log, records


async def store_batch(log: TopicLog, body: bytes) -> int:
    told = Told()
    log.append_batch(body, told)
    return await told.offset()


async def all_batches(log: TopicLog, bytes_max: int = FAST_READ) -> list[StoredBatch]:
    found: list[StoredBatch] = []
    at = log.start_offset
    while batches := await log.read(at, bytes_max):
        found += batches
        at = batches[-1].end_offset
    return found


class Follower:
    """Reads a log from an offset to its end and on, as what is durable grows."""

    def __init__(self, log: TopicLog, offset: int, bytes_max: int = FAST_READ) -> None:
        self._log = log
        self._bytes_max = bytes_max
        self._at = offset
        self._grown = asyncio.Event()
        self.found: list[bytes] = []
        log.on_durable(lambda _: self._grown.set())

    async def until(self, end_offset: int) -> list[bytes]:
        while self._at < end_offset:
            batches = await self._log.read(self._at, self._bytes_max)
            if not batches:
                await self._grown.wait()
                self._grown.clear()
                continue
            self.found += records_from(batches, self._at)
            self._at = batches[-1].end_offset
        return self.found


# Reading


async def test_records_come_back_in_the_order_in_which_they_were_appended(place: LogPlace) -> None:
    log, records = await filled(place)
    assert await read_all(log) == records


async def test_batches_come_back_whole_with_their_offsets_and_times(place: LogPlace) -> None:
    log = place.log()
    bodies = [encode_messages([record_of(1, 10 * number + at) for at in range(5)]) for number in range(12)]
    offsets = [await store_batch(log, body) for body in bodies]
    before = await all_batches(log)
    await place.settle()
    after = await all_batches(log)
    assert after == before
    assert [(batch.base_offset, batch.body) for batch in after] == list(zip(offsets, bodies, strict=True))


@pytest.mark.parametrize("offset", [1, 17, 48])
async def test_a_reader_goes_on_in_the_middle(place: LogPlace, offset: int) -> None:
    log, records = await filled(place)
    assert await read_all(log, offset) == records[offset:]


async def test_a_read_within_a_batch_answers_the_batch_that_holds_the_offset(place: LogPlace) -> None:
    log = place.log()
    await store_batch(log, encode_messages([record_of(1, at) for at in range(10)]))
    await fill(log, 20, first=10)
    await place.settle()
    batches = await log.read(7, 1)
    assert [(batch.base_offset, batch.end_offset) for batch in batches] == [(0, 10)]


@pytest.mark.parametrize("bytes_max", [1, 1_000, 5_000])
async def test_a_read_answers_no_more_than_was_asked_for_unless_one_batch_is_more(
    place: LogPlace, bytes_max: int
) -> None:
    log, _ = await filled(place)
    at = 0
    while batches := await log.read(at, bytes_max):
        assert len(batches) == 1 or sum(len(batch.body) for batch in batches) <= bytes_max
        at = batches[-1].end_offset
    assert at == 50


async def test_at_the_durable_end_there_is_nothing(place: LogPlace) -> None:
    log, _ = await filled(place)
    assert await log.read(50, FAST_READ) == []
    assert log.read_hot(50, FAST_READ) == []


async def test_large_messages_come_back_as_they_were(place: LogPlace) -> None:
    log = place.log()
    records = [record_of(1, number, size) for number, size in enumerate([1_000_000, 10, 700_000, 3_000_000])]
    for record in records:
        told = Told()
        log.append_record(record, told)
        await told.offset()
    await place.settle()
    assert await read_all(log) == records


# Live


async def test_a_reader_of_history_goes_on_with_what_is_new_without_a_gap(place: LogPlace) -> None:
    log, records = await filled(place)
    follower = Follower(log, 0)
    reading = asyncio.ensure_future(follower.until(60))
    records += await fill(log, 10, first=50)
    assert await reading == records


async def test_a_reader_at_the_tail_sees_only_what_is_new(place: LogPlace) -> None:
    log, _ = await filled(place)
    reading = asyncio.ensure_future(Follower(log, 50).until(55))
    new = await fill(log, 5, first=50)
    assert await reading == new


async def test_a_reader_of_what_is_new_asks_no_disk(tmp_path: Path) -> None:
    place = log_place("segments", "sim", tmp_path)
    await place.open()
    log, _ = await filled(place)
    place.sim.fail(Operation.READ, times=1_000)
    reading = asyncio.ensure_future(Follower(log, 50).until(60))
    assert await fill(log, 10, first=50) == await reading
    await place.close()


async def test_readers_and_a_writer_do_not_disturb_each_other(place: LogPlace) -> None:
    log, records = await filled(place)
    readers = [Follower(log, start, bytes_max) for start in (0, 20, 50) for bytes_max in (SLOW_READ, FAST_READ)]
    reading = asyncio.gather(*(reader.until(90) for reader in readers))
    records += await fill(log, 20, first=50)
    await place.settle()
    records += await fill(log, 20, first=70)
    for (start, _), found in zip(itertools.product((0, 20, 50), (0, 1)), await reading, strict=True):
        assert found == records[start:]


async def test_a_reader_is_not_disturbed_when_everything_is_cut_under_it(place: LogPlace) -> None:
    log, records = await filled(place, 80)
    reading = asyncio.gather(*(Follower(log, start, SLOW_READ).until(80) for start in (0, 40)))
    await flush_all(place.storage)
    assert await reading == [records, records[40:]]


# Topics


async def test_topics_keep_apart(place: LogPlace) -> None:
    logs = {topic_id: place.log(topic_id) for topic_id in (1, 2, 3)}
    records: dict[int, list[bytes]] = {topic_id: [] for topic_id in logs}
    for number in range(20):
        for topic_id, log in logs.items():
            records[topic_id] += await fill(log, 1, first=number)
    await place.settle()
    for topic_id, log in logs.items():
        assert await read_all(log) == records[topic_id]


async def test_a_deleted_topic_leaves_the_others_as_they_are(place: LogPlace) -> None:
    await filled(place, topic_id=1)
    log, records = await filled(place, topic_id=2)
    place.storage.forget(1)
    await flush_all(place.storage)
    assert await read_all(log) == records


# Restarts


async def test_after_a_restart_offsets_go_on_where_they_were(place: LogPlace) -> None:
    _, records = await filled(place)
    await place.reload()
    log = place.log()
    assert (log.start_offset, log.durable_end) == (0, 50)
    records += await fill(log, 10, first=50)
    await place.settle()
    await place.reload()
    assert await read_all(place.log()) == records


async def test_a_cursor_is_found_again_after_a_restart(place: LogPlace) -> None:
    log, _ = await filled(place)
    saved = Told()
    log.save_cursor(3, Cursor(21), saved)
    assert await saved.outcome() is None
    await place.settle()
    await place.reload()
    assert place.log().cursor(3) == Cursor(21)


async def test_a_cursor_that_was_forgotten_stays_forgotten_in_this_life(place: LogPlace) -> None:
    log, _ = await filled(place)
    saved = Told()
    log.save_cursor(3, Cursor(21), saved)
    await saved.outcome()
    log.forget_cursor(3)
    if not place.changes_owner:
        await place.settle()
    assert log.cursor(3) is None


async def test_numbered_batches_are_remembered_over_a_restart(place: LogPlace) -> None:
    log = place.log()
    producer = SEQUENCED_BIT | 5
    stored: list[tuple[SequencedBatch, int]] = []
    for number in range(8):
        body = encode_messages([record_of(1, number)] * 3, BatchOrigin(producer_id=producer, base_sequence=3 * number))
        sequenced = sequenced_batch(body)
        assert sequenced is not None
        stored.append((sequenced, await store_batch(log, body)))
    await place.settle()
    await place.reload()
    log = place.log()
    assert log.next_sequence(producer) == 24
    assert [log.offset_of(sequenced) for sequenced, _ in stored] == [offset for _, offset in stored]


# Times


async def test_a_time_leads_to_the_first_batch_appended_then_or_later(place: LogPlace) -> None:
    log = place.log()
    for number in range(10):
        place.clock.advance(1)
        await fill(log, 3, first=3 * number)
    await place.settle()
    times = [await log.append_time_ms(offset) for offset in range(30)]
    first_ms = times[0]
    assert first_ms is not None
    assert [time_ms - first_ms for time_ms in times if time_ms is not None] == [1_000 * (at // 3) for at in range(30)]
    for after_ms, expected in [(-1, 0), (0, 0), (1, 3), (1_000, 3), (4_500, 15), (9_000, 27), (9_001, 30)]:
        assert await log.offset_at(first_ms + after_ms) == expected


async def test_no_time_is_known_of_what_is_not_there(place: LogPlace) -> None:
    log, _ = await filled(place)
    assert await log.append_time_ms(50) is None
    assert await log.append_time_ms(-1) is None


# What is not stored


async def test_a_batch_whose_checksum_is_wrong_is_not_stored(place: LogPlace) -> None:
    log, records = await filled(place)
    body = bytearray(encode_messages([b"x" * 50]))
    body[-20] ^= 1
    with pytest.raises(InvalidBatchError):
        log.append_batch(bytes(body), lambda _: None)
    assert await read_all(log) == records


# Retention


async def test_after_retention_readers_go_on_with_what_is_left(place: LogPlace) -> None:
    log, records = await filled(place, 100)
    other, others = await filled(place, 30, topic_id=2)
    await flush_all(place.storage)
    policies = {1: Retention(None, 9_000), 2: Retention(None, None)}
    assert await place.storage.retain(policies.__getitem__, lambda _: None) > 0
    assert 0 < log.start_offset < 100
    assert await read_all(log) == records[log.start_offset :]
    assert await read_all(other) == others
    with pytest.raises(OffsetTrimmedError):
        await log.read(0, FAST_READ)


async def test_what_is_kept_in_all_is_said(place: LogPlace) -> None:
    log, _ = await filled(place)
    stats = log.stats
    assert (stats.start_offset, stats.end_offset) == (0, 50)
    assert stats.body_bytes == log.body_bytes == sum(len(batch.body) for batch in await all_batches(log))
    assert (stats.oldest_append_ms, stats.newest_append_ms) == (
        await log.append_time_ms(0),
        await log.append_time_ms(49),
    )


async def test_an_empty_log_has_nothing_in_it(place: LogPlace) -> None:
    log = place.log()
    await place.settle()
    assert (log.start_offset, log.durable_end, log.body_bytes) == (0, 0, 0)
    assert (log.stats.oldest_append_ms, log.stats.newest_append_ms) == (None, None)
    assert await read_all(log) == []
    assert await place.storage.retain(always(Retention(1, 1)), lambda _: None) == 0

"""Closed files: what is told of them, how they go, and how a journal begins without them."""

from collections.abc import AsyncIterator
from itertools import chain

import pytest

from danube.model.errors import DamagedDataError, ShuttingDownError, StorageUnavailableError
from danube.model.message import SEQUENCED_BIT
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor
from danube.storage.batches.batch import BatchOrigin, encode_payloads
from danube.storage.batches.envelope import ENVELOPE_BYTES, decode
from danube.storage.batches.producer_state import SequencedBatch
from danube.storage.journal import Journal
from danube.storage.journal.format import FirstFile, decode_first
from danube.storage.journal.index import TopicBase
from danube.storage.journal.reader import JournalReader
from danube.storage.log.topic_log import TopicLog
from danube.testing.simulated.clock import SimClock, settle
from danube.testing.simulated.disk import Operation
from tests.unit.storage.journal_world import (
    FIRST_FILE,
    MARK,
    SECOND_FILE,
    Told,
    World,
    append,
    content,
    journal_files,
    log_in,
    open_journal,
    sim_disk,
    store,
)

TOPIC = 5
OTHER = 6
ROW = SEQUENCED_BIT | 3
FIRST = "journal/first"


@pytest.fixture
async def uncached() -> AsyncIterator[World]:
    """A world in which every read goes to the files."""
    one = World(cache_bytes_max=0)
    yield one
    await one.close()


async def publish_numbered(log: TopicLog, first: int, count: int = 1) -> SequencedBatch:
    body = encode_payloads(b"", [b"n"] * count, BatchOrigin(producer_id=ROW, base_sequence=first))
    told = Told()
    log.append_batch(body, told)
    await told.offset()
    return SequencedBatch(ROW, first, count, int.from_bytes(body[-4:], "little"))


def base_of(journal: Journal, topic_id: int) -> TopicBase:
    """What a manifest would say of the topic once all closed files are cut."""
    end_position = journal.closed_files()[-1].end_position
    located = journal.run(topic_id, end_position).located()
    snapshot = journal.snapshot(topic_id)
    return TopicBase(
        topic_id=topic_id,
        end_offset=located[-1].end_offset if located else 0,
        last_append_time_ms=located[-1].append_time_ms if located else 0,
        cursors=snapshot.cursors,
        producer_states=snapshot.producer_states,
        covered={journal.journal_id: end_position},
    )


async def flush_all(journal: Journal, *topic_ids: int) -> dict[int, TopicBase]:
    """Have the journal go on in a new file, and remove all others as if they were in segments."""
    await journal.rotate()
    bases = {topic_id: base_of(journal, topic_id) for topic_id in topic_ids}
    for topic_id, base in bases.items():
        journal.drop_flushed(topic_id, base.end_offset)
    await journal.remove_files(journal.closed_files()[-1].sequence + 1)
    return bases


async def test_rotation_closes_the_file_and_tells_what_is_in_it(world: World) -> None:
    journal = await world.open()
    start_ms = world.clock.now_ms()
    heard = Told()
    journal.on_file_closed(lambda: heard(None))
    await store(log_in(journal, TOPIC, 1), b"a")
    world.clock.advance(1.0)
    saved = Told()
    log_in(journal, OTHER, 1).save_cursor(9, Cursor(0), saved)
    await saved.outcome()
    assert journal.closed_files() == []
    await journal.rotate()
    (file,) = journal.closed_files()
    assert (file.sequence, file.base_position, file.end_position) == (1, 0, len(world.disk.contents()[FIRST_FILE]))
    assert file.topics == frozenset({TOPIC, OTHER})
    assert (file.oldest_append_ms, file.newest_append_ms) == (start_ms, start_ms + 1_000)
    assert heard.all == [None]


async def test_a_listener_that_fails_harms_nobody_else(world: World, caplog: pytest.LogCaptureFixture) -> None:
    journal = await world.open()
    heard = Told()

    def broken() -> None:
        raise RuntimeError("a caller's fault")

    journal.on_file_closed(broken)
    journal.on_file_closed(lambda: heard(None))
    await store(log_in(journal, TOPIC, 1), b"a")
    await journal.rotate()
    assert (heard.all, len(journal.closed_files())) == ([None], 1)
    assert "a caller's fault" in caplog.text


async def test_an_empty_file_is_not_rotated(world: World) -> None:
    journal = await world.open()
    await journal.rotate()
    assert (journal.closed_files(), set(journal_files(world.disk))) == ([], {FIRST_FILE})


async def test_a_journal_that_has_stopped_or_ended_rotates_no_more(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    world.disk.fail(Operation.SYNC)
    await append(log_in(journal, TOPIC, 1), b"b").error()
    with pytest.raises(StorageUnavailableError):
        await journal.rotate()
    with pytest.raises(StorageUnavailableError):
        await journal.remove_files(2)
    other = World()
    ended = await other.open()
    await other.close()
    with pytest.raises(ShuttingDownError):
        await ended.rotate()


async def test_a_rotation_that_fails_is_told_and_can_be_done_again(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    world.disk.fail(Operation.CREATE)
    with pytest.raises(StorageUnavailableError):
        await journal.rotate()
    await journal.rotate()
    assert [file.sequence for file in journal.closed_files()] == [1]
    assert await store(log_in(journal, TOPIC, 1), b"b") == [1]


async def test_batches_are_found_with_their_envelopes_byte_for_byte(uncached: World) -> None:
    journal = await uncached.open()
    log = log_in(journal, TOPIC, 3)
    for number in range(4):
        await store(log, b"%d" % number)
        await store(log_in(journal, OTHER, 1), b"other")
    await journal.rotate()
    await store(log, b"in the next file")
    end_position = journal.closed_files()[0].end_position
    run = journal.run(TOPIC, end_position)
    located = run.located()
    assert [(one.base_offset, one.end_offset) for one in located] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    reader = JournalReader(uncached.disk)
    encoded = chain.from_iterable(reader.encoded(TOPIC, run, journal.files))
    data = uncached.disk.contents()[FIRST_FILE]
    for batch, place in zip(encoded, located, strict=True):
        assert batch.encoded == data[place.position : place.position + ENVELOPE_BYTES + batch.body_bytes]
        envelope = decode(batch.encoded)
        assert envelope is not None
        assert (envelope.base_offset, envelope.append_time_ms) == (batch.base_offset, batch.append_time_ms)


async def test_an_encoded_batch_that_is_not_what_was_written_is_refused(uncached: World) -> None:
    journal = await uncached.open()
    await store(log_in(journal, TOPIC, 1), b"a" * 100)
    await journal.rotate()
    run = journal.run(TOPIC, journal.end_position)
    for position in range(run.positions[0], len(uncached.disk.contents()[FIRST_FILE])):
        damaged = sim_disk(uncached.disk.contents())
        damaged.flip_bit(FIRST_FILE, position)
        with pytest.raises(DamagedDataError):
            list(JournalReader(damaged).encoded(TOPIC, run, journal.files))


async def test_removed_files_are_gone_and_the_journal_goes_on_without_them(uncached: World) -> None:
    journal = await uncached.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, b"a", b"b")
    saved = Told()
    log.save_cursor(9, Cursor(1), saved)
    await saved.outcome()
    sequenced = await publish_numbered(log, 0, 3)
    size = journal.stats.size_bytes
    bases = await flush_all(journal, TOPIC)
    assert set(journal_files(uncached.disk)) == {SECOND_FILE}
    assert (journal.base_position, journal.stats.size_bytes) == (size, 52)
    assert (log.start_offset, log.durable_end, log.body_bytes, log.append_time_at_hand(0)) == (5, 5, 0, None)
    assert (log.cursor(9), log.offset_of(sequenced)) == (Cursor(1), 2)
    assert await store(log, b"c") == [5]
    log = log_in(await uncached.reopen(bases=bases), TOPIC, 2)
    assert (log.cursor(9), log.offset_of(sequenced), log.next_sequence(ROW)) == (Cursor(1), 2, 3)
    assert (log.start_offset, await content(log, 5), await store(log, b"d")) == (5, [b"c"], [6])


async def test_what_is_below_the_journal_is_not_read_from_it(uncached: World) -> None:
    journal = await uncached.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, b"a")
    await flush_all(journal, TOPIC)
    await store(log, b"b")
    assert log.read_hot(0, 1_000) is None
    with pytest.raises(StorageUnavailableError):
        await log.read(0, 1_000)


async def test_a_deleted_topic_holds_no_files_and_its_readers_are_told(uncached: World) -> None:
    journal = await uncached.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, b"a")
    await journal.rotate()
    run = journal.run(TOPIC, journal.end_position)
    journal.forget(TOPIC)
    await journal.remove_files(2)
    with pytest.raises(StorageUnavailableError, match="removed"):
        await log.read(0, 1_000)
    with pytest.raises(StorageUnavailableError, match="removed"):
        list(JournalReader(uncached.disk).encoded(TOPIC, run, journal.files))


async def test_a_deleted_topic_is_remembered_only_as_long_as_there_are_records_of_it(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    journal.forget(TOPIC)
    await journal.rotate()
    for _ in range(2):
        with pytest.raises(ValueError, match="never used again"):
            log_in(journal, TOPIC, 1)
        journal = await world.reopen(known_topics={OTHER})
    await journal.remove_files(2)
    assert log_in(journal, TOPIC, 1).durable_end == 0


async def test_files_that_are_asked_for_are_not_removed(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await journal.rotate()
    with pytest.raises(ValueError, match=f"topic {TOPIC}"):
        await journal.remove_files(2)
    journal.drop_flushed(TOPIC, 1)
    before = world.disk.contents()
    freed = await journal.remove_files(99)
    assert freed == sum(len(data) for name, data in before.items() if name not in world.disk.contents())
    assert await journal.remove_files(99) == 0
    assert set(journal_files(world.disk)) == {SECOND_FILE}


async def test_an_emptied_journal_begins_again_where_it_ended(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    bases = await flush_all(journal, TOPIC)
    journal_id, end = journal.journal_id, journal.end_position
    for _ in range(3):
        journal = await world.reopen(bases=bases)
        assert (journal.journal_id, journal.base_position) == (journal_id, end - 52)
    assert await store(log_in(journal, TOPIC, 2), b"b") == [1]
    journal = await world.reopen(bases=bases)
    assert await content(log_in(journal, TOPIC, 2), 1) == [b"b"]


async def test_removal_says_first_where_the_journal_begins(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await journal.rotate()
    journal.drop_flushed(TOPIC, 1)
    end = journal.closed_files()[0].end_position
    world.disk.fail(Operation.REMOVE)
    with pytest.raises(StorageUnavailableError):
        await journal.remove_files(2)
    assert decode_first(world.disk.contents()[FIRST]) == FirstFile(journal.journal_id, 2, end, 1)
    assert FIRST_FILE in world.disk.contents()
    await journal.remove_files(2)
    assert FIRST_FILE not in world.disk.contents()


async def test_a_file_that_cannot_be_removed_keeps_no_later_one(world: World) -> None:
    journal = await world.open()
    world.disk.fail(Operation.REMOVE, name=FIRST_FILE, times=3)
    for number in range(3):
        await store(log_in(journal, TOPIC, 1), b"%d" % number)
        await journal.rotate()
        journal.drop_flushed(TOPIC, number + 1)
        with pytest.raises(StorageUnavailableError, match="could not be removed"):
            await journal.remove_files(number + 2)
    assert len(journal_files(world.disk)) == 2
    await journal.remove_files(4)
    assert len(journal_files(world.disk)) == 1
    assert len(journal.closed_files()) == 0


async def test_a_smaller_removal_after_one_that_failed_does_not_go_back_behind_it(world: World) -> None:
    journal = await world.open()
    for number in range(3):
        await store(log_in(journal, TOPIC, 1), b"%d" % number)
        await journal.rotate()
    bases = {TOPIC: base_of(journal, TOPIC)}
    journal.drop_flushed(TOPIC, 3)
    world.disk.fail(Operation.SYNC_FOLDER, 2)
    with pytest.raises(StorageUnavailableError):
        await journal.remove_files(4)
    await journal.remove_files(2)
    journal = await world.reopen(bases=bases)
    assert (await store(log_in(journal, TOPIC, 2), b"3"), len(journal_files(world.disk))) == ([3], 1)


async def test_leftovers_of_a_removal_are_removed_at_the_next_start(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    bases = await flush_all(journal, TOPIC)
    files = world.disk.contents()
    disk = sim_disk({**files, FIRST_FILE: b"left", "journal/0000000001.index": b"over"})
    after = world.after(disk)
    await after.open(bases=bases)
    assert not {FIRST_FILE, "journal/0000000001.index"} & set(disk.contents())


async def test_no_flipped_bit_or_truncation_of_where_the_journal_begins_goes_unseen(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await flush_all(journal, TOPIC)
    await world.close()
    files = world.disk.contents()
    said = files[FIRST]
    wrong = [said[:length] for length in range(len(said))] + [said + b"x"]
    wrong += [bytes([*said[:at], said[at] ^ 1 << at % 8, *said[at + 1 :]]) for at in range(len(said))]
    for one in wrong:
        with pytest.raises(DamagedDataError, match=FIRST):
            await open_journal(sim_disk({**files, FIRST: one}), SimClock())


async def test_a_journal_whose_first_file_is_missing_is_damaged(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await flush_all(journal, TOPIC)
    await world.close()
    files = world.disk.contents()
    without = {name: data for name, data in files.items() if name != SECOND_FILE}
    for wrong in (without, {name: data for name, data in files.items() if name != FIRST}):
        with pytest.raises(DamagedDataError, match="missing"):
            await open_journal(sim_disk(wrong), SimClock())


async def test_records_that_do_not_go_on_where_segments_end_are_damage(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a", b"b")
    await world.close()
    for end_offset in (1, 3):
        base = TopicBase(topic_id=TOPIC, end_offset=end_offset, last_append_time_ms=0)
        with pytest.raises(DamagedDataError, match=f"topic {TOPIC}"):
            await open_journal(sim_disk(world.disk.contents()), SimClock(), bases={TOPIC: base})


async def test_covered_records_do_not_count_and_later_ones_do(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, b"a", b"b")
    saved = Told()
    log.save_cursor(9, Cursor(1), saved)
    await saved.outcome()
    covered = journal.end_position
    await store(log, b"c")
    base = TopicBase(
        topic_id=TOPIC,
        end_offset=2,
        last_append_time_ms=0,
        cursors={9: Cursor(2)},
        covered={journal.journal_id: covered},
    )
    log = log_in(await world.reopen(bases={TOPIC: base}), TOPIC, 2)
    assert (log.start_offset, await content(log, 2), log.cursor(9)) == (2, [b"c"], Cursor(2))


async def test_append_time_never_goes_back_behind_that_of_the_segments(world: World) -> None:
    later_ms = world.clock.now_ms() + 60_000
    base = TopicBase(topic_id=TOPIC, end_offset=7, last_append_time_ms=later_ms)
    log = log_in(await world.open(bases={TOPIC: base}), TOPIC, 1)
    assert await store(log, b"a") == [7]
    assert [batch.append_time_ms for batch in await log.read(7, 1)] == [later_ms]


async def test_what_a_base_says_of_records_that_are_gone_is_taken_back(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    kept = await publish_numbered(log, 0)
    producer_states = journal.snapshot(TOPIC).producer_states
    lost = await publish_numbered(log, 1)
    ahead = TopicBase(
        topic_id=TOPIC,
        end_offset=1,
        last_append_time_ms=0,
        cursors={9: Cursor(5, (OffsetRange(7, 9),)), 8: Cursor(0, (OffsetRange(0, 4),))},
        producer_states=journal.snapshot(TOPIC).producer_states,
        covered={journal.journal_id: journal.end_position},
    )
    log = log_in(await world.reopen(bases={TOPIC: ahead}), TOPIC, 2)
    assert (log.cursor(9), log.cursor(8)) == (Cursor(1), Cursor(0, (OffsetRange(0, 1),)))
    assert (log.offset_of(kept), log.offset_of(lost), log.next_sequence(ROW)) == (0, None, 1)
    assert producer_states[0][-1].batch == kept


async def test_reading_the_journal_over_a_later_snapshot_changes_nothing(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    for number in range(5):
        await publish_numbered(log, number)
    saved = Told()
    log.save_cursor(9, Cursor(3), saved)
    await saved.outcome()
    await journal.rotate()
    snapshot = journal.snapshot(TOPIC)
    base = TopicBase(
        topic_id=TOPIC,
        end_offset=0,
        last_append_time_ms=0,
        cursors=snapshot.cursors,
        producer_states=snapshot.producer_states,
    )
    journal = await world.reopen(bases={TOPIC: base})
    assert journal.snapshot(TOPIC) == snapshot


async def test_a_journal_lives_in_the_folder_it_is_given(world: World) -> None:
    journal = await world.open(folder="journals/7")
    await store(log_in(journal, TOPIC, 1), b"a")
    bases = await flush_all(journal, TOPIC)
    await store(log_in(journal, TOPIC, 1), b"b")
    assert set(world.disk.contents()) == {f"journals/7/{name}" for name in ("0000000002.journal", "first", "mark")}
    journal = await world.reopen(folder="journals/7", bases=bases)
    assert await content(log_in(journal, TOPIC, 2), 1) == [b"b"]


async def test_removal_waits_for_the_index_that_is_being_written(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    world.reads.hold()
    await journal.rotate()
    await settle()
    journal.drop_flushed(TOPIC, 1)
    world.reads.release()
    await journal.remove_files(2)
    assert set(world.disk.contents()) == {SECOND_FILE, FIRST, MARK}

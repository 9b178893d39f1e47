"""The index beside a closed file: it says what reading the file would, or it is not believed."""

import random
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from danube.model.errors import NewerDataFolderError
from danube.model.limits.broker import JOURNAL_INDEXES_WAITING_MAX
from danube.model.message import SEQUENCED_BIT
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor
from danube.runtime.checksum import with_crc
from danube.storage.batches.batch import BatchOrigin, encode_payloads
from danube.storage.journal import Journal
from danube.storage.journal.contents import decode_index, encode_index
from danube.storage.journal.index import Located
from danube.testing.simulated.clock import settle
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.journal_world import FIRST_FILE, MARK, Told, World, append, content, log_in, sim_disk, store

TOPICS = range(1, 4)
FIRST_INDEX = "journal/0000000001.index"


async def busy_files(seed: int, rounds: int = 60) -> dict[str, bytes]:
    """The folder of a journal with all that one can hold, over several files."""
    chance = random.Random(seed)
    world = World(SimDisk(seed), file_bytes_max=3_000)
    journal = await world.open()
    sequences = dict.fromkeys(range(4), 0)
    for _ in range(rounds):
        log = log_in(journal, chance.choice(TOPICS), 1)
        row = chance.randrange(4)
        if chance.random() < 0.3:
            append(log, b"x" * chance.randrange(200))
        elif chance.random() < 0.5:
            count = chance.randint(1, 4)
            origin = BatchOrigin(producer_id=SEQUENCED_BIT | row, base_sequence=sequences[row])
            log.append_batch(encode_payloads(b"s", [b"p"] * count, origin), Told())
            sequences[row] += count
        else:
            log.save_cursor(chance.randrange(3), Cursor(chance.randrange(50), (OffsetRange(60, 61 + row),)))
        await world.clock.run_for(chance.choice([0.0, 0.01, 0.3]))
    await world.close()
    return world.disk.contents()


async def told_by(files: dict[str, bytes], **settings: Any) -> Any:
    """All that a journal says of itself after it was opened."""
    world = World(sim_disk(files), **settings)
    journal = await world.open()
    told = [await told_of_topic(journal, topic_id) for topic_id in TOPICS]
    ends = (journal.journal_id, journal.base_position, journal.end_position, journal.closed_files())
    await world.close()
    return ends, told


async def told_of_topic(journal: Journal, topic_id: int) -> tuple[Any, list[Located], list[bytes]]:
    located = journal.run(topic_id, journal.end_position).located()
    return journal.snapshot(topic_id), located, await content(log_in(journal, topic_id, 2))


def without_indexes(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith(".index")}


@pytest.mark.parametrize("seed", range(8))
async def test_an_index_tells_what_reading_the_file_does(seed: int) -> None:
    files = await busy_files(seed)
    assert sum(name.endswith(".index") for name in files) >= 2
    assert await told_by(files) == await told_by(without_indexes(files))


async def test_a_missing_index_is_made_again_just_as_it_was() -> None:
    files = await busy_files(1)
    disk = sim_disk(without_indexes(files))
    world = World(disk)
    await world.open()
    made = disk.contents()
    assert {name: made.get(name) for name in files if name.endswith(".index")} == {
        name: data for name, data in files.items() if name.endswith(".index")
    }
    await world.close()


async def test_a_start_with_indexes_reads_the_last_file_only() -> None:
    files = await busy_files(2)
    closed = sorted(name for name in files if name.endswith(".journal"))[:-1]
    disk = sim_disk(files)
    for name in closed:
        disk.fail(Operation.READ, 2, name=name, times=99)  # the first is of its header
    world = World(disk)
    await world.open()
    await world.close()


async def test_no_flipped_bit_or_truncation_of_an_index_is_believed() -> None:
    files = await busy_files(3)
    index = files[FIRST_INDEX]
    assert decode_index(index) is not None
    for length in range(len(index)):
        assert decode_index(index[:length]) is None
    for at in range(len(index)):
        assert decode_index(bytes([*index[:at], index[at] ^ 1 << at % 8, *index[at + 1 :]])) is None
    expected = await told_by(files)
    for wrong in (b"", index[:-1], index[:40] + b"?" + index[41:]):
        assert await told_by({**files, FIRST_INDEX: wrong}) == expected


def longer(index: bytes) -> bytes:
    return with_crc(index[:-4] + b"x")


def newer(index: bytes) -> bytes:
    return with_crc(index[:4] + b"\x02" + index[5:-4])


def changed(index: bytes, **fields: object) -> bytes:
    return with_crc(index[:6] + msgpack.packb(msgpack.unpackb(index[6:-4]) | fields))


def more_topics(index: bytes) -> bytes:
    return changed(index, topics=[[1, 2, bytes(8), bytes(8), bytes(8), bytes(8)]])


def of_another_journal(index: bytes) -> bytes:
    return changed(index, journal_id=0)


def of_a_shorter_file(index: bytes) -> bytes:
    return changed(index, end_position=100)


def after_other_rounds(index: bytes) -> bytes:
    start = msgpack.unpackb(index[6:-4])["start"]
    return changed(index, start=start | {"rounds_before": 7})


def with_other_offsets(index: bytes) -> bytes:
    decoded = decode_index(index)
    assert decoded is not None
    run = next(run for run in decoded.runs.values() if run)
    run.bases[0] += 1
    return encode_index(decoded)


@pytest.mark.parametrize(
    "change",
    [longer, more_topics, of_another_journal, of_a_shorter_file, after_other_rounds, with_other_offsets],
)
async def test_an_index_that_does_not_fit_is_not_believed(change: Callable[[bytes], bytes]) -> None:
    files = await busy_files(4)
    assert await told_by({**files, FIRST_INDEX: change(files[FIRST_INDEX])}) == await told_by(files)


async def test_an_index_of_another_version_is_refused() -> None:
    files = await busy_files(4)
    with pytest.raises(NewerDataFolderError, match=r"another version \(format 2; this one reads 1\): use that"):
        await told_by({**files, FIRST_INDEX: newer(files[FIRST_INDEX])})


async def test_a_disk_that_keeps_no_index_costs_nothing_but_time(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, 1, 1)
    await store(log, b"a")
    world.disk.fail(Operation.APPEND, name="*.index")
    await journal.rotate()
    await settle()
    assert FIRST_INDEX not in world.disk.contents()
    assert await store(log, b"b") == [1]
    assert await content(log_in(await world.reopen(), 1, 1)) == [b"a", b"b"]


async def test_batches_of_a_topic_that_was_forgotten_are_found_again_while_it_exists(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, 1, 1), b"a")
    await store(log_in(journal, 2, 1), b"b")
    journal.forget(1)
    await journal.rotate()
    await settle()
    index = decode_index(world.disk.contents()[FIRST_INDEX])
    assert index is not None
    assert (index.runs[1], index.contents.topics) == (None, {1, 2})
    assert await content(log_in(await world.reopen(known_topics={1, 2}), 1, 2)) == [b"a"]
    journal = await world.reopen(known_topics={2})
    assert await content(log_in(journal, 2, 2)) == [b"b"]
    with pytest.raises(ValueError, match="left out"):
        log_in(journal, 1, 2)


async def test_a_file_that_grew_after_its_index_was_made_is_read_again(world: World) -> None:
    """The file after it was only begun, so the journal goes on in it."""
    journal = await world.open()
    await store(log_in(journal, 1, 1), b"a")
    await journal.rotate()
    await settle()
    world.disk.remove(MARK)  # which could not be written: or else the file stays
    journal = await world.reopen()
    assert [file.sequence for file in journal.closed_files()] == []
    assert FIRST_INDEX not in world.disk.contents()
    await store(log_in(journal, 1, 1), b"b")
    await journal.rotate()
    await store(log_in(journal, 1, 1), b"c")
    journal = await world.reopen()
    assert await content(log_in(journal, 1, 1)) == [b"a", b"b", b"c"]
    assert journal.closed_files()[0].end_position == len(world.disk.contents()[FIRST_FILE])


async def test_with_too_many_indexes_to_write_some_files_get_none(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, 1, 1)
    world.reads.hold()
    for number in range(JOURNAL_INDEXES_WAITING_MAX + 4):
        await store(log, b"%d" % number)
        await journal.rotate()
    world.reads.release()
    await settle()
    indexes = [name for name in world.disk.contents() if name.endswith(".index")]
    assert len(indexes) == JOURNAL_INDEXES_WAITING_MAX
    assert len(journal.closed_files()) == JOURNAL_INDEXES_WAITING_MAX + 4
    journal = await world.reopen()
    assert len(await content(log_in(journal, 1, 1))) == JOURNAL_INDEXES_WAITING_MAX + 4


async def test_an_index_from_before_the_file_grew_is_not_believed(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, 1, 1), b"a")
    await journal.rotate()
    await settle()
    journal = await world.reopen()
    await store(log_in(journal, 1, 1), b"b")
    world.disk.fail(Operation.REMOVE, name="*.index", times=2)
    await journal.rotate()
    await store(log_in(journal, 1, 1), b"c")
    assert await content(log_in(await world.reopen(), 1, 1)) == [b"a", b"b", b"c"]

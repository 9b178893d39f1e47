"""Files of every released format must open for ever, and the documents must be enough to read them."""

from itertools import chain

from danube.model.errors import StorageError
from danube.storage.batches.batch import RecordView, check
from danube.storage.batches.cursors import decode_cursor
from danube.storage.batches.envelope import Kind, decode
from danube.storage.journal.contents import decode_index, encode_index
from danube.storage.journal.format import decode_first, decode_mark
from danube.storage.segment.manifest import segment_name
from danube.storage.segment.manifest_format import decode_manifest
from danube.storage.segment.reader import SegmentReader
from danube.storage.tiers.directory import DirectoryTier
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import SimDisk
from tests.golden.storage.make import (
    BROKER,
    CURSOR,
    FIRST,
    FOLDER,
    MANIFEST,
    MESSAGES,
    NUMBERED,
    PAYLOADS,
    SEGMENT,
    SEGMENT_BATCHES,
    all_files,
)
from tests.golden.storage.reader import (
    read_batch,
    read_cursor,
    read_envelopes,
    read_first,
    read_index,
    read_journal,
    read_manifest,
    read_mark,
    read_segment,
)
from tests.unit.storage.journal_world import MARK, content, log_in, open_journal, sim_disk

GOLDEN = {str(path.relative_to(FOLDER)): path.read_bytes() for path in sorted(FOLDER.rglob("*")) if path.is_file()}
JOURNAL = {name: data for name, data in GOLDEN.items() if name.startswith("journal/")}
MARKED = {name.removeprefix("marked/"): data for name, data in GOLDEN.items() if name.startswith("marked/")}
SEGMENT_NAME = segment_name(11, SEGMENT)


async def test_what_is_written_today_is_what_was_written_then() -> None:
    assert await all_files() == GOLDEN


async def test_journal_of_version_1_opens() -> None:
    assert len(JOURNAL) > 1
    journal = await open_journal(sim_disk(JOURNAL), SimClock(), broker_id=BROKER)
    orders, bills = log_in(journal, 11, 3), log_in(journal, 12, 3)
    assert await content(orders) == [b"first", b"", b"third"] * 3
    assert await content(bills) == [b"bill 0", b"bill 1", b"bill 2"]
    assert orders.cursor(901) == CURSOR
    await journal.close()


def test_mark_of_version_1_is_read() -> None:
    first, last = (MARKED[name] for name in sorted(JOURNAL))
    mark = decode_mark(MARKED[MARK])
    assert mark is not None
    assert (mark.journal_id, mark.sequence, mark.synced_to) == read_mark(MARKED[MARK])
    assert (mark.sequence, mark.synced_to) == (2, len(first) + len(last))


async def test_every_truncation_of_a_marked_journal_is_seen_or_costs_nothing() -> None:
    whole = await read_all(MARKED)
    for name, data in MARKED.items():
        for length in range(len(data)):
            is_beside = not name.endswith(".journal")
            found = await read_all({**MARKED, name: data[:length]})
            assert found == (whole if is_beside else None), (name, length)
        assert await read_all({one: MARKED[one] for one in MARKED if one != name}) == (whole if is_beside else None)


async def test_every_flipped_byte_of_a_marked_journal_is_seen_or_costs_nothing() -> None:
    whole = await read_all(MARKED)
    for name, data in MARKED.items():
        allowed = [whole] if not name.endswith(".journal") else [None] if name == max(JOURNAL) else [None, whole]
        for at in range(len(data)):
            wrong = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
            assert await read_all({**MARKED, name: wrong}) in allowed, (name, at)  # of a closed file the index may do


async def read_all(files: dict[str, bytes]) -> object:
    """All that a journal holds; None when it is said to be damaged, at its opening or when it is read."""
    try:
        journal = await open_journal(sim_disk(files), SimClock(), broker_id=BROKER)
    except StorageError:
        return None
    try:
        orders, bills = log_in(journal, 11, 3), log_in(journal, 12, 3)
        return await content(orders), await content(bills), orders.cursor(901)
    except StorageError:
        return None
    finally:
        await journal.close()


def test_batches_of_version_1_are_read() -> None:
    for name, kind, shared, records in (
        ("payloads.batch", 0, b"\x0a\x06shared", [b"first", b"", b"third"]),
        ("messages.batch", 1, b"", [b"\x08\x01", b"\x08\x02"]),
    ):
        view = RecordView(GOLDEN[name])
        assert (check(GOLDEN[name]).kind, view.shared, view.slice(0, len(records))) == (kind, shared, records)
        assert read_batch(GOLDEN[name]) == (kind, shared, records)


def test_envelope_of_version_1_is_read() -> None:
    envelope = decode(GOLDEN["data.envelope"])
    assert envelope is not None
    assert (envelope.kind, envelope.topic_id, envelope.base_offset, envelope.count) == (Kind.DATA, 11, 40, 3)
    (record,) = read_envelopes(GOLDEN["data.envelope"] + PAYLOADS)
    assert record == (1, 11, 2, 40, 3, 1_750_000_000_123, PAYLOADS)


def test_cursor_of_version_1_is_read() -> None:
    assert decode_cursor(GOLDEN["cursor.body"]) == (901, CURSOR)
    assert read_cursor(GOLDEN["cursor.body"]) == (901, 2, [(3, 4), (6, 9)])


def test_manifest_of_version_1_is_read() -> None:
    encoded = GOLDEN["segments/11/0000000004.manifest"]
    assert decode_manifest(encoded) == MANIFEST
    assert read_manifest(encoded) == {
        "topic": (11, 4, 3, 48, 1_750_000_000_123),
        "segments": [
            (3, 40, 2, 1_750_000_000_007, 1_750_000_000_100, 9, 1_400, 2_048),
            (40, 48, 4, 1_750_000_000_100, 1_750_000_000_123, 2, 250, 500),
        ],
        "cursors": {901: (2, [(3, 4), (6, 9)]), 902: (48, [])},
        "rows": [
            [(2**63 + 5, 0, 3, 0xDEADBEEF, 40), (2**63 + 5, 3, 2, 1, 43)],
            [(2**63 + 1, 7, 1, 2, 47)],
        ],
        "journals": {77: 9_000, 2**62: 123_456},
    }


def test_reader_made_from_the_documents_reads_the_journal() -> None:
    found = list(read_journal(list(JOURNAL.values())))
    assert [(one.topic_id, one.base_offset, one.record_count) for one in found if one.kind == 1] == [
        (11, 0, 3),
        (12, 0, 1),
        (11, 3, 3),
        (12, 1, 1),
        (11, 6, 3),
        (12, 2, 1),
    ]
    assert [read_cursor(one.body)[:2] for one in found if one.kind == 2] == [(901, 2)]


def test_beginning_of_version_1_is_read() -> None:
    assert decode_first(GOLDEN["first.file"]) == FIRST
    assert read_first(GOLDEN["first.file"]) == (2**63 + 17, 4, 5_000, 60)


def test_index_of_version_1_is_read() -> None:
    decoded = decode_index(GOLDEN["closed.index"])
    assert decoded is not None
    assert encode_index(decoded) == GOLDEN["closed.index"]
    index = read_index(GOLDEN["closed.index"])
    sequence, base, end, rounds_before, last_round, oldest_ms, newest_ms = index.numbers
    assert (sequence, base, rounds_before, last_round, oldest_ms) == (1, 0, 0, 1, newest_ms)
    orders, bills = index.topics[11] or [], index.topics[12] or []
    assert [(batch[0], batch[3]) for batch in orders] == [(0, len(PAYLOADS)), (3, len(NUMBERED))]
    assert (index.ends, len(bills)) == ({11: 4, 12: 1}, 1)
    (cursor,) = index.cursors
    assert (cursor[:2], cursor[3][0]) == ([11, 901], 2)
    assert bills[0][1] < cursor[2] < end
    assert index.sequenced == [(11, 3, 2**63 + 5, 4, 1, int.from_bytes(NUMBERED[-4:], "little"))]


def test_segment_of_version_1_is_read() -> None:
    disk = SimDisk()
    disk.make_folder("segments/11")
    disk.replace_file(SEGMENT_NAME, GOLDEN[SEGMENT_NAME])
    reader = SegmentReader(DirectoryTier(disk))
    assert list(chain.from_iterable(reader.encoded(11, SEGMENT))) == SEGMENT_BATCHES
    assert [batch.body for batch in reader.read(11, (SEGMENT,), 49, 1_000)] == [PAYLOADS, MESSAGES, PAYLOADS]
    times = [1_750_000_000_123, 1_750_000_000_124, 1_750_000_000_131]
    assert [reader.offset_at(11, SEGMENT, time_ms) for time_ms in times] == [48, 53, 56]


def test_reader_made_from_the_documents_reads_the_segment() -> None:
    says, records = read_segment(GOLDEN[SEGMENT_NAME])
    times = (1_750_000_000_123, 1_750_000_000_130)
    assert says == {"topic": 11, "offsets": (48, 56), "generation": 5, "times": times}
    assert [(one.kind, one.epoch, one.base_offset, one.body) for one in records] == [
        (1, 2, 48, PAYLOADS),
        (1, 2, 51, MESSAGES),
        (1, 2, 53, PAYLOADS),
    ]

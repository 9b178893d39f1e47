"""Files of every released format must open for ever, and the documents must be enough to read them."""

from danube.storage.batch import RecordView, check
from danube.storage.cursors import decode_cursor
from danube.storage.envelope import Kind, decode
from danube.testing.clock import SimClock
from tests.golden.storage.make import BROKER, CURSOR, FOLDER, PAYLOADS, journal_files, single_files
from tests.golden.storage.reader import read_batch, read_cursor, read_envelopes, read_journal
from tests.unit.storage.journal_world import content, open_journal, sim_disk

GOLDEN = {str(path.relative_to(FOLDER)): path.read_bytes() for path in sorted(FOLDER.rglob("*")) if path.is_file()}
JOURNAL = {name: data for name, data in GOLDEN.items() if name.startswith("journal/")}


async def test_what_is_written_today_is_what_was_written_then() -> None:
    assert {**single_files(), **await journal_files()} == GOLDEN


async def test_journal_of_version_1_opens() -> None:
    assert len(JOURNAL) > 1
    journal = await open_journal(sim_disk(JOURNAL), SimClock(), broker_id=BROKER)
    orders, bills = journal.topic(11, 3), journal.topic(12, 3)
    assert await content(orders) == [b"first", b"", b"third"] * 3
    assert await content(bills) == [b"bill 0", b"bill 1", b"bill 2"]
    assert orders.cursor(901) == CURSOR
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

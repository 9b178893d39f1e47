"""Writes the files of storage format version 1 beside this module: `python -m tests.golden.storage.make`.

Run it for a new version only, into a new folder: files of a version that was released are never written again.
"""

import asyncio
from pathlib import Path

from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor
from danube.runtime.blocking import InlineRunner
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import BatchOrigin, encode_messages, encode_payloads
from danube.storage.batches.cursors import encode_cursor
from danube.storage.batches.envelope import encode_data
from danube.storage.batches.producer_state import SequencedBatch, StoredNumbers
from danube.storage.batches.stored_batch import EncodedBatch
from danube.storage.journal import Journal, JournalSettings
from danube.storage.journal.format import FirstFile, encode_first
from danube.storage.segment.manifest import Manifest, Segment, segment_name
from danube.storage.segment.manifest_format import encode_manifest
from danube.storage.segment.writer import encode_segment
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import SimDisk
from tests.unit.storage.journal_world import log_in

FOLDER = Path(__file__).parent / "v1"
BROKER = 3
PAYLOADS = encode_payloads(
    b"\x0a\x06shared",
    [b"first", b"", b"third"],
    BatchOrigin(producer_id=71, base_sequence=5, first_publish_ms=1_750_000_000_001, last_publish_ms=1_750_000_000_009),
)
MESSAGES = encode_messages([b"\x08\x01", b"\x08\x02"])
CURSOR = Cursor(2, (OffsetRange(3, 4), OffsetRange(6, 9)))
NUMBERED = encode_payloads(b"\x0a\x06shared", [b"numbered"], BatchOrigin(producer_id=2**63 + 5, base_sequence=4))
FIRST = FirstFile(journal_id=2**63 + 17, sequence=4, base_position=5_000, rounds_before=60)
MANIFEST = Manifest(
    topic_id=11,
    version=4,
    start_offset=3,
    end_offset=48,
    last_append_time_ms=1_750_000_000_123,
    segments=(
        Segment(3, 40, 2, 1_750_000_000_007, 1_750_000_000_100, 9, 1_400, 2_048),
        Segment(40, 48, 4, 1_750_000_000_100, 1_750_000_000_123, 2, 250, 500),
    ),
    cursors={901: CURSOR, 902: Cursor(48)},
    producer_states=(
        (
            StoredNumbers(SequencedBatch(2**63 + 5, 0, 3, 0xDEADBEEF), 40),
            StoredNumbers(SequencedBatch(2**63 + 5, 3, 2, 1), 43),
        ),
        (StoredNumbers(SequencedBatch(2**63 + 1, 7, 1, 2), 47),),
    ),
    journals={77: 9_000, 2**62: 123_456},
)
SEGMENT_BATCHES = [
    EncodedBatch(first, end, time_ms, len(body), encode_data(11, 2, range(first, end), time_ms, body) + body)
    for first, end, time_ms, body in (
        (48, 51, 1_750_000_000_123, PAYLOADS),
        (51, 53, 1_750_000_000_123, MESSAGES),
        (53, 56, 1_750_000_000_130, PAYLOADS),
    )
]
SEGMENT, SEGMENT_PIECES = encode_segment(11, 5, SEGMENT_BATCHES, block_bytes=350)
"""Two blocks."""


async def all_files() -> dict[str, bytes]:
    return {**single_files(), **await journal_files(), **await index_file(), **await marked_files()}


def single_files() -> dict[str, bytes]:
    return {
        "payloads.batch": PAYLOADS,
        "messages.batch": MESSAGES,
        "data.envelope": encode_data(11, 2, range(40, 43), 1_750_000_000_123, PAYLOADS),
        "cursor.body": encode_cursor(901, CURSOR),
        "first.file": encode_first(FIRST),
        "segments/11/0000000004.manifest": encode_manifest(MANIFEST),
        segment_name(11, SEGMENT): b"".join(SEGMENT_PIECES),
    }


async def index_file() -> dict[str, bytes]:
    """Of a closed file with two topics, a cursor and a numbered batch."""
    disk, clock = SimDisk(), SimClock()
    journal = await _open(disk, clock)
    orders, bills = log_in(journal, 11, 2), log_in(journal, 12, 1)
    orders.append_batch(PAYLOADS, _nothing)
    orders.append_batch(NUMBERED, _nothing)
    bills.append_record(b"bill", _nothing)
    orders.save_cursor(901, CURSOR, _nothing)
    await clock.run_for(0.01)
    await journal.rotate()
    await journal.close()
    return {"closed.index": disk.contents()["journal/0000000001.index"]}


async def journal_files() -> dict[str, bytes]:
    """Two topics, a cursor, two files, a round at the end that says all before it is synced."""
    return {name: data for name, data in (await _left_by_a_journal()).items() if name.endswith(".journal")}


async def marked_files() -> dict[str, bytes]:
    """The same with what stands beside the files: an index, and the mark."""
    return {f"marked/{name}": data for name, data in (await _left_by_a_journal()).items()}


async def _left_by_a_journal() -> dict[str, bytes]:
    disk, clock = SimDisk(), SimClock()
    journal = await _open(disk, clock)
    orders, bills = log_in(journal, 11, 2), log_in(journal, 12, 1)
    for number in range(3):
        orders.append_batch(PAYLOADS, _nothing)
        bills.append_record(b"bill %d" % number, _nothing)
        await clock.run_for(0.01)
    orders.save_cursor(901, CURSOR, _nothing)
    await journal.close()
    return disk.contents()


async def _open(disk: SimDisk, clock: SimClock) -> Journal:
    return await Journal.open(
        disk,
        clock,
        rng=SystemRng(seed=1),
        runner=InlineRunner(),
        read_runner=InlineRunner(),
        settings=JournalSettings(file_bytes_max=700),
        broker_id=BROKER,
    )


def _nothing(_: object) -> None:
    return None


def main() -> None:
    """Write all of them."""
    for name, data in asyncio.run(all_files()).items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()

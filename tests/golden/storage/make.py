"""Writes the files of storage format version 1 beside this module: `python -m tests.golden.storage.make`.

Run it for a new version only, into a new folder: files of a version that was released are never written again.
"""

import asyncio
from pathlib import Path

from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor
from danube.runtime.blocking import InlineRunner
from danube.runtime.rng import SystemRng
from danube.storage.batch import BatchOrigin, encode_messages, encode_payloads
from danube.storage.cursors import encode_cursor
from danube.storage.envelope import encode_data
from danube.storage.journal import Journal, JournalSettings
from danube.testing.clock import SimClock
from danube.testing.disk import SimDisk

FOLDER = Path(__file__).parent / "v1"
BROKER = 3
PAYLOADS = encode_payloads(
    b"\x0a\x06shared",
    [b"first", b"", b"third"],
    BatchOrigin(producer_id=71, base_sequence=5, first_publish_ms=1_750_000_000_001, last_publish_ms=1_750_000_000_009),
)
MESSAGES = encode_messages([b"\x08\x01", b"\x08\x02"])
CURSOR = Cursor(2, (OffsetRange(3, 4), OffsetRange(6, 9)))


def single_files() -> dict[str, bytes]:
    return {
        "payloads.batch": PAYLOADS,
        "messages.batch": MESSAGES,
        "data.envelope": encode_data(11, 2, range(40, 43), 1_750_000_000_123, PAYLOADS),
        "cursor.body": encode_cursor(901, CURSOR),
    }


async def journal_files() -> dict[str, bytes]:
    """Two topics, a cursor, two files, a mark at the end."""
    disk, clock = SimDisk(), SimClock()
    journal = await Journal.open(
        disk,
        clock,
        rng=SystemRng(seed=1),
        runner=InlineRunner(),
        read_runner=InlineRunner(),
        settings=JournalSettings(file_bytes_max=700),
        broker_id=BROKER,
    )
    orders, bills = journal.topic(11, 2), journal.topic(12, 1)
    for number in range(3):
        orders.append_batch(PAYLOADS, _nothing)
        bills.append_record(b"bill %d" % number, _nothing)
        await clock.run_for(0.01)
    orders.save_cursor(901, CURSOR, _nothing)
    await journal.close()
    return disk.contents()


def _nothing(_: object) -> None:
    return None


def main() -> None:
    """Write all of them."""
    for name, data in {**single_files(), **asyncio.run(journal_files())}.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()

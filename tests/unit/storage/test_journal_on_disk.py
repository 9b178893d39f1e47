"""The same journal on a real folder, with real threads and clocks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from danube.model.subscription import Cursor
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import encode_payloads
from danube.storage.journal import Journal, JournalSettings
from danube.storage.journal.format import HEADER_BYTES
from tests.unit.storage.journal_world import BROKER, Told, append, content, log_in, store

Opener = Callable[[], Coroutine[Any, Any, Journal]]
SETTINGS = JournalSettings(file_bytes_max=20_000, cache_bytes_max=5_000, idle_mark_delay_s=0.01, cursor_interval_s=0.01)


@pytest.fixture
def runners() -> Iterator[list[BlockingThread]]:
    """One for writes and one for reads, ended outside the event loop: that blocks."""
    both = [BlockingThread("journal"), BlockingThread("journal-reads")]
    yield both
    for runner in both:
        runner.close()


@pytest.fixture
async def opener(tmp_path: Path, runners: list[BlockingThread]) -> AsyncIterator[Opener]:
    """Opens the journal of `tmp_path`, closing the one before."""
    opened: list[Journal] = []

    async def open_next() -> Journal:
        await close()
        journal = await Journal.open(
            LocalDisk(tmp_path),
            SystemClock(),
            rng=SystemRng(),
            runner=runners[0],
            read_runner=runners[1],
            settings=SETTINGS,
            broker_id=BROKER,
        )
        opened.append(journal)
        return journal

    async def close() -> None:
        while opened:
            await opened.pop().close()

    yield open_next
    await close()


async def test_many_topics_and_files_are_there_after_a_restart(opener: Opener, tmp_path: Path) -> None:
    journal = await opener()
    logs = [log_in(journal, topic_id, 1) for topic_id in range(1, 11)]
    for number in range(30):
        told = [append(log, b"%d" % number * 50) for log in logs]
        assert [await one.offset() for one in told] == [number] * 10
    logs[0].save_cursor(1, Cursor(7))
    assert journal.stats.rounds < 300
    journal = await opener()
    assert len(list((tmp_path / "journal").iterdir())) > 1
    for topic_id in range(1, 11):
        assert await content(log_in(journal, topic_id, 2)) == [b"%d" % number * 50 for number in range(30)]
    assert log_in(journal, 1, 2).cursor(1) == Cursor(7)


async def test_round_with_more_pieces_than_one_write_takes_is_whole(opener: Opener) -> None:
    log = log_in(await opener(), 1, 1)
    told = [Told() for _ in range(1_500)]
    for number, one in enumerate(told):
        log.append_batch(encode_payloads(b"", [b"%d" % number]), one)
    assert [await one.offset() for one in told] == list(range(1_500))
    assert await content(log_in(await opener(), 1, 1)) == [b"%d" % number for number in range(1_500)]


async def test_torn_end_of_a_real_file_is_cut(opener: Opener, tmp_path: Path) -> None:
    await store(log_in(await opener(), 1, 1), b"a", b"b")
    await opener()
    (path,) = (tmp_path / "journal").glob("*.journal")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-HEADER_BYTES:-1])
    assert await content(log_in(await opener(), 1, 1)) == [b"a", b"b"]
    assert path.read_bytes() == whole


async def test_cold_reads_run_beside_appends(opener: Opener) -> None:
    log = log_in(await opener(), 1, 1)
    await store(log, *[bytes(500)] * 40)
    assert log.read_hot(0, 1_000) is None
    told = [append(log, bytes(500)) for _ in range(20)]
    found, *_ = await asyncio.gather(content(log), *(one.outcome() for one in told))
    assert len(found) in {40, 60}

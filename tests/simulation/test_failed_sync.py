"""A sync that failed may leave bytes that every program sees and that no later sync writes: told step by step."""

import pytest

from danube.model.errors import DamagedDataError, DataFolderError
from danube.runtime.blocking import InlineRunner
from danube.runtime.disk import File
from danube.runtime.rng import SystemRng
from danube.storage.journal import Journal
from danube.storage.journal.recovery import Recovery
from danube.storage.journal.writer import JournalEnd
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.journal_world import log_in

SEEDS = range(20)


async def open_journal(disk: SimDisk, clock: SimClock) -> Journal:
    runner = InlineRunner()
    return await Journal.open(disk, clock, rng=SystemRng(1), runner=runner, read_runner=runner, broker_id=1)


async def killed_before_its_sync(seed: int) -> SimDisk:
    """The disk of a broker that was killed between the write and the sync of a record."""
    disk, clock = SimDisk(seed), SimClock()
    journal = await open_journal(disk, clock)
    disk.lying_sync = True
    log_in(journal, 1, epoch=1).append_record(b"", lambda _: None)
    await clock.run_for(0.01)
    left = disk.process_kill()
    left.lying_sync = False
    await journal.close()
    return left


async def shown_by_a_broker_that_starts(disk: SimDisk) -> tuple[int, SimDisk]:
    """The end of the topic's log as a new broker shows it, and the disk once it is killed."""
    journal = await open_journal(disk, SimClock())
    end = log_in(journal, 1, epoch=1).durable_end
    left = disk.process_kill()
    await journal.close()
    return end, left


async def test_what_a_failed_sync_left_at_a_start_is_not_believed_at_the_next() -> None:
    for seed in SEEDS:
        disk = await killed_before_its_sync(seed)
        disk.fail(Operation.SYNC)
        with pytest.raises(DataFolderError):
            await open_journal(disk, SimClock())
        shown, disk = await shown_by_a_broker_that_starts(disk.process_kill())
        found, _ = await shown_by_a_broker_that_starts(disk.power_cut())
        assert found >= shown, f"seed {seed}"


async def test_what_a_start_shows_is_there_after_a_power_cut() -> None:
    for seed in SEEDS:
        assert await survives(seed), f"seed {seed}"


async def test_a_start_that_does_not_sync_what_it_shows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recovery, "_settle_end", settle_without_a_sync)
    assert not all([await survives(seed) for seed in SEEDS])


async def survives(seed: int) -> bool:
    """A record that was written and not synced, shown by the next start, outlives a power cut after that."""
    shown, disk = await shown_by_a_broker_that_starts(await killed_before_its_sync(seed))
    try:
        found, _ = await shown_by_a_broker_that_starts(disk.power_cut())
    except DamagedDataError:
        return False
    return found >= shown


def settle_without_a_sync(self: Recovery, end: JournalEnd) -> File:
    file = self._disk.open_append(self._folder.path(end.sequence))
    file.truncate(end.file_bytes)
    end.synced_to = end.position
    return file

"""A sync that failed may leave bytes that every program sees and that no later sync writes: told step by step."""

import pytest

from danube.model.errors import DataFolderError
from danube.runtime.blocking import InlineRunner
from danube.runtime.rng import SystemRng
from danube.storage.journal import Journal
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import Operation, SimDisk

SEEDS = range(20)


async def open_journal(disk: SimDisk, clock: SimClock) -> Journal:
    runner = InlineRunner()
    return await Journal.open(disk, clock, rng=SystemRng(1), runner=runner, read_runner=runner, broker_id=1)


async def killed_before_its_sync(seed: int) -> SimDisk:
    """The disk of a broker that was killed between the write and the sync of a record."""
    disk, clock = SimDisk(seed), SimClock()
    journal = await open_journal(disk, clock)
    disk.lying_sync = True
    journal.topic(1, epoch=1).append_record(b"", lambda _: None)
    await clock.run_for(0.01)
    left = disk.process_kill()
    left.lying_sync = False
    await journal.close()
    return left


async def shown_by_a_broker_that_starts(disk: SimDisk) -> tuple[int, SimDisk]:
    """The end of the topic's log as a new broker shows it, and the disk once it is killed."""
    journal = await open_journal(disk, SimClock())
    end = journal.topic(1, epoch=1).durable_end
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

"""A folder that was made, or removed, by a broker that was killed right then, and a power cut in the life after that.

What that one finds it takes for granted only once it is durable.
"""

import errno

import pytest

from danube.runtime.blocking import InlineRunner
from danube.runtime.rng import SystemRng
from danube.storage.journal import Journal
from danube.storage.tiers.directory import DirectoryTier
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk

SEEDS = range(30)
NAMES = ("segments/1/a", "segments/2/a")


def killed_in(disk: SimDisk, operation: Operation, number: int, work: list[str]) -> SimDisk:
    """The disk of a process that was killed when this operation had been done, the first so many times."""
    tier = DirectoryTier(disk)
    disk.fail(operation, number, error=errno.EIO)
    with pytest.raises(OSError):
        for name in work:
            tier.put(name, [b"1"])
    return disk.process_kill()


@pytest.mark.parametrize("number", range(1, 5))
def test_a_file_in_a_folder_that_was_just_made_by_another_survives(number: int) -> None:
    for seed in SEEDS:
        disk = killed_in(SimDisk(seed), Operation.SYNC_FOLDER, number, [*NAMES])
        DirectoryTier(disk).put(NAMES[1], [b"1"])
        assert disk.power_cut().contents()[NAMES[1]] == b"1", f"seed {seed}"


def test_a_folder_that_was_just_removed_by_another_is_gone_for_good() -> None:
    for seed in SEEDS:
        disk = SimDisk(seed)
        tier = DirectoryTier(disk)
        tier.put(NAMES[0], [b"1"])
        disk.fail(Operation.SYNC_FOLDER)
        with pytest.raises(OSError):
            tier.delete_folder("segments/1")
        disk = disk.process_kill()
        DirectoryTier(disk).delete_folder("segments/1")
        assert not disk.power_cut().exists("segments/1"), f"seed {seed}"


async def test_a_journal_in_a_folder_that_was_just_made_by_another_survives() -> None:
    runner = InlineRunner()
    for seed in SEEDS:
        disk = SimDisk(seed)
        disk.stop_at(2)  # the first change makes the folder
        with pytest.raises(MachineOffError):
            disk.make_folder("journal")
        disk = disk.process_kill()
        journal = await Journal.open(disk, SimClock(), rng=SystemRng(1), runner=runner, read_runner=runner, broker_id=1)
        await journal.close()
        assert disk.power_cut().exists("journal/0000000001.journal"), f"seed {seed}"

"""How long the disk takes for a sync is measured, whoever waits for it, and if nobody does."""

import pytest

from danube.model.plans.durability import Durability
from danube.storage.journal import Journal
from danube.testing.simulated.disk import Operation, SimFile
from tests.unit.storage.journal_world import World, append, log_in, store

TOPIC = 5
SYNC_S = 1.0


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose files take a second for a sync."""
    world, sync = World(sync_interval_s=0.1, idle_mark_delay_s=60), SimFile.sync

    def slowly(file: SimFile) -> None:
        world.clock.advance(SYNC_S)
        sync(file)

    monkeypatch.setattr(SimFile, "sync", slowly)
    return world


def measured(journal: Journal) -> tuple[int, float]:
    """How many syncs, and their seconds."""
    took = journal.stats.sync_seconds
    return sum(took.counts), took.total_s


async def test_the_sync_of_a_round_is_measured(slow: World) -> None:
    journal = await slow.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    assert measured(journal) == (1, SYNC_S)
    assert journal.stats.last_round_ms >= 1_000 * SYNC_S
    await slow.close()


async def test_a_sync_that_no_round_waits_for_is_measured(slow: World) -> None:
    journal = await slow.open()
    await store(log_in(journal, TOPIC, 1, Durability.INTERVAL), b"a")
    assert measured(journal) == (0, 0.0)
    await slow.clock.run_for(0.1)
    assert measured(journal) == (1, SYNC_S)
    assert journal.stats.last_round_ms == 0
    await slow.close()


async def test_the_syncs_of_a_new_file_are_measured(slow: World) -> None:
    journal = await slow.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await journal.rotate()
    count, total_s = measured(journal)
    assert (count, total_s) == (journal.stats.syncs, 2 * SYNC_S)  # the folder's takes no time here
    await slow.close()


async def test_a_sync_that_fails_is_measured(slow: World) -> None:
    journal = await slow.open()
    slow.disk.fail(Operation.SYNC)
    await append(log_in(journal, TOPIC, 1), b"a").error()
    assert measured(journal) == (1, SYNC_S)
    assert journal.stats.syncs == 0
    await slow.close()

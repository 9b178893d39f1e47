"""The durability of a topic changes while its journal runs: what was promised, and what is from then on."""

import pytest

from danube.model.durability import Durability
from danube.testing.disk import Operation
from tests.unit.storage.journal_world import FIRST_FILE, World, append, content, store

TOPIC = 5
EPOCH = 2
WEAKER = [Durability.INTERVAL, Durability.OS]


@pytest.fixture
def late() -> World:
    """A world whose idle journal does not sync by itself."""
    return World(idle_mark_delay_s=60)


@pytest.mark.parametrize("durability", WEAKER)
async def test_from_the_next_round_on_nobody_waits_for_a_sync(late: World, durability: Durability) -> None:
    journal = await late.open()
    log = journal.topic(TOPIC, EPOCH)
    await store(log, b"synced")
    syncs = journal.stats.syncs
    log.set_durability(durability)
    assert await store(log, b"a", b"b") == [1, 2]
    assert journal.stats.syncs == syncs
    await late.close()


@pytest.mark.parametrize("durability", WEAKER)
async def test_after_a_change_to_fsync_what_is_acknowledged_survives_a_power_cut(
    late: World, durability: Durability
) -> None:
    late.settings = type(late.settings)(durability=durability, idle_mark_delay_s=60, sync_interval_s=60)
    log = (await late.open()).topic(TOPIC, EPOCH)
    await store(log, b"weak")
    log.set_durability(Durability.FSYNC)
    await store(log, b"strict")
    after = late.after(late.disk.power_cut())
    assert await content((await after.open()).topic(TOPIC, EPOCH)) == [b"weak", b"strict"]
    await late.close()


async def test_a_round_that_is_being_written_is_synced_before_it_is_acknowledged(late: World) -> None:
    journal = await late.open()
    log = journal.topic(TOPIC, EPOCH, Durability.OS)
    await store(log, b"weak")
    syncs = journal.stats.syncs
    late.writes.hold()
    told = append(log, b"strict")
    await late.clock.run_for(0)
    log.set_durability(Durability.FSYNC)
    assert told.all == []
    late.writes.release()
    assert (await told.offset(), journal.stats.syncs) == (1, syncs + 1)
    after = late.after(late.disk.power_cut())
    assert await content((await after.open()).topic(TOPIC, EPOCH)) == [b"weak", b"strict"]
    await late.close()


async def test_a_late_sync_that_fails_acknowledges_nothing_and_takes_the_round_out_of_sight(late: World) -> None:
    journal = await late.open()
    log = journal.topic(TOPIC, EPOCH, Durability.OS)
    await store(log, b"weak")
    written = len(late.disk.contents()[FIRST_FILE])
    late.writes.hold()
    told = append(log, b"strict")
    await late.clock.run_for(0)
    log.set_durability(Durability.FSYNC)
    late.disk.fail(Operation.SYNC)
    late.writes.release()
    await told.error()
    assert journal.stopped is not None
    assert (log.durable_end, len(late.disk.contents()[FIRST_FILE])) == (1, written)
    await late.close()


async def test_other_topics_keep_their_own(late: World) -> None:
    journal = await late.open()
    weak, strict = journal.topic(TOPIC, EPOCH), journal.topic(TOPIC + 1, EPOCH)
    weak.set_durability(Durability.OS)
    syncs = journal.stats.syncs
    await store(weak, b"a")
    assert journal.stats.syncs == syncs
    await store(strict, b"b")
    assert journal.stats.syncs == syncs + 1
    await late.close()


async def test_what_says_nothing_of_its_own_is_as_the_journal_is(late: World) -> None:
    journal = await late.open()
    log = journal.topic(TOPIC, EPOCH, Durability.OS)
    syncs = journal.stats.syncs
    log.set_durability(None)
    await store(log, b"a")
    assert journal.stats.syncs == syncs + 1
    await late.close()


async def test_a_change_to_interval_has_the_next_round_synced_within_it() -> None:
    world = World(durability=Durability.OS, sync_interval_s=0.5, idle_mark_delay_s=60)
    journal = await world.open()
    log = journal.topic(TOPIC, EPOCH)
    await store(log, b"a")
    log.set_durability(Durability.INTERVAL)
    syncs = journal.stats.syncs
    await store(log, b"b")
    assert journal.stats.syncs == syncs
    await world.clock.run_for(0.5)
    assert journal.stats.syncs == syncs + 1
    await world.close()

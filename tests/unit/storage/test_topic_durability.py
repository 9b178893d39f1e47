"""The durability of a topic changes while its journal runs: what was promised, and what is from then on."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from danube.broker.topics.deduplication import Sequences
from danube.model.errors import ShuttingDownError
from danube.model.limits.broker import JOURNAL_SYNC_INTERVAL_S
from danube.model.message import SEQUENCED_BIT
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.storage.batches.batch import BatchOrigin, encode_payloads
from danube.storage.journal import JournalSettings
from danube.storage.log.topic_log import TopicLog
from danube.testing.simulated.disk import Operation
from tests.unit.storage.journal_world import FIRST_FILE, HeldRunner, Told, World, append, content, log_in, store

T = TypeVar("T")

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
    log = log_in(journal, TOPIC, EPOCH)
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
    log = log_in(await late.open(), TOPIC, EPOCH)
    await store(log, b"weak")
    log.set_durability(Durability.FSYNC)
    await store(log, b"strict")
    after = late.after(late.disk.power_cut())
    assert await content(log_in(await after.open(), TOPIC, EPOCH)) == [b"weak", b"strict"]
    await late.close()


async def test_a_round_that_is_being_written_is_synced_before_it_is_acknowledged(late: World) -> None:
    journal = await late.open()
    log = log_in(journal, TOPIC, EPOCH, Durability.OS)
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
    assert await content(log_in(await after.open(), TOPIC, EPOCH)) == [b"weak", b"strict"]
    await late.close()


async def test_a_late_sync_that_fails_acknowledges_nothing_and_takes_the_round_out_of_sight(late: World) -> None:
    journal = await late.open()
    log = log_in(journal, TOPIC, EPOCH, Durability.OS)
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


async def test_a_confirmed_cursor_of_an_interval_topic_is_synced_in_time_while_others_are_busy(late: World) -> None:
    late.settings = JournalSettings(durability=Durability.OS, idle_mark_delay_s=60)
    journal = await late.open()
    busy, log = log_in(journal, TOPIC + 1, EPOCH), log_in(journal, TOPIC, EPOCH, Durability.INTERVAL)
    saved = Told()
    log.save_cursor(9, Cursor(1), saved)
    assert await saved.outcome() is None
    written = journal.end_position
    assert journal.synced_to < written
    for _ in range(20):
        await store(busy, b"busy")
        await late.clock.run_for(JOURNAL_SYNC_INTERVAL_S / 10)
    assert journal.synced_to >= written
    await late.close()


async def test_a_cursor_of_an_os_topic_has_nothing_synced(late: World) -> None:
    journal = await late.open()
    saved = Told()
    log_in(journal, TOPIC, EPOCH, Durability.OS).save_cursor(9, Cursor(1), saved)
    syncs = journal.stats.syncs
    assert await saved.outcome() is None
    await late.clock.run_for(1)
    assert journal.stats.syncs == syncs
    await late.close()


async def test_other_topics_keep_their_own(late: World) -> None:
    journal = await late.open()
    weak, strict = log_in(journal, TOPIC, EPOCH), log_in(journal, TOPIC + 1, EPOCH)
    weak.set_durability(Durability.OS)
    syncs = journal.stats.syncs
    await store(weak, b"a")
    assert journal.stats.syncs == syncs
    await store(strict, b"b")
    assert journal.stats.syncs == syncs + 1
    await late.close()


async def test_what_says_nothing_of_its_own_is_as_the_journal_is(late: World) -> None:
    journal = await late.open()
    log = log_in(journal, TOPIC, EPOCH, Durability.OS)
    syncs = journal.stats.syncs
    log.set_durability(None)
    await store(log, b"a")
    assert journal.stats.syncs == syncs + 1
    await late.close()


async def test_a_change_to_interval_has_the_next_round_synced_within_it() -> None:
    world = World(durability=Durability.OS, sync_interval_s=0.5, idle_mark_delay_s=60)
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH)
    await store(log, b"a")
    log.set_durability(Durability.INTERVAL)
    syncs = journal.stats.syncs
    await store(log, b"b")
    assert journal.stats.syncs == syncs
    await world.clock.run_for(0.5)
    assert journal.stats.syncs == syncs + 1
    await world.close()


def sequenced(first: int) -> bytes:
    return encode_payloads(b"", [b"x"], BatchOrigin(producer_id=SEQUENCED_BIT | 5, base_sequence=first))


def sent(sequences: Sequences, first: int, told: Told | None = None) -> Told:
    told = told or Told()
    sequences.publish(sequenced(first), told)
    return told


def sequences_of(log: TopicLog) -> Sequences:
    return Sequences(log, lambda body, _, done: log.append_batch(body, done))


@pytest.fixture
async def weak(late: World) -> TopicLog:
    """A topic without syncs that has one numbered batch."""
    late.settings = type(late.settings)(idle_mark_delay_s=60, sync_interval_s=60)
    log = log_in(await late.open(), TOPIC, EPOCH, Durability.OS)
    assert await sent(sequences_of(log), 0).offset() == 0
    return log


async def test_a_batch_sent_again_after_a_change_to_fsync_is_acknowledged_after_its_sync(
    late: World, weak: TopicLog
) -> None:
    weak.set_durability(Durability.FSYNC)
    assert await sent(sequences_of(weak), 0).offset() == 0
    after = late.after(late.disk.power_cut())
    assert log_in(await after.open(), TOPIC, EPOCH).durable_end == 1
    await late.close()


async def test_a_batch_sent_again_costs_no_sync_while_its_topic_is_as_it_was(late: World, weak: TopicLog) -> None:
    again = sent(sequences_of(weak), 0)
    assert again.all == [0]
    weak.set_durability(Durability.FSYNC)
    await store(weak, b"synced")
    assert sent(sequences_of(weak), 0).all == [0]
    await late.close()


async def test_what_is_sent_again_is_told_before_what_is_sent_behind_it(late: World, weak: TopicLog) -> None:
    weak.set_durability(Durability.FSYNC)
    sequences, told = sequences_of(weak), Told()
    sent(sequences, 0, told)
    await sent(sequences, 1, told).offset()
    await late.clock.run_for(0)
    assert told.all == [0, 1]
    await late.close()


async def test_who_sends_again_is_told_in_order_though_the_topic_changes_back_meanwhile(
    late: World, weak: TopicLog
) -> None:
    sequences, told = sequences_of(weak), Told()
    await sent(sequences, 1).offset()
    weak.set_durability(Durability.FSYNC)
    late.writes.hold()
    sent(sequences, 0, told)
    weak.set_durability(Durability.OS)
    sent(sequences, 1, told)
    late.writes.release()
    await late.clock.run_for(0)
    assert told.all == [0, 1]
    await late.close()


class ToldLate(HeldRunner):
    """What it ran is done before anybody hears of it, as in a thread."""

    async def run(self, work: Callable[[], T]) -> T:
        done = work()
        await self._free.wait()
        return done


async def test_who_sends_again_is_told_in_order_though_the_sync_is_done_meanwhile(late: World) -> None:
    late.writes = ToldLate()
    log, told = log_in(await late.open(), TOPIC, EPOCH, Durability.OS), Told()
    sequences = sequences_of(log)
    for first in (0, 1):
        await sent(sequences, first).offset()
    log.set_durability(Durability.FSYNC)
    late.writes.hold()
    sent(sequences, 0, told)
    await late.clock.run_for(0)
    sent(sequences, 1, told)
    late.writes.release()
    await late.clock.run_for(0)
    assert told.all == [0, 1]
    await late.close()


async def test_a_sync_that_fails_is_told_to_who_sent_again(late: World, weak: TopicLog) -> None:
    weak.set_durability(Durability.FSYNC)
    late.disk.fail(Operation.SYNC)
    told = sent(sequences_of(weak), 0)
    assert "the journal has stopped" in str(await told.error())
    await late.close()


async def test_a_journal_that_closes_syncs_for_who_sent_again_and_refuses_those_who_come_later(
    late: World, weak: TopicLog
) -> None:
    late.disk.fail(Operation.APPEND, times=99)
    weak.set_durability(Durability.FSYNC)
    told = sent(sequences_of(weak), 0)
    await late.close()
    assert told.all == [0]


async def test_who_sends_again_while_the_journal_closes_is_refused(late: World, weak: TopicLog) -> None:
    weak.set_durability(Durability.FSYNC)
    late.writes.hold()
    append(weak, b"held")
    await late.clock.run_for(0)
    closing = asyncio.create_task(late._open[-1].close())
    await late.clock.run_for(0)
    with pytest.raises(ShuttingDownError):
        sent(sequences_of(weak), 0)
    late.writes.release()
    await closing
    await late.close()


@pytest.mark.parametrize("is_being_written", [False, True])
async def test_a_cursor_that_waits_when_its_topic_changes_to_fsync_is_saved_after_a_sync(
    late: World, weak: TopicLog, *, is_being_written: bool
) -> None:
    late.writes.hold()
    if not is_being_written:
        append(weak, b"before it")
        await late.clock.run_for(0)
    saved = Told()
    weak.save_cursor(9, Cursor(1), saved)
    await late.clock.run_for(0)
    weak.set_durability(Durability.FSYNC)
    late.writes.release()
    assert await saved.outcome() is None
    after = late.after(late.disk.power_cut())
    assert log_in(await after.open(), TOPIC, EPOCH).cursor(9) == Cursor(1)
    await late.close()

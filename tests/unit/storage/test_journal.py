"""Appending, reading, cursors and restarts of a journal whose disk does what it should."""

import asyncio

import pytest

from danube.model.errors import InvalidBatchError, MessageTooLargeError, OverloadedError, ShuttingDownError
from danube.model.limits.broker import BATCH_BYTES_MAX
from danube.model.message import SEQUENCED_BIT
from danube.model.plans.durability import Durability
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor
from danube.storage.batches.batch import BatchOrigin, CheckedBody, RecordKind, body_bytes, encode_payloads, read_header
from danube.storage.journal import commit
from danube.testing.simulated.clock import settle
from danube.testing.simulated.disk import SimDisk
from tests.unit.storage.journal_world import (
    FIRST_FILE,
    SECOND_FILE,
    Told,
    World,
    append,
    content,
    in_batch,
    journal_files,
    log_in,
    store,
)

TOPIC = 5
EPOCH = 2


async def test_records_get_contiguous_offsets_and_are_read_back(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    assert await store(log, b"a", b"b", b"c") == [0, 1, 2]
    assert (log.start_offset, log.durable_end) == (0, 3)
    assert await content(log) == [b"a", b"b", b"c"]


async def test_records_that_come_together_are_one_batch(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    told = [append(log, record) for record in (b"a", b"b", b"c")]
    assert [await one.offset() for one in told] == [0, 1, 2]
    (batch,) = await log.read(0, 1_000)
    assert (batch.base_offset, batch.count, in_batch(batch)) == (0, 3, [b"a", b"b", b"c"])
    assert read_header(batch.body).kind is RecordKind.MESSAGES


async def test_client_batch_is_kept_byte_for_byte(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    body = encode_payloads(b"shared", [b"x", b"y"], BatchOrigin(producer_id=1))
    told = Told()
    log.append_batch(body, told)
    assert await told.offset() == 0
    assert [batch.body for batch in await log.read(1, 1)] == [body]


async def test_order_of_records_and_batches_of_a_topic_is_kept(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    first, batch, last = append(log, b"1"), Told(), Told()
    log.append_batch(encode_payloads(b"", [b"2", b"3"]), batch)
    log.append_record(b"4", last)
    assert [await told.offset() for told in (first, batch, last)] == [0, 1, 3]
    assert await content(log) == [b"1", b"2", b"3", b"4"]


async def test_wrong_body_is_refused_and_leaves_no_trace(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    told = Told()
    with pytest.raises(InvalidBatchError):
        log.append_batch(encode_payloads(b"", [b"x"])[:-1] + b"?", told)
    assert await store(log, b"good") == [0]
    assert told.all == []


async def test_body_that_was_checked_is_not_checked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    body = encode_payloads(b"", [b"x", b"y"], BatchOrigin(producer_id=SEQUENCED_BIT | 1))
    monkeypatch.setattr(commit, "check", None)
    told = Told()
    log.append_batch(CheckedBody(body), told)
    assert (await told.offset(), log.next_sequence(SEQUENCED_BIT | 1)) == (0, 2)
    assert [batch.body for batch in await log.read(0, 1)] == [body]


async def test_one_sync_serves_all_topics(world: World) -> None:
    journal = await world.open()
    logs = [log_in(journal, topic_id, EPOCH) for topic_id in range(1, 101)]
    syncs = journal.stats.syncs
    told = [append(log, b"x") for log in logs]
    assert [await one.offset() for one in told] == [0] * 100
    assert (journal.stats.rounds, journal.stats.syncs - syncs) == (1, 1)


async def test_what_comes_during_a_round_goes_with_the_next_one(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH)
    world.writes.hold()
    first = append(log, b"first")
    await settle()
    rest = [append(log, b"later") for _ in range(50)]
    world.writes.release()
    assert [await told.offset() for told in (first, *rest)] == list(range(51))
    assert journal.stats.rounds == 2


async def test_nothing_is_seen_before_its_round_has_ended(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    heard = Told()
    log.on_durable(heard)
    world.writes.hold()
    told = append(log, b"x")
    await settle()
    assert (told.all, heard.all, log.durable_end) == ([], [], 0)
    assert (log.read_hot(0, 1_000), await log.read(0, 1_000)) == ([], [])
    world.writes.release()
    assert (await told.offset(), await heard.outcome(), log.durable_end) == (0, 1, 1)


async def test_acknowledged_records_are_synced_on_the_disk(world: World) -> None:
    await store(log_in(await world.open(), TOPIC, EPOCH), b"a", b"b")
    after = world.after(world.disk.power_cut())
    assert await content(log_in(await after.open(), TOPIC, EPOCH)) == [b"a", b"b"]
    await world.close()


async def test_listener_is_told_once_a_round(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    heard = Told()
    log.on_durable(heard)
    for _ in range(3):
        append(log, b"x")
    await append(log, b"x").outcome()
    await store(log, b"y")
    assert heard.all == [4, 5]
    log.close()
    await store(log, b"z")
    assert heard.all == [4, 5]


async def test_failing_callback_harms_nobody_else(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)

    def broken(_: object) -> None:
        raise RuntimeError("a caller's fault")

    log.append_record(b"x", broken)
    assert await append(log, b"y").offset() == 1
    assert "a caller's fault" in caplog.text


async def test_append_time_never_goes_back_within_a_topic(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    start_ms = world.clock.now_ms()
    await store(log, b"a")
    world.clock.jump_wall(-3_600)
    await store(log, b"b")
    log = log_in(await world.reopen(), TOPIC, EPOCH)
    await store(log, b"c")
    assert [batch.append_time_ms for batch in await log.read(0, 1_000)] == [start_ms] * 3


async def test_offsets_are_found_by_append_time(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    start_ms = world.clock.now_ms()
    assert log.offset_in_journal(0) == 0
    await store(log, b"a")
    world.clock.advance(1.0)
    await store(log, b"b")
    found = [log.offset_in_journal(start_ms + later_ms) for later_ms in (0, 1, 1_000, 1_001)]
    assert found == [0, 1, 1, 2]


async def test_append_time_of_an_offset_is_that_of_its_batch(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    start_ms = world.clock.now_ms()
    assert log.append_time_at_hand(0) is None
    await store(log, b"a", b"b")
    world.clock.advance(1.0)
    await store(log, b"c")
    assert [log.append_time_at_hand(offset) for offset in range(-1, 4)] == [
        None,
        start_ms,
        start_ms,
        start_ms + 1_000,
        None,
    ]


async def test_everything_is_there_after_a_restart(world: World) -> None:
    journal = await world.open()
    one, other = log_in(journal, 1, EPOCH), log_in(journal, 2, EPOCH)
    await store(one, b"a", b"b")
    await store(other, b"x")
    one.save_cursor(9, Cursor(1, (OffsetRange(3, 4),)))
    journal = await world.reopen()
    one, other = log_in(journal, 1, EPOCH + 1), log_in(journal, 2, EPOCH + 1)
    assert (await content(one), await content(other)) == ([b"a", b"b"], [b"x"])
    assert (one.cursor(9), one.cursor(8), other.cursor(9)) == (Cursor(1, (OffsetRange(3, 4),)), None, None)
    assert (await store(one, b"c"), await store(other, b"y")) == ([2], [1])


async def test_reads_stop_at_the_byte_bound_but_give_one_batch(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    await store(log, bytes(100), bytes(100), bytes(100))
    one = body_bytes(0, 1, 100)
    for bytes_max, batches in ((1, 1), (2 * one - 1, 1), (2 * one, 2), (10_000, 3)):
        assert len(log.read_hot(0, bytes_max) or []) == batches
    log.close()
    for bytes_max, batches in ((1, 1), (2 * one - 1, 1), (2 * one, 2), (10_000, 3)):
        assert len(await log.read(0, bytes_max)) == batches


async def test_batches_that_left_memory_are_read_from_the_files() -> None:
    world = World(cache_bytes_max=1_000, file_bytes_max=1_000)
    log = log_in(await world.open(), TOPIC, EPOCH)
    wanted = [bytes([number]) * 200 for number in range(20)]
    await store(log, *wanted)
    assert log.read_hot(0, 10_000) is None
    assert log.read_hot(19, 10_000) is not None
    assert await content(log) == wanted
    assert await content(log, 7) == wanted[7:]
    assert len([name for name in world.disk.contents() if name.startswith("journal/")]) > 3
    await world.close()


async def test_large_and_small_batches_far_apart_are_read_together() -> None:
    world = World(cache_bytes_max=0)
    journal = await world.open()
    log, other = log_in(journal, TOPIC, EPOCH), log_in(journal, TOPIC + 1, EPOCH)
    wanted = []
    for number, size in enumerate([10, 3_000_000, 10, 2_000_000, 10]):
        wanted.append(bytes([number]) * size)
        await store(log, wanted[-1])
        await store(other, bytes(5_000 * number))
    assert [in_batch(batch) for batch in await log.read(0, 10_000_000)] == [[record] for record in wanted]
    await world.close()


async def test_topics_side_by_side_are_read_without_each_other() -> None:
    world = World(cache_bytes_max=0)
    journal = await world.open()
    logs = [log_in(journal, topic_id, EPOCH) for topic_id in range(1, 4)]
    for number in range(10):
        for log in logs:
            append(log, b"%d of %d" % (number, log.topic_id))
        await store(logs[0], b"extra")
    assert await content(logs[1]) == [b"%d of 2" % number for number in range(10)]
    assert len(await content(logs[0])) == 20
    await world.close()


async def test_cold_reads_do_not_wait_for_the_writer() -> None:
    world = World(cache_bytes_max=0)
    log = log_in(await world.open(), TOPIC, EPOCH)
    await store(log, b"old")
    world.writes.hold()
    append(log, b"new")
    await settle()
    assert await content(log) == [b"old"]
    world.writes.release()
    await world.close()


async def test_rotation_starts_a_new_file_and_nothing_is_missed() -> None:
    world = World(file_bytes_max=600)
    log = log_in(await world.open(), TOPIC, EPOCH)
    await store(log, *[bytes(200)] * 4)
    assert {FIRST_FILE, SECOND_FILE} <= set(world.disk.contents())
    journal = await world.reopen()
    assert (log_in(journal, TOPIC, EPOCH).durable_end, journal.stats.files) == (4, len(journal_files(world.disk)))
    assert all(len(data) <= 600 for data in world.disk.contents().values())
    await world.close()


async def test_round_larger_than_a_file_is_written_whole() -> None:
    world = World(file_bytes_max=600)
    log = log_in(await world.open(), TOPIC, EPOCH)
    await store(log, b"small", bytes(5_000), b"small")
    assert await content(log_in(await world.reopen(), TOPIC, EPOCH)) == [b"small", bytes(5_000), b"small"]
    await world.close()


async def test_records_that_do_not_fit_one_batch_are_split() -> None:
    world = World()
    log = log_in(await world.open(), TOPIC, EPOCH)
    large = bytes(BATCH_BYTES_MAX // 2)
    told = [append(log, large) for _ in range(3)]
    assert [await one.offset() for one in told] == [0, 1, 2]
    assert [batch.count for batch in await log.read(0, 4 * BATCH_BYTES_MAX)] == [1, 1, 1]
    await world.close()


async def test_message_that_fits_no_batch_is_refused(world: World) -> None:
    log = log_in(await world.open(), TOPIC, EPOCH)
    with pytest.raises(MessageTooLargeError):
        append(log, bytes(BATCH_BYTES_MAX))
    assert await store(log, b"x") == [0]


async def test_full_backlog_refuses_until_it_is_written() -> None:
    world = World(backlog_bytes_max=10_000)
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH)
    world.writes.hold()
    told = [append(log, bytes(1_000)) for _ in range(8)]
    with pytest.raises(OverloadedError, match="10000"):
        append(log, bytes(1_000))
    with pytest.raises(OverloadedError):
        log.append_batch(encode_payloads(b"", [bytes(1_000)]), Told())
    world.writes.release()
    assert [await one.offset() for one in told] == list(range(8))
    assert journal.stats.backlog_bytes == 0
    assert await store(log, bytes(1_000)) == [8]
    await world.close()


async def test_rounds_are_bounded_in_bytes_and_take_all_in_order() -> None:
    world = World(round_bytes_max=3_000)
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH)
    bodies = [encode_payloads(b"", [bytes([number]) * 1_000]) for number in range(10)]
    told = [Told() for _ in bodies]
    for body, one in zip(bodies, told, strict=True):
        log.append_batch(body, one)
    assert [await one.offset() for one in told] == list(range(10))
    assert journal.stats.rounds == 5
    assert [batch.body for batch in await log.read(0, 100_000)] == bodies
    await world.close()


async def test_unknown_topics_are_skipped_and_stay_closed(world: World) -> None:
    journal = await world.open()
    for topic_id in (1, 2):
        await store(log_in(journal, topic_id, EPOCH), b"x")
    journal = await world.reopen(known_topics={1, 3})
    assert [log_in(journal, topic_id, EPOCH).durable_end for topic_id in (1, 3)] == [1, 0]
    with pytest.raises(ValueError, match="never used again"):
        log_in(journal, 2, EPOCH)


async def test_forgotten_topic_frees_its_memory_and_stays_closed(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH)
    await store(log, b"x")
    told = Told()
    log.save_cursor(1, Cursor(1), told)
    journal.forget(TOPIC)
    journal.forget(TOPIC + 1)
    assert journal.stats.cache_bytes == 0
    assert (await told.error()).code == "TOPIC_NOT_FOUND"
    with pytest.raises(ValueError, match="never used again"):
        log_in(journal, TOPIC, EPOCH)


async def test_closing_writes_what_is_pending_and_refuses_more(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH)
    told = append(log, b"x")
    log.save_cursor(1, Cursor(1))
    refused = Told()
    closing = asyncio.gather(journal.close())
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDownError):
        append(log, b"y")
    log.save_cursor(1, Cursor(5), refused)
    await closing
    assert await told.offset() == 0
    assert isinstance(refused.all[0], ShuttingDownError)
    log = log_in(await world.open(), TOPIC, EPOCH)
    assert (await content(log), log.cursor(1)) == ([b"x"], Cursor(1))


async def test_closed_topic_log_lets_its_memory_go_and_keeps_its_data(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH)
    await store(log, b"x")
    log.close()
    assert journal.stats.cache_bytes == 0
    assert await content(log_in(journal, TOPIC, EPOCH)) == [b"x"]


@pytest.mark.parametrize("durability", [Durability.INTERVAL, Durability.OS])
async def test_weaker_durability_acknowledges_after_the_write(durability: Durability) -> None:
    world = World(durability=durability)
    journal = await world.open()
    syncs = journal.stats.syncs
    assert await store(log_in(journal, TOPIC, EPOCH), b"a", b"b") == [0, 1]
    assert journal.stats.syncs == syncs
    after = world.after(world.disk.process_kill())
    assert await content(log_in(await after.open(), TOPIC, EPOCH)) == [b"a", b"b"]
    await world.close()


async def test_interval_durability_syncs_within_the_interval() -> None:
    world = World(durability=Durability.INTERVAL, sync_interval_s=0.5, idle_mark_delay_s=60)
    journal = await world.open()
    await store(log_in(journal, TOPIC, EPOCH), b"a")
    syncs = journal.stats.syncs
    await world.clock.run_for(0.5)
    assert journal.stats.syncs == syncs + 1
    after = world.after(world.disk.power_cut())
    assert await content(log_in(await after.open(), TOPIC, EPOCH)) == [b"a"]
    await world.close()


async def test_busy_interval_journal_syncs_with_a_round() -> None:
    world = World(durability=Durability.INTERVAL, sync_interval_s=0.5, idle_mark_delay_s=60)
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH)
    await store(log, b"a")
    syncs = journal.stats.syncs
    world.clock.advance(0.5)
    await store(log, b"b", b"c")
    assert journal.stats.syncs == syncs + 1
    await world.close()


async def test_stats_say_what_was_done(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, EPOCH), b"a", b"b")
    stats = journal.stats
    assert (stats.rounds, stats.failed_rounds, stats.files, stats.backlog_bytes) == (2, 0, 1, 0)
    assert stats.size_bytes == len(world.disk.contents()[FIRST_FILE]) == stats.bytes_written + 52


async def test_another_disk_starts_empty() -> None:
    world = World(SimDisk())
    journal = await world.open()
    assert (log_in(journal, TOPIC, EPOCH).durable_end, journal.stopped) == (0, None)
    await world.close()


@pytest.mark.parametrize("durability", [Durability.INTERVAL, Durability.OS])
async def test_a_topic_may_be_acknowledged_before_the_sync_that_others_wait_for(durability: Durability) -> None:
    world = World(idle_mark_delay_s=60)
    journal = await world.open()
    syncs = journal.stats.syncs
    weak, strict = log_in(journal, TOPIC, EPOCH, durability), log_in(journal, TOPIC + 1, EPOCH)
    assert (await store(weak, b"a"), journal.stats.syncs) == ([0], syncs)
    told = [append(weak, b"b"), append(strict, b"c")]
    assert [await one.offset() for one in told] == [1, 0]
    assert journal.stats.syncs == syncs + 1
    await world.close()


async def test_a_topic_may_wait_for_the_sync_where_others_do_not() -> None:
    world = World(durability=Durability.OS)
    journal = await world.open()
    strict = log_in(journal, TOPIC, EPOCH, Durability.FSYNC)
    await store(log_in(journal, TOPIC + 1, EPOCH), b"weak")
    await store(strict, b"strict")
    saved = Told()
    strict.save_cursor(9, Cursor(1), saved)
    await saved.outcome()
    after = world.after(world.disk.power_cut())
    log = log_in(await after.open(), TOPIC, EPOCH)
    assert (await content(log), log.cursor(9)) == ([b"strict"], Cursor(1))
    await world.close()


async def test_a_topic_of_its_own_is_synced_within_the_interval() -> None:
    world = World(sync_interval_s=0.5, idle_mark_delay_s=60)
    journal = await world.open()
    log = log_in(journal, TOPIC, EPOCH, Durability.INTERVAL)
    await store(log, b"a")
    log.save_cursor(9, Cursor(1))
    syncs = journal.stats.syncs
    await world.clock.run_for(0.4)
    assert journal.stats.syncs == syncs
    await world.clock.run_for(0.2)
    assert journal.stats.syncs == syncs + 1
    await world.close()

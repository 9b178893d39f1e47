"""Retention beside all else: whose answer got lost, who subscribes meanwhile, and what else fails."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

import pytest

from danube.metadata.records.storage import EpochRange, TopicStorage
from danube.metadata.store import Transaction
from danube.model.errors import MetadataError, OffsetTrimmedError, UnknownOutcomeError, VersionConflictError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.storage.log.topic_log import TopicLog
from danube.storage.store import Storage
from danube.testing.simulated.disk import Operation
from tests.unit.storage.store.storage_world import KEEP_ALL, StorageWorld, always, fill, flush_all, read_all
from tests.unit.storage.store.test_retention import SMALL, no_subscription, nothing_read

TOPIC = 5
SEGMENTS = f"segments/{TOPIC}/*"
LOST_WITH = [MetadataError("no answer"), asyncio.CancelledError()]

Changes = Sequence[tuple[TopicStorage, int]]
Point = Callable[[Changes], Awaitable[list[TopicStorage]]]


async def trim_with(world: StorageWorld, point: Point) -> None:
    """Retention when nobody has subscribed yet, while metadata is told in this way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.records, "point", point)
        await world.storage.retain(always(SMALL), no_subscription)


async def lose_the_answer(world: StorageWorld, error: BaseException) -> None:
    """A trim that metadata names, and that the storage hears nothing of."""
    point = world.records.point

    async def point_and_fail(changes: Changes) -> list[TopicStorage]:
        await point(changes)
        raise error

    with pytest.raises(type(error)):
        await trim_with(world, point_and_fail)


async def flush_more(storage: Storage, world: StorageWorld) -> TopicLog:
    log = storage.topic(TOPIC, 1)
    await fill(log, 10, first=100)
    await storage.journal.rotate()
    for _ in range(2):
        await storage.flush()
        world.clock.advance(FLUSH_RETRY_S)
    return log


async def start_anew(_: Storage, world: StorageWorld) -> TopicLog:
    return (await world.reopen()).topic(TOPIC, 2)


# An answer that got lost


@pytest.mark.parametrize("then", [flush_more, start_anew])
@pytest.mark.parametrize("error", LOST_WITH, ids=type)
async def test_who_subscribes_after_a_trim_whose_answer_got_lost_keeps_what_is_unread(
    world: StorageWorld,
    storage: Storage,
    log: TopicLog,
    error: BaseException,
    then: Callable[[Storage, StorageWorld], Awaitable[TopicLog]],
) -> None:
    await lose_the_answer(world, error)
    unread = log.start_offset
    for _ in range(3):
        await storage.retain(always(SMALL), lambda _: unread)
        world.clock.advance(FLUSH_RETRY_S)
    log = await then(storage, world)
    assert log.start_offset <= unread


@pytest.mark.parametrize("error", LOST_WITH, ids=type)
async def test_a_trim_whose_answer_got_lost_is_looked_up_though_nothing_more_is_to_go(
    world: StorageWorld, storage: Storage, log: TopicLog, error: BaseException
) -> None:
    told: list[int] = []
    log.on_trimmed(told.append)
    await lose_the_answer(world, error)
    await storage.retain(always(KEEP_ALL), no_subscription)
    assert told == [log.start_offset]
    with pytest.raises(OffsetTrimmedError):
        await log.read(0, 1_000)
    assert (await start_anew(storage, world)).start_offset == told[0]


async def test_what_cannot_be_looked_up_yet_is_not_trimmed_and_looked_up_later(
    world: StorageWorld, storage: Storage, log: TopicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lose_the_answer(world, MetadataError("no answer"))
    start_offset = log.start_offset

    async def fail(_: int) -> TopicStorage:
        raise MetadataError("the store is away")

    with monkeypatch.context() as away:
        away.setattr(world.records, "get", fail)
        assert await storage.retain(always(SMALL), no_subscription) == 0
    assert log.start_offset == start_offset
    world.clock.advance(FLUSH_RETRY_S)
    await storage.retain(always(SMALL), no_subscription)
    with pytest.raises(OffsetTrimmedError) as refused:
        await log.read(0, 1_000)
    assert refused.value.start_offset == start_offset


async def test_a_trim_that_comes_to_metadata_after_it_was_looked_up_takes_nothing_from_who_subscribed_since(
    world: StorageWorld, storage: Storage, log: TopicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[Transaction] = []

    async def is_late(transaction: Transaction) -> int:
        submitted.append(transaction)
        raise UnknownOutcomeError("the change may still be made")

    with monkeypatch.context() as away, pytest.raises(UnknownOutcomeError):
        away.setattr(world.metadata, "transact", is_late)
        await storage.retain(always(SMALL), no_subscription)
    await storage.retain(always(SMALL), nothing_read)
    unread = log.start_offset
    with contextlib.suppress(VersionConflictError):
        await world.metadata.transact(submitted[-1])
    for _ in range(3):
        await storage.retain(always(SMALL), lambda _: unread)
        world.clock.advance(FLUSH_RETRY_S)
    assert log.start_offset == unread == 0
    assert (await start_anew(storage, world)).start_offset == unread


async def test_a_metadata_store_that_is_away_is_asked_once_in_a_pass(
    world: StorageWorld, storage: Storage, log: TopicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(storage.topic(TOPIC + 1, 1), 100)
    await flush_all(storage)
    await lose_the_answer(world, MetadataError("no answer"))
    asked: list[int] = []

    async def fail(topic_id: int) -> TopicStorage:
        asked.append(topic_id)
        raise MetadataError("the store is away")

    monkeypatch.setattr(world.records, "get", fail)
    await storage.retain(always(SMALL), no_subscription)
    assert asked == [TOPIC]


async def test_a_topic_that_somebody_took_over_is_not_trimmed_any_more(
    world: StorageWorld, storage: Storage, log: TopicLog
) -> None:
    await world.records.seal(await world.records.get(TOPIC), (EpochRange(2, 77, 100, None),))
    assert await storage.retain(always(SMALL), no_subscription) == 0
    files = world.files(f"segments/{TOPIC}")
    for _ in range(3):
        world.clock.advance(FLUSH_RETRY_S)
        assert await storage.retain(always(SMALL), no_subscription) == 0
    assert world.files(f"segments/{TOPIC}") == files


# While metadata is told


async def test_who_subscribes_at_the_earliest_message_while_a_trim_is_named_is_led_past_nothing(
    world: StorageWorld, storage: Storage, log: TopicLog
) -> None:
    begun: list[int] = []
    point = world.records.point

    async def subscribe_meanwhile(changes: Changes) -> list[TopicStorage]:
        begun.append(log.start_offset)
        answer = await point(changes)
        begun.append(log.start_offset)
        return answer

    await trim_with(world, subscribe_meanwhile)
    assert begun == [log.start_offset] * 2
    assert log.start_offset > 0


async def test_who_reads_what_goes_reads_on_until_it_is_gone(
    world: StorageWorld, storage: Storage, log: TopicLog
) -> None:
    records = await read_all(log)
    seen: list[list[bytes]] = []
    times: list[int | None] = []
    point = world.records.point

    async def read_meanwhile(changes: Changes) -> list[TopicStorage]:
        seen.append(await read_all(log, 0))
        times.append(await log.append_time_ms(0))
        return await point(changes)

    await trim_with(world, read_meanwhile)
    assert seen == [records]
    assert times != [None]


async def test_a_trim_that_was_never_named_leaves_the_log_where_it_began(
    world: StorageWorld, storage: Storage, log: TopicLog
) -> None:
    async def fail(_: Changes) -> list[TopicStorage]:
        raise MetadataError("the store is away")

    with pytest.raises(MetadataError):
        await trim_with(world, fail)
    assert log.start_offset > 0  # nobody knows yet
    await storage.retain(always(SMALL), nothing_read)
    assert log.start_offset == 0
    assert len(await read_all(log)) == 100


async def test_a_trim_that_somebody_else_was_faster_than_moves_the_start_only_until_that_is_looked_up(
    world: StorageWorld, storage: Storage, log: TopicLog
) -> None:
    await world.records.seal(await world.records.get(TOPIC), ())
    assert await storage.retain(always(SMALL), no_subscription) == 0
    world.clock.advance(FLUSH_RETRY_S)
    assert await storage.retain(always(SMALL), nothing_read) == 0
    assert log.start_offset == 0


# Trouble


async def test_a_trim_that_failed_and_is_not_wanted_any_more_is_no_trouble(
    world: StorageWorld, storage: Storage, log: TopicLog, caplog: pytest.LogCaptureFixture
) -> None:
    world.sim.fail(Operation.SYNC, name=SEGMENTS)
    assert await storage.retain(always(SMALL), no_subscription) == 0
    assert "what is stored of topic 5 stays as it is" in caplog.text
    await storage.retain(always(KEEP_ALL), no_subscription)
    assert "the storage of topic 5 is kept in order again" in caplog.text
    assert storage.stats.quarantined_topics == 0
    assert log.start_offset == 0


async def test_a_trim_that_failed_is_tried_again_a_while_later(
    world: StorageWorld, storage: Storage, log: TopicLog
) -> None:
    world.sim.fail(Operation.SYNC, name=SEGMENTS)
    for _ in range(2):
        assert await storage.retain(always(SMALL), no_subscription) == 0
    world.clock.advance(FLUSH_RETRY_S)
    assert await storage.retain(always(SMALL), no_subscription) > 0
    assert log.start_offset > 0


async def test_a_topic_that_cannot_be_flushed_is_trimmed_all_the_same_and_cut_later(
    world: StorageWorld, storage: Storage, log: TopicLog
) -> None:
    await fill(log, 10, first=100)
    await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, name=SEGMENTS)
    assert (await storage.flush()).failed == 1
    assert await storage.retain(always(SMALL), no_subscription) > 0
    assert storage.stats.quarantined_topics == 1
    world.clock.advance(FLUSH_RETRY_S)
    await storage.flush()
    assert not storage.journal.closed_files()
    assert storage.stats.quarantined_topics == 0


async def test_a_trim_does_not_undo_a_cut_that_waits_for_the_metadata(
    world: StorageWorld, storage: Storage, log: TopicLog, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(log, 10, first=100)
    await storage.journal.rotate()

    async def fail(_: Changes) -> list[TopicStorage]:
        raise MetadataError("the store is away")

    with pytest.MonkeyPatch.context() as away, pytest.raises(MetadataError):
        away.setattr(world.records, "point", fail)
        await storage.flush()
    assert await storage.retain(always(SMALL), no_subscription) > 0
    assert not (await storage.flush()).failed
    assert not storage.journal.closed_files()
    assert "somebody else" not in caplog.text


async def test_a_trim_does_not_have_it_forgotten_that_a_topic_is_to_be_cut_again(
    world: StorageWorld, storage: Storage, log: TopicLog
) -> None:
    await fill(log, 10, first=100)
    await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, name=SEGMENTS)
    assert (await storage.flush()).failed == 1
    world.clock.advance(FLUSH_RETRY_S)
    assert await storage.retain(always(SMALL), no_subscription) > 0
    await storage.flush()
    assert not storage.journal.closed_files()

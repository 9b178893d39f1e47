"""A disk that fills up: appends are refused in time, everything else goes on, and it mends itself."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.metadata.records.storage import add_tombstone
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.runtime.disk import DiskRoom
from danube.storage.disk_space import SpaceGate, SpaceLevel, Watermarks, space_level
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all, read_all, storage_settings

MARKS = Watermarks(warn_below_bytes=100_000, refuse_below_bytes=50_000)
LEVELS = st.sampled_from(SpaceLevel)


@pytest.fixture
async def world() -> AsyncIterator[StorageWorld]:
    one = StorageWorld(watermarks=MARKS)
    yield one
    await one.end()


async def test_appends_are_refused_below_the_mark_and_go_on_by_themselves(world: StorageWorld) -> None:
    storage = await world.open()
    storage.start()
    log = storage.topic(1, 1)
    records = await fill(log, 20, size=2_000)
    world.sim.capacity_bytes = sum(map(len, world.sim.contents().values())) + 40_000
    await world.clock.run_for(2)
    with pytest.raises(StorageUnavailableError, match="free some space"):
        log.append_record(b"no", lambda _: None)
    assert storage.refuses is not None
    assert await read_all(log) == records
    await flush_all(storage)
    world.sim.capacity_bytes = None
    await world.clock.run_for(2)
    records += await fill(log, 1, first=20)
    assert await read_all(log) == records


async def test_writers_that_are_faster_than_the_looks_leave_what_is_kept_back(world: StorageWorld) -> None:
    world.settings = storage_settings(watermarks=MARKS, file_bytes_max=1_000_000)
    world.sim.capacity_bytes = 200_000
    storage = await world.open()
    storage.start()
    log, stored = storage.topic(1, 1), 0
    with pytest.raises(StorageUnavailableError, match="disk_refuse_free_bytes"):
        while True:  # no time passes
            await fill(log, 1, first=stored, size=4_000)
            stored += 1
    assert storage.stats.space_level is SpaceLevel.REFUSE
    assert world.sim.room().free_bytes > MARKS.refuse_below_bytes - 10_000  # what the cursors, marks and envelopes take
    assert stored > 30
    world.sim.capacity_bytes = None
    await world.clock.run_for(2)
    await fill(log, 1, first=stored)


async def test_what_waits_to_be_written_counts_also_when_the_disk_is_looked_at(world: StorageWorld) -> None:
    world.sim.capacity_bytes = 200_000
    storage = await world.open()
    log = storage.topic(1, 1)
    for _ in range(30):
        log.append_record(bytes(4_000), lambda _: None)
    await storage.check_space()
    with pytest.raises(StorageUnavailableError):
        for _ in range(30):
            log.append_record(bytes(4_000), lambda _: None)


async def test_nothing_is_appended_while_the_room_kept_back_for_administration_is_used(world: StorageWorld) -> None:
    world.settings = storage_settings(watermarks=Watermarks(warn_below_bytes=0, refuse_below_bytes=0))
    storage = await world.open()
    log, audit = storage.topic(1, 1), storage.topic(2, 1, uses_reserve=True)
    storage.note_reserve(is_used=True)
    await storage.check_space()
    with pytest.raises(StorageUnavailableError, match="in use to delete something"):
        log.append_record(b"no", lambda _: None)
    assert storage.stats.space_level is SpaceLevel.REFUSE
    await fill(audit, 0)
    audit.append_record(b"yes", lambda _: None)
    storage.note_reserve(is_used=False)
    await fill(log, 1)


async def test_a_disk_that_is_too_full_at_the_start_takes_no_append(world: StorageWorld) -> None:
    world.sim.capacity_bytes = 10_000
    storage = await world.open()
    with pytest.raises(StorageUnavailableError):
        storage.topic(1, 1).append_batch(b"", lambda _: None)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_deleting_topics_frees_a_disk_that_is_so_full_that_nothing_can_be_cut(
    world: StorageWorld, is_restarted: bool
) -> None:
    world.settings = storage_settings(watermarks=Watermarks(warn_below_bytes=0, refuse_below_bytes=0))
    storage = await world.open()
    await fill(storage.topic(1, 1), 400)
    await flush_all(storage)
    await fill(storage.topic(2, 1), 5)
    await storage.journal.rotate()
    world.sim.capacity_bytes = sum(map(len, world.sim.contents().values()))

    async def delete(builder: TransactionBuilder) -> None:
        add_tombstone(builder, 1)
        add_tombstone(builder, 2)

    await commit_transaction(world.metadata, world.rng, delete)
    for topic_id in (1, 2):
        storage.forget(topic_id)
    if is_restarted:
        storage = await world.reopen(known_topics=set())
    storage.start()
    await world.clock.run_for(FLUSH_RETRY_S + 3)
    assert world.files("segments/1") == []
    assert not storage.journal.closed_files()


async def test_a_deleted_topic_frees_a_full_disk_also_when_all_of_it_is_in_the_journal(world: StorageWorld) -> None:
    world.settings = storage_settings(watermarks=Watermarks(warn_below_bytes=0, refuse_below_bytes=0))
    storage = await world.open()
    await fill(storage.topic(1, 1), 5)
    await storage.journal.rotate()
    await world.clock.run_for(0)
    world.sim.capacity_bytes = sum(map(len, world.sim.contents().values()))
    storage.forget(1)
    storage.start()
    await world.clock.run_for(1)
    assert not storage.journal.closed_files()
    assert (await fill(storage.topic(2, 1), 1)) == await read_all(storage.topic(2, 1))


MIB = 1 << 20


def refused_by(room: DiskRoom, marks: Watermarks) -> str:
    gate = SpaceGate(marks)
    gate.update(room)
    with pytest.raises(StorageUnavailableError) as caught:
        gate.check(0)
    return str(caught.value)


def test_a_refusal_names_the_setting_that_ends_it() -> None:
    assert "disk_refuse_free_bytes lower" in refused_by(DiskRoom(200 * MIB, 1000 * MIB), Watermarks())


@pytest.mark.parametrize(("total_mib", "is_too_small"), [(200, True), (287, True), (288, False)])
def test_a_disk_on_which_so_much_can_never_be_free_is_told_apart(total_mib: int, is_too_small: bool) -> None:
    said = refused_by(DiskRoom(0, total_mib * MIB), Watermarks())
    whole = f"the whole disk has {total_mib} MiB, and 256 are to stay free on it: set disk_refuse_free_bytes lower"
    assert (whole in said, "free some space" in said) == (is_too_small, not is_too_small)


@pytest.mark.parametrize(
    ("total_mib", "refuse_mib", "said"),
    [
        (4000, 256, "the disk has 500 MiB left: below 256 MiB (disk_refuse_free_bytes) appends are refused"),
        (4000, 0, "the disk has 500 MiB left: appends go on until it is full (disk_refuse_free_bytes is 0)"),
        (600, 256, "the whole disk has 600 MiB, fewer than disk_warn_free_bytes: below 256 MiB"),
    ],
)
def test_a_warning_says_what_comes_of_it(
    caplog: pytest.LogCaptureFixture, total_mib: int, refuse_mib: int, said: str
) -> None:
    gate = SpaceGate(Watermarks(refuse_below_bytes=refuse_mib * MIB))
    gate.update(DiskRoom(500 * MIB, total_mib * MIB))
    assert said in caplog.text
    assert gate.refusal is None


async def test_little_room_is_said_once(world: StorageWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.sim.create("something").append([bytes(100_000)])
    world.sim.capacity_bytes = 190_000
    storage = await world.open()
    for _ in range(3):
        await storage.check_space()
    assert caplog.text.count("MiB left: below") == 1
    assert storage.stats.space_level is SpaceLevel.WARN


@given(free=st.integers(0, 300_000), before=LEVELS)
def test_a_level_says_at_least_how_little_there_is(free: int, before: SpaceLevel) -> None:
    level = space_level(free, before, MARKS)
    assert level >= (SpaceLevel.REFUSE if free < 50_000 else SpaceLevel.WARN if free < 100_000 else SpaceLevel.OK)


@given(free=st.integers(0, 300_000), before=LEVELS)
def test_a_level_stays_where_it_is_when_nothing_changes(free: int, before: SpaceLevel) -> None:
    level = space_level(free, before, MARKS)
    assert space_level(free, level, MARKS) is level


@given(free=st.integers(112_501, 300_000), before=LEVELS)
def test_enough_room_is_enough_whatever_was_before(free: int, before: SpaceLevel) -> None:
    assert space_level(free, before, MARKS) is SpaceLevel.OK


@pytest.mark.parametrize(("free", "level"), [(56_249, SpaceLevel.REFUSE), (56_250, SpaceLevel.WARN)])
def test_a_disk_that_was_too_full_takes_appends_again_an_eighth_above_the_mark(free: int, level: SpaceLevel) -> None:
    assert space_level(free, SpaceLevel.REFUSE, MARKS) is level


@pytest.mark.parametrize(("free", "level"), [(112_499, SpaceLevel.WARN), (112_500, SpaceLevel.OK)])
def test_a_disk_with_little_room_has_enough_an_eighth_above_the_mark(free: int, level: SpaceLevel) -> None:
    assert space_level(free, SpaceLevel.WARN, MARKS) is level


def test_marks_of_zero_refuse_nothing() -> None:
    marks = Watermarks(warn_below_bytes=0, refuse_below_bytes=0)
    assert space_level(0, SpaceLevel.REFUSE, marks) is SpaceLevel.OK


def test_settings_have_room_to_flush_by_default() -> None:
    marks = storage_settings().watermarks
    assert marks.refuse_below_bytes < marks.warn_below_bytes

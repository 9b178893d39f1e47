"""What a pass writes beside what it cuts and merges: little at any time, and less where there is little room."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import MetadataError
from danube.model.limits.broker import FLUSH_RETRY_S, FLUSH_UNNAMED_SEGMENTS
from danube.runtime.blocking import InlineRunner
from danube.storage.disk_space import Watermarks
from danube.storage.store import Storage
from danube.testing.simulated.disk import MachineOffError
from tests.unit.storage.store.storage_world import (
    SEGMENT_BYTES,
    StorageWorld,
    fill,
    flush_all,
    read_all,
    storage_settings,
)

TOPICS = range(1, 11)
MARKS = Watermarks(warn_below_bytes=60_000, refuse_below_bytes=30_000)
T = TypeVar("T")


class Interrupted(InlineRunner):
    """Has something happen on the event loop after each piece of work that was handed over."""

    def __init__(self) -> None:
        self.afterwards: Callable[[], Awaitable[object]] | None = None

    async def run(self, work: Callable[[], T]) -> T:
        done = await super().run(work)
        if self.afterwards is not None:
            await self.afterwards()
        return done


def used_bytes(world: StorageWorld) -> int:
    return sum(map(len, world.sim.contents().values()))


def unnamed_bytes(world: StorageWorld, storage: Storage) -> int:
    """Of files in the folders of segments that no manifest names which counts."""
    total = 0
    for name, content in world.sim.contents().items():
        folder, _, file = name.removeprefix("segments/").partition("/")
        if folder.isdecimal():
            history = storage.topics.histories.get(int(folder))
            newest = history.manifest.version if history is not None else 0
            manifest_version = int(file.rpartition("-")[2].partition(".")[0])
            total += len(content) if manifest_version > newest else 0
    return total


async def leave(world: StorageWorld, storage: Storage, free_bytes: int | None) -> None:
    """Have so much room on the disk from now on; None is as much as is wanted."""
    world.sim.capacity_bytes = None if free_bytes is None else used_bytes(world) + free_bytes
    await storage.check_space()


async def fill_all(storage: Storage, count: int, *, size: int = 200) -> dict[int, list[bytes]]:
    return {topic_id: await fill(storage.topic(topic_id, 1), count, size=size) for topic_id in TOPICS}


@pytest.mark.parametrize("free_bytes", [50_000, 25_000])
async def test_nothing_is_merged_while_room_is_short_and_it_is_made_up_for_later(
    world: StorageWorld, free_bytes: int
) -> None:
    world.settings = storage_settings(watermarks=MARKS)
    storage = await world.open()
    log = storage.topic(1, 1)
    records = await fill(log, 1)
    await flush_all(storage)
    for number in range(1, 8):
        await leave(world, storage, None)
        records += await fill(log, 1, first=number)
        await leave(world, storage, free_bytes)
        await flush_all(storage)
    assert (storage.stats.merged_segments, storage.stats.segments) == (0, 8)
    await leave(world, storage, None)
    records += await fill(log, 1, first=8)
    await flush_all(storage)
    assert storage.stats.merged_segments > 0
    assert await read_all(log) == records


@pytest.mark.parametrize(("records", "groups"), [(1, [10]), (20, [3, 3, 3, 1])])
async def test_a_pass_has_what_it_wrote_named_before_it_writes_much_more(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch, records: int, groups: list[int]
) -> None:
    storage = await world.open()
    await fill_all(storage, records)
    await storage.journal.rotate()
    named: list[int] = []
    point = world.records.point

    async def count(changes: Sequence[tuple[TopicStorage, int]]) -> list[TopicStorage]:
        named.append(len(changes))
        return await point(changes)

    monkeypatch.setattr(world.records, "point", count)
    assert (await storage.flush()).topics == len(TOPICS)
    assert named == groups


async def test_merges_of_many_topics_take_little_room_at_any_time(world: StorageWorld) -> None:
    world.runners["flush_runner"] = runner = Interrupted()
    storage = await world.open()
    for _ in range(4):
        await fill_all(storage, 2)
        await flush_all(storage)
    await fill_all(storage, 2)
    await storage.journal.rotate()
    most = [0]

    async def look() -> None:
        most[0] = max(most[0], unnamed_bytes(world, storage))

    runner.afterwards = look
    report = await storage.flush()
    assert report.merged >= len(TOPICS)
    assert report.written_bytes > 1.5 * FLUSH_UNNAMED_SEGMENTS * SEGMENT_BYTES
    one_topic = report.written_bytes // len(TOPICS) + 100
    assert most[0] < FLUSH_UNNAMED_SEGMENTS * SEGMENT_BYTES + one_topic


async def test_a_pass_during_which_room_gets_short_ends_and_the_next_one_takes_one_file(
    world: StorageWorld,
) -> None:
    world.settings = storage_settings(watermarks=MARKS)
    world.runners["flush_runner"] = runner = Interrupted()
    storage = await world.open()
    records = await fill_all(storage, 4)
    await storage.journal.rotate()
    files = len(storage.journal.closed_files())
    runner.afterwards = lambda: leave(world, storage, 50_000)
    report = await storage.flush()
    assert (report.files, report.topics, report.failed) == (files, 1, 0)
    runner.afterwards = None
    for gone in range(1, files + 1):
        assert (await storage.flush()).files == 1
        assert len(storage.journal.closed_files()) == files - gone
    for topic_id, expected in records.items():
        assert await read_all(storage.topic(topic_id, 1)) == expected


@pytest.mark.parametrize("change", [13, 19, 22])
async def test_cuts_that_died_leave_nothing_for_good_in_the_way_of_the_next_one(
    world: StorageWorld, change: int
) -> None:
    world.settings = storage_settings(watermarks=Watermarks(warn_below_bytes=0, refuse_below_bytes=0))
    storage = await world.open()
    records = await fill(storage.topic(1, 1), 100)
    await storage.journal.rotate()
    await leave(world, storage, 35_000)  # for all segments once, and not for those of lives before
    for _ in range(2):
        world.sim.stop_at(change)
        with pytest.raises(MachineOffError):
            await storage.flush()
        storage = await world.after_power_cut()
    for _ in range(3):
        await storage.flush()
        world.clock.advance(FLUSH_RETRY_S)
    assert not storage.journal.closed_files()
    assert await read_all(storage.topic(1, 2)) == records


async def test_while_the_metadata_has_no_room_a_pass_takes_little_and_goes_on_once_there_is_some(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open()
    records = await fill_all(storage, 20)
    await storage.journal.rotate()
    point, needs_bytes = world.records.point, 30_000

    async def full(changes: Sequence[tuple[TopicStorage, int]]) -> list[TopicStorage]:
        if world.sim.room().free_bytes < needs_bytes:
            raise MetadataError("the database or the disk is full")
        return await point(changes)

    monkeypatch.setattr(world.records, "point", full)
    await leave(world, storage, needs_bytes + 1_000)
    left = set[int]()
    for _ in range(5):
        with pytest.raises(MetadataError):
            await storage.flush()
        left.add(world.sim.room().free_bytes)
        world.clock.advance(FLUSH_RETRY_S)
    assert len(left) == 1
    assert min(left) > needs_bytes + 1_000 - 1.5 * FLUSH_UNNAMED_SEGMENTS * SEGMENT_BYTES
    await leave(world, storage, 80_000)
    while storage.journal.closed_files():
        assert not (await storage.flush()).failed
    for topic_id, expected in records.items():
        assert await read_all(storage.topic(topic_id, 1)) == expected

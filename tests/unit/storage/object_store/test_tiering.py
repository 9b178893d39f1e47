"""Segments on a disk that move into an object store: verified first, read over both places, removed from both."""

from collections.abc import Sequence
from typing import Any

import pytest

from danube.objects.bill import Bill, Cause
from danube.objects.memory import MemoryObjects
from danube.objects.retrying import Patience, RetryingStore
from danube.runtime.disk import Buffer
from danube.runtime.rng import SystemRng
from danube.storage.environment import StorageEnvironment
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.side_by_side import SideBySide
from danube.storage.object_store.tiered_tier import MARKER, SegmentMover, TieredTier
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage
from danube.testing.simulated.objects import FaultyObjects
from lab.objects.world import NoPause
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, read_all

TOPIC, BELOW = 1, "brokers/1/"


class CarelessObjects(MemoryObjects):
    """A store that loses the end of what it is given."""

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        super().put_if_absent(name, [b"".join(chunks)[:-1]])


class TieredWorld(StorageWorld):
    """A broker's storage with a bucket behind its disk."""

    def __init__(self, bucket: MemoryObjects | None = None) -> None:
        super().__init__()
        self.bucket = bucket or MemoryObjects()
        self.way = FaultyObjects(self.bucket, self.sim.chance)

    async def open_tiered(self) -> Storage:
        store = RetryingStore(
            self.way,
            self.clock,
            SystemRng(seed=1),
            bill=Bill(0.0),
            cause=Cause.SEGMENT,
            patience=Patience(retries_max=0),
            pause=NoPause(),
        )
        cache, disk = BlockCache(store, SideBySide(0)), self.disk
        runners: dict[str, Any] = {**self.runners}
        environment = StorageEnvironment(
            disk=disk,
            clock=self.clock,
            rng=self.rng,
            records=self.records,
            broker_id=1,
            settings=self.settings,
            make_tier=lambda: TieredTier(disk, ObjectTier(store, cache, below=BELOW)),
            mover=SegmentMover(disk, ObjectTier(store, cache, below=BELOW), url="s3://bkt/", after_s=0, bytes_min=1),
            **runners,
        )
        storage = await Storage.open(environment)
        self._open.append(storage)
        return storage

    def on_disk(self) -> list[str]:
        return [name for name in self.files(f"segments/{TOPIC}") if name.endswith(".segment")]

    def in_bucket(self) -> list[str]:
        return [one.name for one in self.bucket.listing(f"{BELOW}segments/{TOPIC}/")]


async def test_segments_move_and_are_read_over_both_places_and_after_a_restart() -> None:
    world = TieredWorld()
    storage = await world.open_tiered()
    log = storage.topic(TOPIC, 1)
    written = await fill(log, 400)
    await flush_all(storage)
    count = len(world.on_disk())
    assert count > 2
    await storage.move_segments()
    assert (len(world.on_disk()) + len(world.in_bucket()), len(world.in_bucket()) > 0) == (count, True)
    written += await fill(log, 20, first=400)
    assert await read_all(log) == written
    assert world.disk.exists(MARKER)
    await storage.close()
    world._open.remove(storage)
    again = await world.open_tiered()
    assert await read_all(again.topic(TOPIC, 1)) == written
    await again.sweep_orphans()
    assert await read_all(again.topic(TOPIC, 1)) == written
    await world.end()


async def test_a_segment_stays_on_the_disk_until_the_store_answers_it_back() -> None:
    world = TieredWorld(CarelessObjects())
    storage = await world.open_tiered()
    written = await fill(storage.topic(TOPIC, 1), 200)
    await flush_all(storage)
    count = len(world.on_disk())
    with pytest.raises(OSError, match="is not what was uploaded: it stays on the disk"):
        await storage.move_segments()
    assert len(world.on_disk()) == count
    assert await read_all(storage.topic(TOPIC, 1)) == written
    await world.end()


async def test_a_store_that_is_gone_leaves_segments_where_they_are_and_they_move_later() -> None:
    world = TieredWorld()
    storage = await world.open_tiered()
    written = await fill(storage.topic(TOPIC, 1), 200)
    await flush_all(storage)
    count = len(world.on_disk())
    world.way.is_down = True
    with pytest.raises(OSError, match="does not answer"):
        await storage.move_segments()
    assert len(world.on_disk()) == count
    world.way.is_down = False
    await storage.move_segments()
    assert len(world.in_bucket()) > 0
    assert await read_all(storage.topic(TOPIC, 1)) == written
    await world.end()


async def test_retention_and_deletion_remove_objects_too() -> None:
    world = TieredWorld()
    storage = await world.open_tiered()
    await fill(storage.topic(TOPIC, 1), 400)
    await flush_all(storage)
    await storage.move_segments()
    before = len(world.in_bucket())
    await storage.retain(always(Retention(None, 10_000, keep_unread=False)), lambda _: None)
    await flush_all(storage)
    assert len(world.in_bucket()) < before
    await world.end()


async def test_with_little_room_age_and_size_do_not_matter() -> None:
    world = TieredWorld()
    storage = await world.open_tiered()
    await fill(storage.topic(TOPIC, 1), 200)
    await flush_all(storage)
    mover = storage._environment.mover
    assert mover is not None
    mover._after_ms, mover._bytes_min = 1e12, 1 << 40
    manifests = [history.manifest for history in storage._topics.histories]
    now_ms = world.clock.now_ms()
    assert mover.move(manifests, now_ms, is_room_short=False).moved_bytes == 0
    assert mover.move(manifests, now_ms, is_room_short=True).moved_bytes > 0
    await world.end()

"""Segments on a disk that move into an object store: verified first, read over both places, removed from both."""

import contextlib
import random
from collections.abc import Sequence
from typing import Any

import pytest

from danube.metadata.records.storage import add_tombstone
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import DanubeError, NewerDataFolderError
from danube.objects.bill import Bill, Cause, RequestKind
from danube.objects.memory import MemoryObjects
from danube.objects.retrying import Patience, RetryingStore
from danube.offline.storage.bucket import BucketFinding
from danube.offline.storage.tiered_bucket import verify_tiered
from danube.runtime.checksum import with_crc
from danube.runtime.disk import Buffer
from danube.runtime.rng import SystemRng
from danube.storage.environment import StorageEnvironment
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.side_by_side import SideBySide
from danube.storage.object_store.tiered_tier import MARKER, SegmentMover, TieredTier
from danube.storage.retention.rules import Retention
from danube.storage.segment.manifest import Segment
from danube.storage.store import Storage
from danube.storage.takeover.object_storage import use_of
from danube.testing.simulated.objects import FaultyObjects
from lab.objects.world import NoPause
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, read_all

TOPIC, BELOW = 1, "brokers/1/"


class CarelessObjects(MemoryObjects):
    """A store that loses the end of what it is given."""

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        super().put_if_absent(name, [b"".join(chunks)[:-1]])


class SometimesCareless(MemoryObjects):
    """The same, now and then."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        super().put_if_absent(name, [b"".join(chunks)[: -1 if self._chance.random() < 0.3 else None]])


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
            object_use=lambda: use_of(store, cache, "s3://bkt/", self.clock),
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


async def test_a_topic_tells_what_is_on_the_disk_alone_and_what_its_objects_cost() -> None:
    world = TieredWorld()
    storage = await world.open_tiered()
    log = storage.topic(TOPIC, 1)
    await fill(log, 400)
    await flush_all(storage)
    before = log.objects
    assert before is not None
    assert (before.not_uploaded_bytes, before.stored_bytes) == (log.body_bytes, 0)
    for _ in range(4):
        await storage.move_segments()
    after = log.objects
    assert after is not None
    sizes = {one.name: one.size for one in world.bucket.listing(f"{BELOW}segments/{TOPIC}/")}
    assert after.stored_bytes == sum(sizes.values())
    assert after.not_uploaded_bytes < log.body_bytes
    requests = after.use.bill.of_topic(TOPIC)
    assert requests[RequestKind.PUT] == len(sizes)
    assert requests[RequestKind.GET] == len(sizes)  # each was read back
    await storage.close()
    world._open.remove(storage)
    again = await world.open_tiered()
    await again.move_segments()
    restarted = again.topic(TOPIC, 1).objects
    assert restarted is not None
    assert restarted.stored_bytes == after.stored_bytes
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


async def _with_all_in_the_bucket(world: TieredWorld) -> Storage:
    storage = await world.open_tiered()
    await fill(storage.topic(TOPIC, 1), 400)
    await flush_all(storage)
    await storage.move_segments()
    assert world.in_bucket()
    return storage


async def _delete(world: TieredWorld, storage: Storage) -> None:
    builder = TransactionBuilder(world.metadata)
    add_tombstone(builder, TOPIC)
    await world.metadata.transact(builder.transaction("delete"))
    storage.forget(TOPIC)


async def test_the_objects_of_a_deleted_topic_go_also_after_an_outage_in_the_middle() -> None:
    world = TieredWorld()
    storage = await _with_all_in_the_bucket(world)
    await _delete(world, storage)
    world.way.is_down = True
    assert await storage.sweep_deleted() == 0
    assert world.in_bucket()
    assert await world.records.deleted() == [TOPIC]
    world.way.is_down = False
    assert await storage.sweep_deleted() == 1
    assert world.in_bucket() == []
    assert world.files(f"segments/{TOPIC}") == []
    await world.end()


async def test_a_bucket_behind_a_disk_is_verified_and_orphans_are_told() -> None:
    world = TieredWorld()
    storage = await _with_all_in_the_bucket(world)
    assert _verified(world) == []
    strange, victim = f"{BELOW}segments/77/strange.segment", world.in_bucket()[0]
    world.bucket.put(strange, [b"x"])
    assert [(one.name, one.is_damage) for one in _verified(world)] == [(strange, False)]
    sound = world.bucket.get(victim)
    world.bucket.put(victim, [with_crc(sound[:4] + b"\x02" + sound[5:32]) + sound[36:]])
    with pytest.raises(NewerDataFolderError, match="was written by another version"):
        _verified(world)
    world.bucket.delete([victim])
    assert (victim.removeprefix(BELOW), True) in [(one.name, one.is_damage) for one in _verified(world)]
    await _delete(world, storage)
    await world.end()


def _verified(world: TieredWorld) -> list[BucketFinding]:
    store = RetryingStore(world.bucket, world.clock, SystemRng(seed=1), bill=Bill(0.0), cause=Cause.READ)
    remote = ObjectTier(store, BlockCache(store, SideBySide(0)), below=BELOW)
    return verify_tiered(store, world.disk, remote, BELOW).findings


async def _after_a_careless_store(seed: int) -> bool:
    """Appends, moves and restarts over a store that loses ends of objects; answers whether all can be read."""
    chance = random.Random(seed)
    world = TieredWorld(SometimesCareless(chance))
    storage, written = await world.open_tiered(), list[bytes]()
    for _ in range(12):
        written += await fill(storage.topic(TOPIC, 1), chance.randint(20, 80), first=len(written))
        await flush_all(storage)
        with contextlib.suppress(OSError):
            await storage.move_segments()
        if chance.random() < 0.3:
            await storage.close()
            world._open.remove(storage)
            storage = await world.open_tiered()
    try:
        return await read_all(storage.topic(TOPIC, 1)) == written
    except DanubeError:
        return False
    finally:
        await world.end()


async def test_no_segment_is_lost_in_a_careless_store() -> None:
    assert all([await _after_a_careless_store(seed) for seed in range(5)])


async def test_a_local_copy_that_is_removed_before_the_verification_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def move(self: SegmentMover, name: str, segment: Segment) -> None:
        self._remote.put(name, [self._local.read(name, 0, segment.file_bytes)])
        self._local.delete(name)

    monkeypatch.setattr(SegmentMover, "_move", move)
    assert not all([await _after_a_careless_store(seed) for seed in range(5)])


async def test_with_little_room_age_and_size_do_not_matter() -> None:
    world = TieredWorld()
    storage = await world.open_tiered()
    await fill(storage.topic(TOPIC, 1), 200)
    await flush_all(storage)
    mover = storage._environment.mover
    assert mover is not None
    mover._after_ms, mover._bytes_min = 1e12, 1 << 40
    manifests = [history.manifest for history in storage.topics.histories]
    now_ms = world.clock.now_ms()
    assert mover.move(manifests, now_ms, is_room_short=False).moved_bytes == 0
    assert mover.move(manifests, now_ms, is_room_short=True).moved_bytes > 0
    await world.end()

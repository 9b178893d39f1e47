"""Verification of a bucket: every byte, and what nothing names."""

import pytest

from danube.objects.bill import Bill, Cause
from danube.objects.retrying import RetryingStore
from danube.offline.storage.bucket import BucketScan, verify_bucket
from danube.offline.storage.views import bucket_facts, bucket_text
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.part_format import log_prefix
from danube.storage.object_store.side_by_side import SideBySide
from lab.objects.world import ObjectsWorld
from tests.unit.storage.store.storage_world import fill, flush_all

TOPIC = 1


@pytest.fixture
async def world() -> ObjectsWorld:
    """A bucket with segments and a journal of brokers that are gone."""
    world = ObjectsWorld()
    await world.create(TOPIC)
    first, second = await world.start(1, cluster_id="c"), await world.start(2, cluster_id="c")
    await first.acquire([TOPIC])
    await fill(first.topic(TOPIC), 100)
    await flush_all(first)
    await fill(first.topic(TOPIC), 10, first=100)
    await second.acquire([TOPIC])
    await fill(second.topic(TOPIC), 5, first=110)
    await world.end()
    return world


def verified(world: ObjectsWorld) -> BucketScan:
    store = RetryingStore(world.bucket, world.clock, world.rng, bill=Bill(0.0), cause=Cause.READ)
    return verify_bucket(store, ObjectTier(store, BlockCache(store, SideBySide(0))))


def segments(world: ObjectsWorld) -> list[str]:
    return [one.name for one in world.bucket.listing("segments/1/") if one.name.endswith(".segment")]


async def test_a_sound_bucket_is_sound(world: ObjectsWorld) -> None:
    found = verified(world)
    assert (found.is_sound, found.findings, found.cluster) == (True, [], "c")
    assert [(one.topic_id, one.start_offset, one.end_offset) for one in found.topics] == [(TOPIC, 0, 100)]
    assert sorted(one.is_fenced for one in found.journals) == [False, True]
    assert "Sound: every byte" in bucket_text(found, "s3://bucket/")
    assert bucket_facts(found)["is_sound"]


async def test_a_changed_byte_and_a_missing_object_are_damage(world: ObjectsWorld) -> None:
    first, second, *_ = segments(world)
    data = bytearray(world.bucket.get(first))
    data[len(data) // 2] ^= 1
    world.bucket.put(first, [data])
    world.bucket.delete([second])
    found = verified(world)
    assert not found.is_sound
    assert {one.name for one in found.findings if one.is_damage} == {first, second}
    assert "DAMAGED" in bucket_text(found, "s3://bucket/")


async def test_a_changed_and_a_missing_object_of_a_journal_are_damage(world: ObjectsWorld) -> None:
    journal = max(verified(world).journals, key=lambda one: one.objects).journal
    listed = [one.name for one in world.bucket.listing(log_prefix(f"journals/{journal}"))]
    world.bucket.put(listed[-1], [world.bucket.get(listed[-1])[:-1]])
    world.bucket.delete([listed[-3]])
    found = verified(world)
    assert [one.name for one in found.findings if one.is_damage] == listed[-2:]


async def test_an_orphan_is_told_and_no_damage(world: ObjectsWorld) -> None:
    world.bucket.put("segments/1/strange.segment", [b"x"])
    found = verified(world)
    assert found.is_sound
    assert [one.name for one in found.findings] == ["segments/1/strange.segment"]

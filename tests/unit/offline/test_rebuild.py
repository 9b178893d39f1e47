"""Metadata from a bucket alone: epochs by what journals hold, and nothing served of which a part is missing."""

from dataclasses import asdict

import pytest

from danube.metadata.backup.format import Backup, Origin
from danube.metadata.records import keys
from danube.metadata.records.record_format import (
    TopicRecord,
    TopicStorage,
    decode_topic_storage,
    encode_counter,
    encode_topic,
)
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import DamagedDataError
from danube.model.topic import DispatchStrategy, TopicName
from danube.objects.bill import Bill, Cause
from danube.objects.retrying import Patience, RetryingStore
from danube.offline.storage.rebuild.contents import EpochRun, FoundTopic, read_topics
from danube.offline.storage.rebuild.entries import Rebuilt, rebuild, storage_of
from danube.offline.storage.rebuild.rebuild import page_of
from danube.storage.batches.envelope import Envelope, Kind
from danube.storage.object_store.metadata_copy import newest_copy, put_copy
from danube.storage.object_store.object_disk import ObjectDisk
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.part_format import log_prefix
from danube.testing.simulated.disk import SimDisk
from lab.objects.world import ObjectsWorld
from tests.unit.storage.store.storage_world import fill, flush_all, read_all
from tests.unit.storage.takeover.storages_world import SUBSCRIPTION, save

A, B = 1, 2
NOW_MS = 1_700_000_000_000


@pytest.fixture
async def world() -> ObjectsWorld:
    world = ObjectsWorld()
    await world.create(A, B)
    return world


def found_in(world: ObjectsWorld) -> dict[int, FoundTopic]:
    store = RetryingStore(world.bucket, world.clock, world.rng, bill=Bill(0.0), cause=Cause.READ)
    disk = ObjectDisk(store, SimDisk(), world.rng, round_patience=Patience(), threads=0)
    return read_topics(store, disk, ObjectTier(store, BlockCache(store, disk.ahead)))


def copy_of(*names: tuple[int, str], last_id: int) -> Backup:
    records = [TopicRecord(TopicName("default", name), one, DispatchStrategy.RELIABLE, 1) for one, name in names]
    entries = [Entry(keys.topic(one.name), encode_topic(one), 1, 1) for one in records]
    entries.append(Entry(keys.TOPIC_ID_COUNTER, encode_counter(last_id), 1, 1))
    ordered = sorted(entries, key=lambda one: one.key)
    origin = Origin(kind="raft", place="", taken_ms=NOW_MS, danube="1", cluster_id="c")
    return Backup(origin, StateSnapshot(7, 0, tuple(ordered)))


def storages(made: Rebuilt) -> dict[int, TopicStorage]:
    entries = made.backup.snapshot.entries
    found = (decode_topic_storage(one) for one in entries if one.key.startswith(keys.STORED_TOPICS))
    return {one.topic_id: one for one in found}


async def served_again(world: ObjectsWorld, made: Rebuilt, topic_id: int) -> tuple[list[bytes], int]:
    """Messages of a topic, and the position of its subscription, as a new cluster on that metadata serves them."""
    again = ObjectsWorld(seed=2)
    again.bucket = world.bucket
    for entry in made.backup.snapshot.entries:
        await again.metadata.put(entry.key, entry.value)
    storage = await again.start(8)
    assert await storage.acquire([topic_id]) == {topic_id}
    read = await read_all(storage.topic(topic_id))
    cursor = storage.topic(topic_id).cursor(SUBSCRIPTION)
    assert await fill(storage.topic(topic_id), 3, first=len(read))
    await flush_all(storage)
    await again.end()
    return read, cursor.position if cursor is not None else 0


@pytest.mark.parametrize("moves", range(4))
async def test_a_topic_is_whole_again_whatever_became_of_its_owners(world: ObjectsWorld, moves: int) -> None:
    """Flushed, in journals of former owners, moved while nothing was sent: it has all messages and its cursor."""
    sent: list[bytes] = []
    for number in range(1, moves + 2):
        storage = await world.start(number)
        await storage.acquire([A])
        if number != 3:
            sent += await fill(storage.topic(A), 40, first=len(sent))
        await save(storage.topic(A), 5 * number)
        if number == 2:
            await flush_all(storage)
        if number < moves + 1:
            world.kill(number)
    await world.end()
    made = rebuild(copy_of((A, "orders"), last_id=A), found_in(world), "c", NOW_MS)
    assert await served_again(world, made, A) == (sent, 5 * (moves + 1))


async def test_a_topic_whose_journals_are_all_in_segments_goes_on_above_its_epochs(world: ObjectsWorld) -> None:
    for number in (1, 2):
        storage = await world.start(number)
        await storage.acquire([A])
    sent = await fill(storage.topic(A), 400)
    await flush_all(storage)
    journal = storage.journal_folder
    await world.end()
    world.bucket.delete([one.name for one in world.bucket.listing(f"{journal}/")])
    record = storages(rebuild(None, found_in(world), "c", NOW_MS))[A]
    assert record.epoch >= 2
    made = rebuild(None, found_in(world), "c", NOW_MS)
    read, _ = await served_again(world, made, A)
    assert read == sent


async def test_names_come_from_the_copy_and_else_from_the_id_and_deleted_topics_stay_deleted(
    world: ObjectsWorld,
) -> None:
    storage = await world.start(1)
    await world.create(3)
    await storage.acquire([A, B, 3])
    for topic_id in (A, B, 3):
        await fill(storage.topic(topic_id), 5)
        await save(storage.topic(topic_id), 2)
    await world.end()
    made = rebuild(copy_of((A, "orders"), (7, "empty"), last_id=B), found_in(world), "c", NOW_MS)
    assert [(one.topic, one.is_named, one.end_offset) for one in made.topics] == [
        ("/default/empty", True, 0),
        ("/default/orders", True, 5),
        ("/default/recovered-topic-3", False, 5),
    ]
    assert made.deleted == [B]
    assert keys.subscription(TopicName("default", "recovered-topic-3"), f"recovered-{SUBSCRIPTION:016x}") in {
        one.key for one in made.backup.snapshot.entries
    }
    facts = {"from": "s3://b/", "cluster": "c", "copy_taken_ms": NOW_MS, "into": "x", "next": "y"}
    page = page_of({**facts, "topics": [asdict(one) for one in made.topics], "deleted_topic_ids": made.deleted})
    assert "1 topic without a name, since that copy does not know them" in page
    assert "Left out: what is left of 1 topic" in page


def test_records_of_an_attempt_to_own_a_topic_that_began_anew_are_void() -> None:
    run = EpochRun(epoch=5, journal_id=1, position=40)
    for first, count, position in ((10, 3, 100), (13, 2, 200), (9, 1, 300), (10, 4, 400)):
        run.add(Envelope(Kind.DATA, A, 5, first, count, 0, NOW_MS, 0), position, b"")
    assert (run.first_offset, run.position, run.end_offset, run.records) == (9, 300, 14, 4)


async def test_a_missing_segment_or_object_of_a_journal_is_damage_and_nothing_is_made(world: ObjectsWorld) -> None:
    storage = await world.start(1)
    await storage.acquire([A])
    await fill(storage.topic(A), 400)
    await flush_all(storage)
    await fill(storage.topic(A), 30, first=400)
    await world.end()
    segment = next(one.name for one in world.bucket.listing("segments/1/") if one.name.endswith(".segment"))
    kept = world.bucket.get(segment)
    world.bucket.delete([segment])
    with pytest.raises(DamagedDataError, match="is missing"):
        found_in(world)
    world.bucket.put(segment, [kept])
    found = found_in(world)[A]
    run = found.runs[-1]
    assert run.first_offset is not None
    run.first_offset = found.manifest.end_offset + 2
    with pytest.raises(DamagedDataError, match="neither in a segment nor in a journal"):
        storage_of(found)
    victim = world.bucket.listing(log_prefix(storage.journal_folder))[-2].name
    world.bucket.put(victim, [b"changed by hand"])
    with pytest.raises(DamagedDataError, match=r"object .* is damaged"):
        found_in(world)


def test_the_newest_copy_counts_and_few_older_ones_stay() -> None:
    bucket = ObjectsWorld().bucket
    assert newest_copy(bucket, "s3://b/") is None
    for revision in (3, 9, 4, 12, 12):
        origin = Origin(kind="raft", place="", taken_ms=1, danube="1", cluster_id="c")
        put_copy(bucket, Backup(origin, StateSnapshot(revision)))
    copy = newest_copy(bucket, "s3://b/")
    assert copy is not None
    assert copy.snapshot.revision == 12
    assert len(bucket.listing("metadata/")) == 3

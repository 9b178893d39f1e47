"""A data folder whose metadata is older than it: files go only for a tombstone."""

from collections.abc import AsyncIterator

import pytest

from danube.metadata.records.storage import TopicStorage, add_tombstone
from danube.metadata.state import State
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.limits.broker import FLUSH_DELAY_S, FLUSH_WAIT_S
from danube.storage.segment.manifest import manifest_name
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all, read_all

NEW, OLD = 7, 2
LONG_S = FLUSH_WAIT_S + FLUSH_DELAY_S + 60


@pytest.fixture
async def world() -> AsyncIterator[StorageWorld]:
    world = StorageWorld()
    yield world
    await world.end()


async def test_what_metadata_does_not_know_is_kept_through_flushes_and_sweeps(world: StorageWorld) -> None:
    storage = await world.open()
    records = await fill(storage.topic(NEW, 1), 60)
    await fill(storage.topic(OLD, 1), 60)
    storage = await world.reopen(known_topics={OLD})
    storage.start()
    await fill(storage.topic(OLD, 2), 60, first=60)
    await flush_all(storage)
    await storage.sweep_deleted()
    await world.clock.run_for(LONG_S)
    assert await read_all((await world.reopen()).topic(NEW, 3)) == records


async def test_an_older_copy_of_metadata_learns_of_newer_manifests(world: StorageWorld) -> None:
    storage = await world.open()
    records = await fill(storage.topic(OLD, 1), 30)
    await flush_all(storage)
    copy = world.metadata._state.snapshot()
    records += await fill(storage.topic(OLD, 1), 60, first=30)
    await flush_all(storage)
    newest = (await world.records.get(OLD)).manifest_version
    await world.close()
    world.metadata._state = State.of(copy)
    storage = await world.open(known_topics={OLD})
    assert await read_all(storage.topic(OLD, 2)) == records
    assert (await world.records.get(OLD)).manifest_version == newest


async def test_no_id_is_given_out_under_which_something_is_stored(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(OLD, 1), 30)
    await flush_all(storage)
    await fill(storage.topic(NEW, 1), 1)  # in the journal alone
    await world.reopen(known_topics=set())
    assert await world.records.last_topic_id() == NEW


async def test_a_tombstone_goes_once_no_file_of_the_journal_has_a_record_of_its_topic(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(OLD, 1), 30)
    await storage.flush()
    await delete(world, OLD)
    assert await storage.sweep_deleted() == 1
    assert (world.files(f"segments/{OLD}"), await world.records.deleted()) == ([], [OLD])
    await flush_all(storage)  # the file with its records is closed, and goes
    await storage.sweep_deleted()
    assert await world.records.deleted() == []


async def test_records_of_a_deleted_topic_do_not_come_back_with_the_next_start(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(OLD, 1), 30)
    await delete(world, OLD)
    await storage.sweep_deleted()
    storage = await world.reopen(known_topics=set())
    await flush_all(storage)
    assert (storage.topics.unnamed, world.files(f"segments/{OLD}")) == (set(), [])


async def test_a_manifest_that_retention_wrote_and_nobody_named_counts_for_nothing(world: StorageWorld) -> None:
    storage = await world.open()
    records = await fill(storage.topic(OLD, 1), 60)
    await flush_all(storage)
    history = storage.topics.histories.get(OLD)
    assert history is not None
    trimmed = storage._writer.trim(history, 1)
    assert world.disk.exists(manifest_name(OLD, trimmed.manifest.version))
    storage = await world.reopen(known_topics={OLD})
    assert await read_all(storage.topic(OLD, 2)) == records


async def test_a_topic_without_a_name_is_named_by_the_metadata_that_comes_back(world: StorageWorld) -> None:
    storage = await world.open()
    records = await fill(storage.topic(NEW, 1), 30)
    storage = await world.reopen(known_topics=set())
    await flush_all(storage)  # into a manifest that the folder alone has
    assert await world.records.get(NEW) == TopicStorage(NEW)
    storage = await world.reopen(known_topics={NEW})
    assert await read_all(storage.topic(NEW, 2)) == records
    assert (await world.records.get(NEW)).manifest_version


async def delete(world: StorageWorld, topic_id: int) -> None:
    """As the broker deletes a topic in metadata."""

    async def change(builder: TransactionBuilder) -> None:
        add_tombstone(builder, topic_id)

    await commit_transaction(world.metadata, world.rng, change)

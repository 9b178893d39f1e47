"""What a data folder has that older metadata does not know: nothing that can be kept is said to be lost."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from danube.data_folder.data_folder import read_identity
from danube.data_folder.metadata_view import MetadataView
from danube.data_folder.older_metadata import LostTopic, NewerThanMetadata, find_newer_than_metadata
from danube.metadata.records.storage import StorageRecords
from danube.runtime.rng import SystemRng
from danube.storage.batches.envelope import ENVELOPE_BYTES, MAGIC, VERSION, Kind
from danube.storage.segment.manifest import manifest_name
from danube.testing.alone_metadata import open_alone
from tests.unit.offline.folder_world import FolderWorld, Life, flip

DATA_START = MAGIC + bytes([VERSION, Kind.DATA, 0, 0])
ORDERS, CLICKS = "/default/orders", "/default/clicks"


@pytest.fixture
def world(tmp_path: Path) -> FolderWorld:
    """A topic that is cut, with more in the journal."""
    made = FolderWorld(tmp_path / "data")
    made.live(_begin)
    return made


async def _begin(life: Life) -> None:
    await life.fill(ORDERS, 30)
    await life.flush()
    await life.fill(ORDERS, 20)


async def _go_on(life: Life) -> None:
    await life.fill(ORDERS, 10)
    await life.flush()
    await life.fill(ORDERS, 5)


async def _make_clicks(life: Life) -> None:
    await life.fill(CLICKS, 7)
    await life.subscribe(CLICKS, "billing", 11, 5)


def look(world: FolderWorld, known: MetadataView, known_to: int = 1) -> NewerThanMetadata:
    return find_newer_than_metadata(world.disk, known, known_to)


def point(world: FolderWorld, found: NewerThanMetadata) -> None:
    async def change() -> None:
        store = await open_alone(world.path, world.clock)
        await StorageRecords(store, SystemRng()).point(found.newer)
        await store.close()

    asyncio.run(change())


def test_a_folder_is_not_ahead_of_its_own_metadata(world: FolderWorld) -> None:
    assert look(world, world.known()) == NewerThanMetadata(last_topic_id=1)


def test_an_empty_folder_is_ahead_of_nothing(tmp_path: Path) -> None:
    world = FolderWorld(tmp_path)
    assert look(world, MetadataView()) == NewerThanMetadata()


def test_a_topic_that_was_made_later_is_found_in_the_journal_and_in_segments(world: FolderWorld) -> None:
    before = world.known()
    world.live(_make_clicks)
    expected = NewerThanMetadata(lost=[LostTopic(2, None, 7)], last_topic_id=2)
    assert look(world, before) == expected

    async def flush(life: Life) -> None:
        await life.topic(CLICKS)
        await life.topic(ORDERS)
        await life.flush()
        await life.fill(CLICKS, 3)

    world.live(flush)
    assert look(world, before).lost == [LostTopic(2, None, 10)]


def test_a_later_topic_without_messages_is_no_loss_but_its_id_is_taken(world: FolderWorld) -> None:
    before = world.known()

    async def subscribe(life: Life) -> None:
        await life.subscribe(CLICKS, "billing", 11, 0)

    world.live(subscribe)
    assert look(world, before) == NewerThanMetadata(last_topic_id=2)


def test_what_was_deleted_before_the_backup_is_not_asked_about(world: FolderWorld) -> None:
    world.live(_make_clicks)
    known = world.known()
    del known.topics[2]
    assert not look(world, known, known_to=2).lost
    assert look(world, known, known_to=1).lost
    known.deleted[2] = read_identity(world.path).broker_id
    assert not look(world, known, known_to=0).lost


def test_a_topic_that_was_flushed_since_goes_on_with_its_newer_manifest_and_has_all_its_messages(
    world: FolderWorld,
) -> None:
    shutil.copytree(world.path / "raft", world.path.parent / "older")
    world.live(_go_on)
    shutil.rmtree(world.path / "raft")
    shutil.copytree(world.path.parent / "older", world.path / "raft")
    found = look(world, world.known())
    assert (found.lost, [(record.topic_id, version) for record, version in found.newer]) == ([], [(1, 2)])
    point(world, found)

    async def content(life: Life) -> dict[int, bytes | None]:
        return await life.content(ORDERS)

    assert sorted(world.live(content)) == list(range(65))


def test_of_newer_manifests_the_newest_that_is_whole_is_taken(world: FolderWorld) -> None:
    before = world.known()
    world.live(_go_on)
    newest = world.path / manifest_name(1, 2)
    leftover = newest.with_name("0000000003.manifest")
    leftover.write_bytes(newest.read_bytes())  # its manifest version is not that of its name
    assert [version for _, version in look(world, before).newer] == [2]
    leftover.unlink()
    flip(newest, 40)
    assert [version for _, version in look(world, before).newer] == [2]  # the damage is told then, and kept


def test_a_later_topic_whose_manifest_is_damaged_is_not_taken_for_empty(world: FolderWorld) -> None:
    before = world.known()
    world.live(_make_clicks)

    async def flush(life: Life) -> None:
        await life.topic(CLICKS)
        await life.topic(ORDERS)
        await life.flush()

    world.live(flush)
    flip(world.path / manifest_name(2, 1), 40)
    assert look(world, before).lost == [LostTopic(2, None, 0)]


def test_a_later_topic_whose_messages_are_damaged_is_found(world: FolderWorld) -> None:
    before = world.known()
    world.live(_make_clicks)
    of_clicks = re.compile(re.escape(DATA_START + (2).to_bytes(8, "little")))
    for journal in world.path.glob("journal/*.journal"):
        for found in of_clicks.finditer(journal.read_bytes()):
            flip(journal, found.start() + ENVELOPE_BYTES + 20)
    assert [one.topic_id for one in look(world, before).lost] == [2]

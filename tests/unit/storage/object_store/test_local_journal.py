"""Journals that are acknowledged by the owner's disk, and uploaded behind that."""

import pytest

from danube.model.errors import StorageUnavailableError
from danube.storage.object_store.local_parts import NOT_UPLOADED, UPLOADED
from danube.storage.object_store.part_format import log_prefix
from danube.storage.takeover.object_storage import ObjectStorage
from lab.objects.world import ObjectsWorld
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import fill, flush_all, read_all
from tests.unit.storage.takeover.storages_world import stop_at

A = 1


@pytest.fixture
async def world() -> ObjectsWorld:
    world = ObjectsWorld(is_local=True)
    await world.create(A)
    return world


async def test_messages_are_acknowledged_and_read_while_the_store_is_gone_and_the_lag_is_shown(
    world: ObjectsWorld,
) -> None:
    first = await world.start(1, retries_max=0)
    await first.acquire([A])
    world.ways[1].is_down = True
    written = await fill(first.topic(A), 30)
    assert await read_all(first.topic(A)) == written
    world.clock.advance(7)
    assert first.object_use.waiting_bytes > 0
    assert first.object_use.waiting_s >= 7
    lag = first.topic(A).objects
    assert lag is not None
    assert (lag.not_uploaded_bytes, lag.stored_bytes) == (first.topic(A).body_bytes, 0)
    assert lag.not_uploaded_since_ms == world.clock.now_ms() - 7_000
    with pytest.raises(OSError, match="does not answer"):
        await first.upload()
    world.ways[1].is_down = False
    await first.upload()
    assert (first.object_use.waiting_bytes, first.object_use.waiting_s) == (0, 0)
    lag = first.topic(A).objects
    assert lag is not None
    assert (lag.not_uploaded_bytes, lag.not_uploaded_since_ms) == (0, None)
    await world.end()


async def test_messages_are_refused_with_the_reason_once_too_much_waits(world: ObjectsWorld) -> None:
    first = await world.start(1)
    await first.acquire([A])
    await fill(first.topic(A), 30)
    first._lag_bytes_max = 100
    with pytest.raises(StorageUnavailableError, match="wait to be uploaded to the object store"):
        first.topic(A).append_record(b"x", Told())
    await first.upload()
    assert first.refuses is None
    await world.end()


async def test_an_owner_that_died_goes_on_with_what_was_not_uploaded(world: ObjectsWorld) -> None:
    first = await world.start(1)
    await first.acquire([A])
    before = await fill(first.topic(A), 20)
    await first.upload()
    before += await fill(first.topic(A), 20, first=20)
    world.kill(1, power=True)
    again = await world.start(1)
    assert await read_all(again.topic(A)) == before
    await again.upload()
    world.kill(1)
    del world.disks[1]
    second = await world.start(2)
    await second.acquire([A])
    assert await read_all(second.topic(A)) == before
    await world.end()


async def test_without_the_disk_what_was_uploaded_is_there_and_the_rest_is_said_to_be_lost(
    world: ObjectsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    first = await world.start(1)
    await first.acquire([A])
    uploaded = await fill(first.topic(A), 20)
    await first.upload()
    await fill(first.topic(A), 5, first=20)
    folder = first.journal_folder
    world.kill(1)
    second = await world.start(2)
    await second.acquire([A])
    assert await read_all(second.topic(A)) == uploaded
    await world.start(1)
    assert "bytes were uploaded: what was acknowledged in them is lost to the cluster" in caplog.text
    assert world.disks[1].exists(f"{folder}/{NOT_UPLOADED}")
    await world.end()


async def test_an_owner_that_was_taken_over_stops_at_its_next_upload(world: ObjectsWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 10)
    await first.upload()
    await second.acquire([A])
    told = Told()
    first.topic(A).append_record(b"for itself alone", told)
    await told.outcome()
    with pytest.raises(OSError, match="another process has taken the next object"):
        await first.upload()
    late = Told()
    first.topic(A).append_record(b"too late", late)
    assert isinstance(await late.outcome(), StorageUnavailableError)
    assert await first.is_fenced()
    await world.end()


async def test_a_topic_is_released_only_once_all_of_it_is_uploaded(world: ObjectsWorld) -> None:
    first, second = await world.start(1, retries_max=0), await world.start(2)
    await first.acquire([A])
    before = await fill(first.topic(A), 20)
    log = first.topic(A)
    world.ways[1].is_down = True
    with pytest.raises(StorageUnavailableError, match="the journal is not uploaded yet"):
        await first.release(A, lambda: stop_at(log))
    world.ways[1].is_down = False
    await first.release(A, lambda: stop_at(log))
    await second.acquire([A])
    assert await read_all(second.topic(A)) == before
    await world.end()


async def test_files_leave_disk_and_store_after_the_bucket_says_where_the_journal_begins(world: ObjectsWorld) -> None:
    first = await world.start(1)
    await first.acquire([A])
    before = await fill(first.topic(A), 400)
    await first.upload()
    many = len(world.bucket.listing(log_prefix(first.journal_folder)))
    assert "0000000001.journal" in world.disks[1].list(first.journal_folder)
    await flush_all(first)
    await first.upload()
    assert len(world.bucket.listing(log_prefix(first.journal_folder))) < many
    assert "0000000001.journal" not in world.disks[1].list(first.journal_folder)
    assert world.bucket.listing(f"{first.journal_folder}/first")
    world.kill(1)
    del world.disks[1]
    second = await world.start(2)
    await second.acquire([A])
    assert await read_all(second.topic(A)) == before
    await world.end()


def _journal_reads(world: ObjectsWorld) -> list[str]:
    """Names of the numbered objects that are read whole from now on."""
    read: list[str] = []
    get = world.bucket.get

    def counted(name: str, position: int = 0, length: int | None = None) -> bytes:
        if "/log/" in name and length is None:
            read.append(name)
        return get(name, position, length)

    world.bucket.get = counted  # type: ignore[method-assign]
    return read


async def _upload_by_tens(storage: ObjectStorage, count: int) -> list[bytes]:
    written: list[bytes] = []
    for first in range(0, count, 10):
        written += await fill(storage.topic(A), 10, first=first)
        await storage.upload()
    return written


@pytest.mark.parametrize("power", [False, True])
async def test_a_restarted_owner_reads_no_object_whose_bytes_are_on_its_disk(world: ObjectsWorld, power: bool) -> None:
    first = await world.start(1)
    await first.acquire([A])
    written = await _upload_by_tens(first, 300)
    many = len(world.bucket.listing(log_prefix(first.journal_folder)))
    assert many > 30
    read = _journal_reads(world)
    for _ in range(2):  # what was noted before a start is known at the next one, too
        world.kill(1)
        again = await world.start(1)
        assert len(read) <= 3  # the claims alone
        assert await read_all(again.topic(A)) == written
        read.clear()
    world.kill(1, power=power)
    again = await world.start(1)
    assert len(read) <= 4
    written += await fill(again.topic(A), 10, first=300)
    await again.upload()
    world.kill(1)
    del world.disks[1]
    second = await world.start(2)
    await second.acquire([A])
    assert await read_all(second.topic(A)) == written
    await world.end()


@pytest.mark.parametrize("noted", [b"", b"no header at all", None])
async def test_a_damaged_note_of_what_was_uploaded_costs_requests_and_nothing_else(
    world: ObjectsWorld, noted: bytes | None
) -> None:
    first = await world.start(1)
    await first.acquire([A])
    written = await _upload_by_tens(first, 100)
    folder = first.journal_folder
    world.kill(1)
    name = f"{folder}/{UPLOADED}"
    if noted is None:
        world.disks[1].remove(name)
    else:
        world.disks[1].replace_file(name, noted)
    read = _journal_reads(world)
    again = await world.start(1)
    assert len(read) >= 10
    assert await read_all(again.topic(A)) == written
    await again.upload()
    await world.end()


async def test_a_journal_file_that_is_gone_from_the_disk_comes_from_the_store_whatever_was_noted(
    world: ObjectsWorld,
) -> None:
    first = await world.start(1)
    await first.acquire([A])
    written = await _upload_by_tens(first, 100)
    folder = first.journal_folder
    world.kill(1)
    for name in world.disks[1].list(folder):
        if name.endswith(".journal"):
            world.disks[1].remove(f"{folder}/{name}")
    again = await world.start(1)
    assert await read_all(again.topic(A)) == written
    await world.end()


async def test_a_restart_asks_the_store_for_one_object_of_each_topic_and_for_little_else(world: ObjectsWorld) -> None:
    topics = range(2, 42)
    await world.create(*topics)
    first = await world.start(1)
    await first.acquire([A, *topics])
    for topic_id in topics:
        await fill(first.topic(topic_id), 2)
    await flush_all(first)
    await _upload_by_tens(first, 200)
    stored = len(world.bucket.listing(log_prefix(first.journal_folder)))
    world.kill(1)
    await world.start(1)
    requests = sum(line.requests for line in world.bills[1].lines())
    assert stored > 20
    assert requests <= len(topics) + 16
    await world.end()

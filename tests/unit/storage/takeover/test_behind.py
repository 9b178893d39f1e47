"""A broker whose copy of the metadata is behind the others' removes nothing that is theirs, and fences nobody."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from danube.metadata.commands import Command, Outcome
from danube.metadata.memory import MemoryStore
from danube.metadata.records import keys
from danube.metadata.store import Entry, Watch
from danube.metadata.writing import CommandWriter
from danube.model.errors import MetadataError
from danube.storage.takeover.shared_storage import SharedStorage
from tests.unit.storage.store.storage_world import fill, read_all
from tests.unit.storage.takeover.storages_world import StoragesWorld, flush_whole, stop_at

A, B, NEW = 1, 2, 3


class BehindStore(CommandWriter):
    """One broker's copy of the metadata: once it falls behind it hears of nothing until it asks, or writes."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._heard: dict[str, Entry] | None = None
        self.is_cut_off = False

    async def fall_behind(self) -> None:
        roots = (keys.STORED_TOPICS, keys.DELETED_TOPICS, keys.STORED_JOURNALS)
        self._heard = {entry.key: entry for root in roots for entry in await self._store.list(root)}

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        self._hear(asks=linearizable)
        return await self._store.get(key) if self._heard is None else self._heard.get(key)

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        self._hear(asks=linearizable)
        if self._heard is None:
            return await self._store.list(prefix)
        return [entry for key, entry in self._heard.items() if key.startswith(f"{prefix}/")]

    def watch(self, prefix: str) -> Watch:
        return self._store.watch(prefix)

    async def close(self) -> None:
        return None

    async def _submit(self, command: Command) -> Outcome:
        self._hear(asks=True)
        return await self._store._submit(command)

    def _hear(self, *, asks: bool) -> None:
        if asks and self.is_cut_off:
            raise MetadataError("cut off from the others")
        if asks:
            self._heard = None


@pytest.fixture
def behind(storages: StoragesWorld) -> BehindStore:
    return BehindStore(storages.metadata)


async def test_a_journal_that_just_began_is_not_taken_for_one_that_was_struck_off(
    storages: StoragesWorld, behind: BehindStore
) -> None:
    first = await storages.start(1, metadata=behind)
    await behind.fall_behind()
    second = await storages.start(2)
    await second.acquire([A])
    records = await fill(second.topic(A), 5)
    assert await first.remove_journals() == 0
    records += await fill(second.topic(A), 5, first=5)
    assert await read_all(second.topic(A)) == records


async def test_the_segments_of_a_topic_that_was_just_created_are_not_taken_for_a_deleted_ones(
    storages: StoragesWorld, behind: BehindStore
) -> None:
    first, second = await storages.start(1, metadata=behind), await storages.start(2)
    await behind.fall_behind()
    await storages.create(NEW)
    await second.acquire([NEW])
    records = await fill(second.topic(NEW), 40)
    await flush_whole(second)
    await first.sweep_orphans()
    assert await read_all(second.topic(NEW)) == records


async def test_a_broker_that_has_given_a_topic_is_not_fenced_by_one_that_has_not_heard_of_it(
    storages: StoragesWorld, behind: BehindStore
) -> None:
    first, second = await storages.start(1), await storages.start(2, metadata=behind)
    await first.acquire([A, B])
    records = await fill(first.topic(A), 5)
    await behind.fall_behind()
    log = first.topic(A)
    await first.release(A, lambda: stop_at(log))
    assert await second.acquire([A]) == {A}
    assert await read_all(second.topic(A)) == records
    await fill(first.topic(B), 1)


async def test_a_broker_that_starts_again_does_not_own_what_it_has_given(
    storages: StoragesWorld, behind: BehindStore
) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A, B])
    await behind.fall_behind()
    log = first.topic(A)
    await first.release(A, lambda: stop_at(log))
    await second.acquire([A])
    await storages.stop(1)
    assert (await storages.start(1, metadata=behind)).owned == {B}


@pytest.mark.parametrize(
    "work",
    [SharedStorage.remove_journals, SharedStorage.sweep_orphans, lambda storage: storage.acquire([NEW])],
    ids=["retiring", "sweeping", "beginning"],
)
async def test_a_broker_that_is_cut_off_from_the_metadata_changes_nothing_in_the_folder(
    storages: StoragesWorld, behind: BehindStore, work: Callable[[SharedStorage], Awaitable[object]]
) -> None:
    first, second = await storages.start(1, metadata=behind), await storages.start(2)
    await behind.fall_behind()
    behind.is_cut_off = True
    await storages.create(NEW)
    await second.acquire([NEW])
    await fill(second.topic(NEW), 40)
    await flush_whole(second)
    before = storages.disk.changes_done  # type: ignore[attr-defined]
    with pytest.raises(MetadataError, match="cut off"):
        await work(first)
    assert storages.disk.changes_done == before  # type: ignore[attr-defined]

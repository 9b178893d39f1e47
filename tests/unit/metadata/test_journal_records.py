from collections.abc import AsyncIterator

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.records.journals import JournalRecords
from danube.metadata.records.storage import EpochRange, StorageRecords
from danube.model.errors import JournalFencedError, StorageChangedError
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    one = MemoryStore(SimClock())
    yield one
    await one.close()


async def test_journals_are_entered_under_ids_of_their_own_and_listed_with_their_brokers(store: MemoryStore) -> None:
    journals = JournalRecords(store, SystemRng(1))
    first, second = await journals.enter(7), await journals.enter(7)
    assert first.journal_id != second.journal_id
    assert await journals.all() == {first.journal_id: first, second.journal_id: second}
    assert first.broker_id == 7


async def test_a_journal_can_be_struck_off_twice(store: MemoryStore) -> None:
    journals = JournalRecords(store, SystemRng(1))
    entry = await journals.enter(7)
    await journals.strike_off(entry.journal_id)
    await journals.strike_off(entry.journal_id)
    assert await journals.all() == {}


async def test_topics_begin_in_a_journal_that_stands_and_in_none_that_was_struck_off(store: MemoryStore) -> None:
    journals, records = JournalRecords(store, SystemRng(1)), StorageRecords(store, SystemRng(2))
    entry = await journals.enter(7)
    epochs = (EpochRange(1, entry.journal_id, 0),)
    await records.seal_all([(await records.get(1), epochs)], journal=entry)
    await journals.strike_off(entry.journal_id)
    with pytest.raises(JournalFencedError, match="struck off"):
        await records.seal_all([(await records.get(2), epochs)], journal=entry)
    assert sorted(await records.all()) == [1]


async def test_what_was_asked_for_before_a_journal_was_entered_anew_has_no_effect(store: MemoryStore) -> None:
    journals, records = JournalRecords(store, SystemRng(1)), StorageRecords(store, SystemRng(2))
    before = await journals.enter(7)
    epochs = (EpochRange(1, before.journal_id, 0),)
    entry = await journals.renew(before.journal_id)
    assert entry is not None
    assert await journals.all() == {before.journal_id: entry}
    with pytest.raises(JournalFencedError):
        await records.seal(await records.get(1), epochs, journal=before)
    await records.seal(await records.get(1), epochs, journal=entry)


async def test_a_journal_that_was_struck_off_is_not_entered_anew(store: MemoryStore) -> None:
    journals = JournalRecords(store, SystemRng(1))
    entry = await journals.enter(7)
    await journals.strike_off(entry.journal_id)
    assert await journals.renew(entry.journal_id) is None
    assert await journals.all() == {}


async def test_who_loses_a_topic_is_told_so_though_its_journal_stands(store: MemoryStore) -> None:
    journals, records = JournalRecords(store, SystemRng(1)), StorageRecords(store, SystemRng(2))
    entry = await journals.enter(7)
    before = await records.get(1)
    epochs = (EpochRange(1, entry.journal_id, 0),)
    await records.seal_all([(before, epochs)], journal=entry)
    with pytest.raises(StorageChangedError) as lost:
        await records.seal_all([(before, epochs)], journal=entry)
    assert lost.value.topic_ids == {1}

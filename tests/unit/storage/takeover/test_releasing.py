"""A topic is given, and nobody knows whether that was done: it is served by nobody here until that is found out."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from danube.metadata.records import keys
from danube.metadata.store import Transaction
from danube.model.errors import (
    DamagedDataError,
    StorageChangedError,
    TopicNotServedError,
    UnknownOutcomeError,
    VersionConflictError,
)
from danube.storage.takeover.shared_storage import SharedStorage
from tests.unit.storage.store.storage_world import fill, read_all
from tests.unit.storage.takeover.shared_world import SteppedRunner
from tests.unit.storage.takeover.storages_world import SUBSCRIPTION, StoragesWorld, flush_whole, save, stop_at

A, B = 1, 2


@pytest.fixture(params=[True, False], ids=["it was sealed", "it was not sealed"])
def is_sealed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def owner_of(storages: StoragesWorld, number: int) -> tuple[SharedStorage, list[bytes]]:
    storage = await storages.start(number)
    await storage.acquire([A, B])
    records = await fill(storage.topic(A), 5)
    await save(storage.topic(A), 3)
    return storage, records


async def release(storage: SharedStorage, topic_id: int = A) -> None:
    log = storage.topic(topic_id)
    await storage.release(topic_id, lambda: stop_at(log))


async def release_again(storage: SharedStorage) -> None:
    await storage.release(A, lambda: pytest.fail("it was stopped before"))


async def release_without_answer(storages: StoragesWorld, storage: SharedStorage, *, is_sealed: bool) -> None:
    with no_answers(storages, is_done=is_sealed), pytest.raises(UnknownOutcomeError):
        await release(storage)


@contextlib.contextmanager
def no_answers(storages: StoragesWorld, *, is_done: bool) -> Iterator[None]:
    """The metadata does what it is asked to, or does not, and does not say so."""
    transact = storages.metadata.transact

    async def silent(transaction: Transaction) -> int:
        if is_done:
            await transact(transaction)
        raise UnknownOutcomeError("timed out")

    with replaced(storages, silent):
        yield


@contextlib.contextmanager
def replaced(storages: StoragesWorld, transact: Callable[[Transaction], object]) -> Iterator[None]:
    before = storages.metadata.transact
    storages.metadata.transact = transact  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        storages.metadata.transact = before  # type: ignore[method-assign]


def position(storage: SharedStorage) -> int | None:
    cursor = storage.topic(A).cursor(SUBSCRIPTION)
    return cursor.position if cursor is not None else None


async def test_a_topic_that_may_be_given_is_served_no_more_so_that_no_offset_is_acknowledged_twice(
    storages: StoragesWorld, is_sealed: bool
) -> None:
    first, records = await owner_of(storages, 1)
    await release_without_answer(storages, first, is_sealed=is_sealed)
    assert first.owned == {B}
    with pytest.raises(TopicNotServedError):
        first.topic(A)
    second = await storages.start(2)
    assert await second.acquire([A]) == {A}
    records += await fill(second.topic(A), 1, first=5)
    assert await read_all(second.topic(A)) == records


async def test_giving_once_more_finds_out_and_lets_go(storages: StoragesWorld, is_sealed: bool) -> None:
    first, records = await owner_of(storages, 1)
    await release_without_answer(storages, first, is_sealed=is_sealed)
    await release_again(first)
    (epoch,) = (await storages.records.get(A)).epochs
    assert epoch.end_offset == 5
    second = await storages.start(2)
    assert await second.acquire([A]) == {A}
    assert (await read_all(second.topic(A)), position(second)) == (records, 3)
    assert first.stopped is None, "it was fenced though it had let go"


async def test_beginning_with_a_topic_that_may_be_given_brings_it_back(
    storages: StoragesWorld, is_sealed: bool
) -> None:
    first, records = await owner_of(storages, 1)
    await release_without_answer(storages, first, is_sealed=is_sealed)
    assert await first.acquire([A]) == {A}
    records += await fill(first.topic(A), 5, first=5)
    assert (await read_all(first.topic(A)), position(first)) == (records, 3)
    await storages.stop(1)
    again = await storages.start(1)
    assert again.owned == {A, B}
    assert (await read_all(again.topic(A)), position(again)) == (records, 3)


async def test_as_long_as_the_metadata_does_not_answer_nothing_is_found_out(
    storages: StoragesWorld, is_sealed: bool
) -> None:
    first, records = await owner_of(storages, 1)
    await release_without_answer(storages, first, is_sealed=is_sealed)
    with no_answers(storages, is_done=False):
        for ask in (lambda: release_again(first), lambda: first.acquire([A])):
            with pytest.raises((UnknownOutcomeError, VersionConflictError)):
                await ask()
            assert A not in first.owned
    assert await first.acquire([A]) == {A}
    assert await read_all(first.topic(A)) == records


async def test_a_topic_of_which_one_cannot_know_keeps_no_other_from_being_begun(storages: StoragesWorld) -> None:
    first, _ = await owner_of(storages, 1)
    await release(first, B)
    await release_without_answer(storages, first, is_sealed=False)
    transact = storages.metadata.transact

    async def silent_of_a(transaction: Transaction) -> int:
        if any(one.key == keys.stored_topic(A) for one in transaction.conditions):
            raise UnknownOutcomeError("timed out")
        return await transact(transaction)

    with replaced(storages, silent_of_a), pytest.raises(UnknownOutcomeError):
        await first.acquire([A, B])
    assert first.owned == {B}


async def test_giving_that_is_cancelled_while_it_is_sealed_counts_as_unknown(
    storages: StoragesWorld, is_sealed: bool
) -> None:
    first, records = await owner_of(storages, 1)
    transact, asked = storages.metadata.transact, asyncio.Event()

    async def slow(transaction: Transaction) -> None:
        if is_sealed:
            await transact(transaction)
        asked.set()
        await asyncio.Event().wait()

    with replaced(storages, slow):
        giving = asyncio.ensure_future(release(first))
        await asked.wait()
        assert A not in first.owned
        giving.cancel()
        await asyncio.wait([giving])
    with pytest.raises(TopicNotServedError):
        first.topic(A)
    await release_again(first)
    assert await first.acquire([A]) == {A}
    assert await read_all(first.topic(A)) == records


async def test_a_begin_waits_until_it_is_known_whether_the_topic_was_given(storages: StoragesWorld) -> None:
    first, records = await owner_of(storages, 1)
    transact, asked, goes = storages.metadata.transact, asyncio.Event(), asyncio.Event()

    async def first_one_is_slow(transaction: Transaction) -> int:
        if not asked.is_set():
            asked.set()
            await goes.wait()
        return await transact(transaction)

    with replaced(storages, first_one_is_slow):
        giving = asyncio.ensure_future(release(first))
        await asked.wait()
        beginning = asyncio.ensure_future(first.acquire([A]))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not beginning.done()
        goes.set()
        await giving
        assert await beginning == {A}
    records += await fill(first.topic(A), 2, first=5)
    assert await read_all(first.topic(A)) == records


async def test_giving_that_fails_before_the_topic_may_be_sealed_leaves_it_served(storages: StoragesWorld) -> None:
    first, records = await owner_of(storages, 1)
    log = first.topic(A)

    async def fail() -> dict[int, object]:
        raise TopicNotServedError("not now")

    with pytest.raises(TopicNotServedError, match="not now"):
        await first.release(A, fail)  # type: ignore[arg-type]
    assert A in first.owned
    records += await fill(log, 1, first=5)
    await release(first)
    assert await first.acquire([A]) == {A}
    assert await read_all(first.topic(A)) == records


async def test_what_may_be_given_is_kept_in_the_journal_though_it_was_flushed_elsewhere(
    storages: StoragesWorld,
) -> None:
    first, records = await owner_of(storages, 1)
    await release_without_answer(storages, first, is_sealed=True)
    second = await storages.start(2)
    await second.acquire([A])
    await flush_whole(second)
    await first.journal.rotate()
    await first.flush()
    assert first.journal.closed_files(), "nobody knows yet that nothing of it is needed"
    with contextlib.suppress(StorageChangedError):
        await release_again(first)
    await first.flush()
    assert not first.journal.closed_files()
    assert await read_all(second.topic(A)) == records


@pytest.mark.parametrize("is_flushed", [False, True])
async def test_a_topic_that_was_given_and_begun_with_elsewhere_can_be_begun_with_again(
    storages: StoragesWorld, is_flushed: bool
) -> None:
    first, records = await owner_of(storages, 1)
    await release_without_answer(storages, first, is_sealed=True)
    second = await storages.start(2)
    await second.acquire([A])
    records += await fill(second.topic(A), 5, first=5)
    if is_flushed:
        await flush_whole(second)
    await release(second)
    assert await first.acquire([A]) == {A}
    assert await fill(first.topic(A), 1, first=10)
    assert (await read_all(first.topic(A)))[:-1] == records
    assert position(first) == 3


async def test_a_topic_that_was_lost_while_it_was_given_can_be_begun_with_once_it_is_free(
    storages: StoragesWorld,
) -> None:
    first, records = await owner_of(storages, 1)

    async def lose() -> dict[int, object]:
        record = await storages.records.get(A)
        await storages.records.seal(record, (*record.epochs[:-1], replace(record.epochs[-1], end_offset=4)))
        return {}

    with pytest.raises(StorageChangedError):
        await first.release(A, lose)  # type: ignore[arg-type]
    assert A not in first.owned
    assert first.journal.index(A) is None
    assert await first.acquire([A]) == {A}
    assert await read_all(first.topic(A)) == records[:4]


@pytest.mark.parametrize("is_released_again", [False, True])
@pytest.mark.parametrize("works", range(1, 9))
async def test_a_topic_that_is_given_while_others_are_still_begun_with_is_not_begun_with_again(
    storages: StoragesWorld, works: int, is_released_again: bool
) -> None:
    reads = SteppedRunner()
    first, second = await storages.start(1), await storages.start(2, read_runner=reads)
    await first.acquire([B])
    given: list[int] = []

    async def release_it() -> None:
        if A in second.owned:
            record = await storages.records.get(B)
            await storages.records.point([(record, 1 << 32)])  # so B is tried again
            await release(second)
            given.append(A)
            if is_released_again:
                await first.acquire([A])
                await release(first)

    reads.happen_after(works, release_it)
    with contextlib.suppress(DamagedDataError):  # there is no such manifest
        await second.acquire([A, B])
    assert (A in second.owned) == (not given)


async def test_a_topic_that_was_deleted_while_it_may_have_been_given_is_let_go_of(storages: StoragesWorld) -> None:
    first, _ = await owner_of(storages, 1)
    await release_without_answer(storages, first, is_sealed=True)
    await storages.delete(A)
    with pytest.raises(StorageChangedError):
        await release_again(first)
    assert await first.acquire([A]) == frozenset()


async def test_a_broker_that_starts_again_owns_what_it_had_not_given(storages: StoragesWorld, is_sealed: bool) -> None:
    first, records = await owner_of(storages, 1)
    await release_without_answer(storages, first, is_sealed=is_sealed)
    await storages.stop(1)
    again = await storages.start(1)
    assert again.owned == ({B} if is_sealed else {A, B})
    await again.acquire([A])
    assert await read_all(again.topic(A)) == records

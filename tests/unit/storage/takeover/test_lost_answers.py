"""A broker begins with a topic, and nobody tells it whether it did: that may come true late, or never."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from danube.metadata.records import keys
from danube.metadata.store import Transaction
from danube.model.errors import DanubeError, StorageUnavailableError, UnknownOutcomeError, VersionConflictError
from danube.storage.takeover.shared_storage import SharedStorage
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.store.storage_world import LateAnswer, fill, read_all
from tests.unit.storage.takeover.shared_world import SteppedRunner
from tests.unit.storage.takeover.storages_world import StoragesWorld, rest, stop_at

A, B = 1, 2


class LateTransaction:
    """The last transaction of which no answer came: it may be carried out at any time."""

    def __init__(self, storages: StoragesWorld) -> None:
        self.storages = storages
        self.transact = storages.metadata.transact
        self.held: Transaction | None = None

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """The metadata answers nothing, and does nothing yet."""

        async def silent(transaction: Transaction) -> int:
            self.held = transaction
            raise UnknownOutcomeError("timed out")

        self.storages.metadata.transact = silent  # type: ignore[method-assign]
        yield
        self.storages.metadata.transact = self.transact  # type: ignore[method-assign]

    @contextlib.contextmanager
    def before(self, number: int) -> Iterator[None]:
        """It is carried out before the n-th transaction from now on."""
        numbers = iter(range(1, 1_000))

        async def carry_out(transaction: Transaction) -> int:
            if next(numbers) == number:
                await self.carry_out()
            return await self.transact(transaction)

        self.storages.metadata.transact = carry_out  # type: ignore[method-assign]
        yield
        self.storages.metadata.transact = self.transact  # type: ignore[method-assign]

    async def carry_out(self) -> None:
        assert self.held is not None
        with contextlib.suppress(VersionConflictError):
            await self.transact(self.held)


async def acquired_without_answer(storages: StoragesWorld) -> tuple[SharedStorage, LateTransaction, list[bytes]]:
    """Broker 2 does not know whether it has begun with A, which was a dead one's; and has B."""
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    records = await fill(first.topic(A), 5)  # the last of them is above the mark, and appended again
    storages.kill(1)
    await second.acquire([B])
    late = LateTransaction(storages)
    with late.hold(), pytest.raises(UnknownOutcomeError):
        await second.acquire([A])
    return second, late, records


async def flush_all_files(storage: SharedStorage) -> None:
    await fill(storage.topic(B), 5)
    await storage.journal.rotate()
    await storage.flush()


async def check_a(storages: StoragesWorld, records: list[bytes]) -> None:
    """Whoever has A then, by its own start or from another, has all of it."""
    await storages.stop(2)
    second = await storages.start(2)
    if A in second.owned:
        assert await read_all(second.topic(A)) == records
    third = await storages.start(3)
    assert await third.acquire([A]) == {A}
    assert await read_all(third.topic(A)) == records


async def test_a_topic_is_not_given_any_more_by_a_broker_that_has_started_again(storages: StoragesWorld) -> None:
    first = await storages.start(1)
    await first.acquire([A])
    log, late = first.topic(A), LateTransaction(storages)
    records = await fill(log, 5)
    with late.hold(), pytest.raises(UnknownOutcomeError):
        await first.release(A, lambda: stop_at(log))
    storages.kill(1)
    again = await storages.start(1)
    assert again.owned == {A}
    await late.carry_out()
    records += await fill(again.topic(A), 5, first=5)
    second = await storages.start(2)
    assert await second.acquire([A]) == {A}
    assert await read_all(second.topic(A)) == records


async def test_a_topic_is_not_begun_with_any_more_by_a_broker_that_has_started_again(storages: StoragesWorld) -> None:
    _, late, records = await acquired_without_answer(storages)
    await storages.stop(2)
    second = await storages.start(2)
    await flush_all_files(second)
    await late.carry_out()
    await check_a(storages, records)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_begin_that_comes_true_while_the_topic_is_begun_with_again_has_no_offset_twice_in_the_journal(
    storages: StoragesWorld, number: int
) -> None:
    second, late, records = await acquired_without_answer(storages)
    with late.before(number), contextlib.suppress(DanubeError):
        await second.acquire([A])
    await late.carry_out()
    await check_a(storages, records)


async def test_what_a_begin_wrote_that_may_come_true_is_kept_though_the_next_one_fails(
    storages: StoragesWorld,
) -> None:
    second, late, records = await acquired_without_answer(storages)
    disk = storages.disks[2]
    assert isinstance(disk, SimDisk)
    disk.fail(Operation.READ, name="journals/*")
    with pytest.raises(StorageUnavailableError):
        await second.acquire([A])
    disk.clear_faults()
    await flush_all_files(second)
    await late.carry_out()
    await check_a(storages, records)


async def test_a_journal_is_not_kept_for_a_topic_that_another_broker_has_begun_with(storages: StoragesWorld) -> None:
    second, _, records = await acquired_without_answer(storages)
    third = await storages.start(3)
    assert await third.acquire([A]) == {A}
    await flush_all_files(second)
    assert not second.journal.closed_files()
    assert await read_all(third.topic(A)) == records


@pytest.mark.parametrize("is_true", [True, False])
async def test_a_journal_is_not_kept_for_ever_for_a_topic_that_nobody_begins_with(
    storages: StoragesWorld, is_true: bool
) -> None:
    second, late, records = await acquired_without_answer(storages)
    if is_true:
        await late.carry_out()
    await flush_all_files(second)
    assert bool(second.journal.closed_files()) == is_true
    await late.carry_out()
    await check_a(storages, records)


async def test_what_one_transaction_took_is_owned_though_the_next_one_was_not_answered(
    storages: StoragesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.storage.takeover.takeover.STORAGE_POINTERS_MAX", 1)
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A, B])
    records = await fill(first.topic(A), 5)
    storages.kill(1)
    transact = storages.metadata.transact

    async def silent_of_b(transaction: Transaction) -> int:
        if any(one.key == keys.stored_topic(B) for one in transaction.conditions):
            raise UnknownOutcomeError("timed out")
        return await transact(transaction)

    with monkeypatch.context() as silent, pytest.raises(UnknownOutcomeError):
        silent.setattr(storages.metadata, "transact", silent_of_b)
        await second.acquire([A, B])
    assert second.owned == {A}
    records += await fill(second.topic(A), 5, first=5)
    assert await second.acquire([A, B]) == {A, B}
    assert await read_all(second.topic(A)) == records


async def test_as_long_as_nobody_answers_the_journal_is_kept(storages: StoragesWorld) -> None:
    second, late, records = await acquired_without_answer(storages)
    await fill(second.topic(B), 5)
    await second.journal.rotate()
    with late.hold(), pytest.raises(UnknownOutcomeError):
        await second.flush()
    assert second.journal.closed_files()
    assert await second.acquire([A]) == {A}
    assert await read_all(second.topic(A)) == records


async def test_a_topic_that_came_back_is_released_again_though_a_flush_from_before_is_answered_late(
    storages: StoragesWorld,
) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    log = first.topic(A)
    records = await fill(log, 5)
    await first.journal.rotate()
    answer = LateAnswer(storages.metadata)
    flushing = asyncio.create_task(first.flush())
    await rest()
    await first.release(A, lambda: stop_at(log))
    assert await first.acquire([A]) == {A}
    answer.let_go()
    await flushing
    assert first.epoch(A) == (await storages.records.get(A)).epoch
    log = first.topic(A)
    records += await fill(log, 5, first=5)
    await first.release(A, lambda: stop_at(log))
    assert await second.acquire([A]) == {A}
    assert await read_all(second.topic(A)) == records


async def test_a_topic_that_came_back_while_its_record_was_looked_up_stays_this_brokers(
    storages: StoragesWorld,
) -> None:
    reads = SteppedRunner()
    first, second = await storages.start(1, read_runner=reads), await storages.start(2)
    await first.acquire([A])
    log = first.topic(A)
    records = await fill(log, 5)
    first.topics.mark_stale([A])

    async def leave_and_come_back() -> None:
        await first.release(A, lambda: stop_at(log))
        assert await first.acquire([A]) == {A}

    reads.happen_after(1, leave_and_come_back)
    await first.journal.rotate()
    await first.flush()
    assert first.owned == {A}
    assert first.epoch(A) == (await storages.records.get(A)).epoch
    log = first.topic(A)
    records += await fill(log, 5, first=5)
    await first.release(A, lambda: stop_at(log))
    assert await second.acquire([A]) == {A}
    assert await read_all(second.topic(A)) == records

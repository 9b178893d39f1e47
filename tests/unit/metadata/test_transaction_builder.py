from collections.abc import Awaitable, Callable

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.store import Entry, Transaction
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import NotFoundError, UnknownOutcomeError, VersionConflictError
from danube.model.limits.metadata import METADATA_ATTEMPTS_MAX
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock

RNG = SystemRng(seed=1)


class DisturbedStore(MemoryStore):
    """Lets something happen right before each transaction."""

    def __init__(self, before: Callable[["DisturbedStore"], Awaitable[object]]) -> None:
        super().__init__(SimClock())
        self.before = before
        self.transactions = 0

    async def transact(self, transaction: Transaction) -> int:
        if transaction.transaction_id:
            self.transactions += 1
            await self.before(self)
        return await super().transact(transaction)


class ForgetfulStore(MemoryStore):
    """Applies each transaction, and says only the n-th time that it did."""

    def __init__(self, silent_times: int) -> None:
        super().__init__(SimClock())
        self.silent_times = silent_times

    async def transact(self, transaction: Transaction) -> int:
        revision = await super().transact(transaction)
        self.silent_times -= 1
        if self.silent_times >= 0:
            raise UnknownOutcomeError("the leader was lost")
        return revision


async def increment(builder: TransactionBuilder) -> int:
    entry = await builder.read("/counter")
    value = int(entry.value) + 1 if entry else 1
    builder.put("/counter", str(value).encode())
    return value


async def test_change_is_worked_out_anew_when_another_was_faster() -> None:
    async def other_was_faster(store: DisturbedStore) -> None:
        if store.transactions == 1:
            await store.put("/counter", b"10")

    store = DisturbedStore(other_was_faster)
    assert await commit_transaction(store, RNG, increment) == 11
    assert store.transactions == 2


async def test_change_that_always_loses_gives_up() -> None:
    store = DisturbedStore(lambda store: store.put("/counter", b"10"))
    with pytest.raises(VersionConflictError, match="try again"):
        await commit_transaction(store, RNG, increment)
    assert store.transactions == METADATA_ATTEMPTS_MAX


async def test_key_that_changed_between_two_reads_of_one_attempt_is_a_conflict() -> None:
    store = MemoryStore(SimClock())
    attempts = 0

    async def change(builder: TransactionBuilder) -> None:
        nonlocal attempts
        attempts += 1
        await builder.read("/a")
        if attempts == 1:
            await store.put("/a", b"other")
        await builder.read("/a")
        builder.put("/a", b"mine")

    await commit_transaction(store, RNG, change)
    assert attempts == 2


async def test_change_that_writes_nothing_is_not_submitted() -> None:
    store = MemoryStore(SimClock())

    async def change(builder: TransactionBuilder) -> str:
        await builder.read("/a")
        return "nothing to do"

    assert await commit_transaction(store, RNG, change) == "nothing to do"


async def test_unknown_outcome_is_settled_without_applying_twice() -> None:
    store = ForgetfulStore(silent_times=3)
    assert await commit_transaction(store, RNG, increment) == 1
    entry = await store.get("/counter")
    assert entry is not None
    assert (entry.value, entry.revision) == (b"1", 1)


async def test_outcome_that_stays_unknown_is_said_to_be_so() -> None:
    with pytest.raises(UnknownOutcomeError):
        await commit_transaction(ForgetfulStore(silent_times=METADATA_ATTEMPTS_MAX), RNG, increment)


class LateStore(MemoryStore):
    """A process that sees what others have written only once it has asked for it."""

    def __init__(self) -> None:
        super().__init__(SimClock())
        self.is_late = True

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        self.is_late = self.is_late and not linearizable
        return None if self.is_late else await super().get(key)


async def _increment_what_is_there(builder: TransactionBuilder) -> int:
    if await builder.read("/counter") is None:
        raise NotFoundError("there is no counter")
    return await increment(builder)


async def test_what_another_process_has_just_made_is_no_reason_to_refuse() -> None:
    store = LateStore()
    await store.put("/counter", b"10")
    assert await commit_transaction(store, RNG, _increment_what_is_there) == 11


async def test_what_is_really_not_there_is_refused_at_once() -> None:
    store = LateStore()
    with pytest.raises(NotFoundError, match="there is no counter"):
        await commit_transaction(store, RNG, _increment_what_is_there)

"""Optimistic transactions: read, decide, write; every read must still hold when the writes are applied.

The builder turns every read into a condition. When one fails, the change is decided again on what stands then, a
bounded number of times.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from danube.metadata.store import Condition, Delete, DeletePrefix, Entry, MetadataStore, Put, Transaction, Write
from danube.model.errors import DanubeError, MetadataError, UnknownOutcomeError, VersionConflictError
from danube.model.limits.metadata import METADATA_ATTEMPTS_MAX
from danube.runtime.rng import Rng

T = TypeVar("T")


class TransactionBuilder:
    """One attempt at a change. Reads see the store, not its own writes."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._conditions: dict[str, Condition] = {}
        self._writes: list[Write] = []

    async def read(self, key: str) -> Entry | None:
        """The key as it stands; the change is applied only if it still stands so."""
        entry = await self._store.get(key)
        # The first read counts: if the key has changed since, the transaction must fail.
        self._conditions.setdefault(key, Condition(key, entry.revision if entry else 0))
        return entry

    def put(self, key: str, value: bytes) -> None:
        self._writes.append(Put(key, value))

    def delete(self, key: str) -> None:
        self._writes.append(Delete(key))

    def delete_below(self, prefix: str) -> None:
        self._writes.append(DeletePrefix(prefix))

    async def is_stale(self) -> bool:
        """True if something that was read stands otherwise by now: this process was behind the others.

        Costs a round of agreement where several processes share the store. Raises MetadataError.
        """
        is_fresh = False
        for condition in self._conditions.values():
            entry = await self._store.get(condition.key, linearizable=not is_fresh)
            is_fresh = True
            if (entry.revision if entry else 0) != condition.revision:
                return True
        return False

    def transaction(self, transaction_id: str) -> Transaction:
        return Transaction(transaction_id, tuple(self._conditions.values()), tuple(self._writes))


async def commit_transaction(store: MetadataStore, rng: Rng, change: Callable[[TransactionBuilder], Awaitable[T]]) -> T:
    """Carry `change` out; it may be called several times, each time with a fresh builder.

    Raises what `change` raises of what stands by now, VersionConflictError when others were faster
    METADATA_ATTEMPTS_MAX times, and UnknownOutcomeError when the store would not say whether the change was applied.
    """
    for _ in range(METADATA_ATTEMPTS_MAX):
        builder = TransactionBuilder(store)
        try:
            result = await change(builder)
        except MetadataError:
            raise
        except DanubeError:
            if not await builder.is_stale():  # what another process has just made is no reason to refuse
                raise
            continue
        transaction = builder.transaction(f"{rng.new_id():016x}")
        if not transaction.writes:
            return result
        try:
            await settle(store, transaction)
        except VersionConflictError:
            continue
        return result
    raise VersionConflictError(f"others changed the same metadata {METADATA_ATTEMPTS_MAX} times in a row: try again")


async def settle(store: MetadataStore, transaction: Transaction) -> int:
    """Submit the very same transaction until the answer is definite; answers the store's revision after it.

    Raises VersionConflictError, and UnknownOutcomeError when the store would not say METADATA_ATTEMPTS_MAX times.
    """
    for _ in range(METADATA_ATTEMPTS_MAX - 1):
        try:
            return await store.transact(transaction)
        except UnknownOutcomeError:
            continue
    return await store.transact(transaction)

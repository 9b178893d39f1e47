"""Protocol of metadata stores, and its values.

Keys are paths (`/namespaces/default`), values are bytes. Each change gets the next revision of the whole store; each
key has the revision that created it and the one that last changed it. Prefixes end at a `/` boundary: listing `/a/b`
finds `/a/b/c` and never `/a/bc`.

A change is a `Transaction`: conditions on keys, then writes, applied together or not at all. It has an id: applying the
same id twice has the effect of once and answers the first outcome again. So an unknown outcome (a leader lost in
mid-flight) is settled by submitting the same transaction until the answer is definite. A store remembers the last
METADATA_OUTCOMES_MAX outcomes.

All changes of one transaction have the same revision; a transaction that changes nothing (a missing key deleted) takes
none. Keys and values that no implementation could hold are refused with InvalidRequestError.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Entry:
    """One key as it stands."""

    key: str
    value: bytes
    created_revision: int
    revision: int
    """Revision of the last change, which a compare-and-set compares."""
    lease_id: int = 0
    """The lease this key lives by; 0 for none."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds if the key's last change has this revision; 0 means that there is no such key."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key."""

    key: str
    value: bytes
    lease_id: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key; removing a missing one changes nothing."""

    key: str


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Remove the key itself and everything below it."""

    prefix: str


Write = Put | Delete | DeletePrefix


@dataclass(frozen=True, slots=True)
class Transaction:
    """Conditions, then writes: together or not at all."""

    transaction_id: str
    """Unique per intent; submitting it again answers the first outcome."""
    conditions: tuple[Condition, ...]
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """A key was set. In a snapshot: the key as it stands."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Removed:
    """A key was deleted, or its lease ran out."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class SnapshotEnd:
    """All that stood at `revision` has been told; what follows are changes, in order, each told once."""

    revision: int


@dataclass(frozen=True, slots=True)
class Resync:
    """The store cannot tell what happened in between: forget everything, a new snapshot follows."""


WatchEvent = Changed | Removed | SnapshotEnd | Resync


class Watch(Protocol):
    """A stream of what happens under one prefix: a snapshot, then changes in order."""

    def __aiter__(self) -> AsyncIterator[WatchEvent]:
        """The events, without end until `close()`."""

    async def close(self) -> None:
        """End the stream. Idempotent."""


class MetadataStore(Protocol):
    """The store itself. Every method raises MetadataError when the store fails or is closed, UnknownOutcomeError when a
    write may or may not have been applied, and NotFoundError when it puts a key under a lease that has run out.
    """

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        """The key as it stands, or None.

        What this store itself has written is always seen. What others wrote before the call is seen for sure only if
        the read is `linearizable`, which costs a round of agreement where several processes share the store; it raises
        MetadataError when this process is cut off from them.
        """

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        """Everything below `prefix` (and not the key itself), sorted by key. `linearizable` as for `get`."""

    async def put(self, key: str, value: bytes, *, lease_id: int = 0) -> int:
        """Set a key unconditionally; answers its new revision."""

    async def compare_and_set(self, key: str, value: bytes, *, revision: int, lease_id: int = 0) -> int:
        """Set a key if its last change has `revision` (0: if it is missing); answers its new revision.

        Raises VersionConflictError otherwise.
        """

    async def delete(self, key: str, *, revision: int | None = None) -> None:
        """Remove a key; with `revision`, only if that is its last change (VersionConflictError otherwise)."""

    async def transact(self, transaction: Transaction) -> int:
        """Apply it; answers the store's revision after it. Raises VersionConflictError when a condition fails."""

    async def grant_lease(self, ttl_s: float) -> int:
        """A new lease; keys put with it go when it is not renewed within `ttl_s` seconds."""

    async def renew_lease(self, lease_id: int) -> None:
        """Start the lease's time anew. Raises NotFoundError when it has run out already."""

    async def revoke_lease(self, lease_id: int) -> None:
        """End the lease and remove its keys now."""

    async def expire_lease(self, lease_id: int) -> None:
        """The same for a holder that is dead, as far as is known: without effect if it renews the lease meanwhile."""

    def watch(self, prefix: str) -> Watch:
        """Watch everything below `prefix`, from a snapshot on."""

    async def close(self) -> None:
        """Release what the store holds. Idempotent."""

"""Rules of the replicated state: what a command does, as data, decided without I/O and without a clock.

`decide(view, command)` reads the state through a `View` and answers `Effects`: the outcome, and all changes. The same
commands in the same order give the same state on every replica.

Leases need no time in here: the process that times them names the renewal that ran out in `ExpireLease`, which has no
effect when the lease was renewed meanwhile.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from danube.metadata.store import Changed, Condition, Delete, DeletePrefix, Entry, Put, Removed, Transaction
from danube.model.errors import InvalidRequestError, UnsupportedError
from danube.model.limits.metadata import (
    LEASE_TTL_S_MAX,
    METADATA_KEY_BYTES_MAX,
    METADATA_LEASES_MAX,
    METADATA_TRANSACTION_PARTS_MAX,
    METADATA_VALUE_BYTES_MAX,
)

COMMANDS_VERSION = 1
"""Version of the rules below. A command carries the version it was made for; a change of a rule gets a new number."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it stands."""

    lease_id: int
    ttl_s: float
    renewals: int = 0
    """Number of renewals: tells one run of its time from the next."""


@dataclass(frozen=True, slots=True)
class Transact:
    """Apply a transaction. One with the id "" is not remembered: nobody can submit it again."""

    transaction: Transaction
    version: int = COMMANDS_VERSION


@dataclass(frozen=True, slots=True)
class GrantLease:
    """Make a lease."""

    command_id: str
    """Unique per intent, as a transaction's id; or ""."""
    ttl_s: float
    version: int = COMMANDS_VERSION


@dataclass(frozen=True, slots=True)
class RenewLease:
    """Start a lease's time anew."""

    lease_id: int
    version: int = COMMANDS_VERSION


@dataclass(frozen=True, slots=True)
class RevokeLease:
    """End a lease and remove its keys."""

    lease_id: int
    version: int = COMMANDS_VERSION


@dataclass(frozen=True, slots=True)
class ExpireLease:
    """The same, if the lease was renewed just this often: the time of that renewal ran out."""

    lease_id: int
    renewals: int
    version: int = COMMANDS_VERSION


Command = Transact | GrantLease | RenewLease | RevokeLease | ExpireLease


@dataclass(frozen=True, slots=True)
class Applied:
    """Done; the store's revision after it."""

    revision: int


@dataclass(frozen=True, slots=True)
class Conflicted:
    """A condition failed and nothing was done."""

    key: str
    expected: int
    found: int


@dataclass(frozen=True, slots=True)
class LeaseGiven:
    """A lease was granted or renewed."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class LeaseMissing:
    """There is no such lease (any more) and nothing was done."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class TooManyLeases:
    """METADATA_LEASES_MAX are held already and nothing was done."""


Outcome = Applied | Conflicted | LeaseGiven | LeaseMissing | TooManyLeases

Change = Changed | Removed


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of a command on the state."""

    outcome: Outcome
    revision: int
    """Revision of the store afterwards."""
    changes: tuple[Change, ...] = ()
    """Sorted by key; each key once."""
    lease_set: Lease | None = None
    lease_ended: int = 0
    command_id: str = ""
    """Remember the outcome under this id; "" for nothing to remember."""


class View(Protocol):
    """The state, for reading."""

    @property
    def revision(self) -> int: ...
    @property
    def last_lease_id(self) -> int: ...
    @property
    def lease_count(self) -> int: ...
    def entry(self, key: str) -> Entry | None: ...
    def below(self, prefix: str) -> Iterable[Entry]:
        """Everything below the prefix, sorted by key."""

    def lease(self, lease_id: int) -> Lease | None: ...
    def leased_keys(self, lease_id: int) -> Iterable[str]: ...
    def outcome(self, command_id: str) -> Outcome | None:
        """Remembered outcome of the command with this id."""


def decide(view: View, command: Command) -> Effects:
    """Effects of `command` on the state in `view`. The same view and command always give the same effects.

    Raises UnsupportedError for a command of newer rules: such a replica must stop, not guess.
    """
    if command.version > COMMANDS_VERSION:
        raise UnsupportedError(
            f"a metadata command follows rules {command.version} and this broker knows up to {COMMANDS_VERSION}:"
            " upgrade it"
        )
    match command:
        case Transact(transaction):
            return _once(view, transaction.transaction_id) or _transact(view, transaction)
        case GrantLease(command_id, ttl_s):
            return _once(view, command_id) or _grant(view, command_id, ttl_s)
        case RenewLease(lease_id):
            return _renew(view, lease_id)
        case RevokeLease(lease_id):
            return _end(view, view.lease(lease_id))
        case ExpireLease(lease_id, renewals):
            lease = view.lease(lease_id)
            return _end(view, lease if lease and lease.renewals == renewals else None)


def check_command(command: Command) -> None:
    """Raise InvalidRequestError for a command that no store could carry out; call it before one is submitted."""
    if isinstance(command, GrantLease) and not 0 < command.ttl_s <= LEASE_TTL_S_MAX:
        raise InvalidRequestError(f"a lease of {command.ttl_s} s is not possible: ask for up to {LEASE_TTL_S_MAX} s")
    if isinstance(command, Transact):
        _check_transaction(command.transaction)


def prefix_bounds(prefix: str) -> tuple[str, str]:
    """The keys below `prefix` are those from the first of these up to the second, not included."""
    start = prefix.rstrip("/")
    return f"{start}/", f"{start}0"  # "0" is the character after "/"


def _once(view: View, command_id: str) -> Effects | None:
    outcome = view.outcome(command_id) if command_id else None
    return Effects(outcome, view.revision) if outcome else None


def _transact(view: View, transaction: Transaction) -> Effects:
    refused = _refusal(view, transaction)
    if refused:
        return Effects(refused, view.revision, command_id=transaction.transaction_id)
    changes = _changes(view, transaction)
    revision = view.revision + 1 if changes else view.revision
    return Effects(Applied(revision), revision, changes, command_id=transaction.transaction_id)


def _refusal(view: View, transaction: Transaction) -> Outcome | None:
    for condition in transaction.conditions:
        found = _revision_of(view.entry(condition.key))
        if found != condition.revision:
            return Conflicted(condition.key, condition.revision, found)
    for write in transaction.writes:
        if isinstance(write, Put) and write.lease_id and view.lease(write.lease_id) is None:
            return LeaseMissing(write.lease_id)
    return None


def _changes(view: View, transaction: Transaction) -> tuple[Change, ...]:
    """Net changes of all writes, key by key; a later write of the same key wins."""
    revision = view.revision + 1
    after: dict[str, Entry | None] = {}
    for write in transaction.writes:
        match write:
            case Put(key, value, lease_id):
                before = after[key] if key in after else view.entry(key)
                created = before.created_revision if before else revision
                after[key] = Entry(key, value, created, revision, lease_id)
            case Delete(key):
                after[key] = None
            case DeletePrefix(prefix):
                start, end = prefix_bounds(prefix)
                gone = {entry.key for entry in view.below(prefix)} | {key for key in after if start <= key < end}
                after.update(dict.fromkeys(gone | {start.rstrip("/")}))
    changed = ((key, entry) for key, entry in sorted(after.items()) if entry or view.entry(key))
    return tuple(Changed(entry) if entry else Removed(key, revision) for key, entry in changed)


def _grant(view: View, command_id: str, ttl_s: float) -> Effects:
    if view.lease_count >= METADATA_LEASES_MAX:
        return Effects(TooManyLeases(), view.revision, command_id=command_id)
    lease = Lease(view.last_lease_id + 1, ttl_s)
    return Effects(LeaseGiven(lease), view.revision, lease_set=lease, command_id=command_id)


def _renew(view: View, lease_id: int) -> Effects:
    lease = view.lease(lease_id)
    if lease is None:
        return Effects(LeaseMissing(lease_id), view.revision)
    renewed = Lease(lease_id, lease.ttl_s, lease.renewals + 1)
    return Effects(LeaseGiven(renewed), view.revision, lease_set=renewed)


def _end(view: View, lease: Lease | None) -> Effects:
    if lease is None:
        return Effects(Applied(view.revision), view.revision)
    keys = sorted(view.leased_keys(lease.lease_id))
    revision = view.revision + 1 if keys else view.revision
    changes = tuple(Removed(key, revision) for key in keys)
    return Effects(Applied(revision), revision, changes, lease_ended=lease.lease_id)


def _revision_of(entry: Entry | None) -> int:
    return entry.revision if entry else 0


def _check_transaction(transaction: Transaction) -> None:
    parts = len(transaction.conditions) + len(transaction.writes)
    if parts > METADATA_TRANSACTION_PARTS_MAX:
        raise InvalidRequestError(
            f"a transaction of {parts} parts is too large: split it, {METADATA_TRANSACTION_PARTS_MAX} is the most"
        )
    for part in (*transaction.conditions, *transaction.writes):
        _check_part(part)


def _check_part(part: Condition | Put | Delete | DeletePrefix) -> None:
    key = part.prefix.rstrip("/") if isinstance(part, DeletePrefix) else part.key
    well_formed = key.startswith("/") and not key.endswith("/") and "//" not in key and key.isprintable()
    if not well_formed or len(key.encode()) > METADATA_KEY_BYTES_MAX:
        raise InvalidRequestError(
            f"{key[:80]!r} cannot be a metadata key: use a path such as '/a/b' of up to {METADATA_KEY_BYTES_MAX} bytes"
        )
    if isinstance(part, Put) and len(part.value) > METADATA_VALUE_BYTES_MAX:
        raise InvalidRequestError(
            f"the value of {key} has {len(part.value)} bytes: {METADATA_VALUE_BYTES_MAX} is the most that a key holds"
        )

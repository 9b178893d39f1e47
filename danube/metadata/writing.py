"""Writing half of a metadata store, in terms of commands: a subclass only submits them."""

from abc import ABC, abstractmethod

from danube.metadata.commands import (
    Applied,
    Command,
    Conflicted,
    GrantLease,
    Lease,
    LeaseGiven,
    LeaseMissing,
    Outcome,
    RenewLease,
    RevokeLease,
    TooManyLeases,
    Transact,
    check_command,
)
from danube.metadata.store import Condition, Delete, Put, Transaction, Write
from danube.model.errors import InternalError, LimitReachedError, MetadataError, NotFoundError, VersionConflictError


class CommandWriter(ABC):
    """Says every write of the `MetadataStore` protocol as one command."""

    _closed = False

    @abstractmethod
    async def _submit(self, command: Command) -> Outcome:
        """Have the command applied, once. Raises MetadataError, UnknownOutcomeError."""

    def _check_open(self) -> None:
        if self._closed:
            raise MetadataError("the metadata store is closed: this broker is going down")

    def _command_id(self) -> str:
        """The id of a command that the caller gave none; "" where no command's outcome is ever unknown."""
        return ""

    async def put(self, key: str, value: bytes, *, lease_id: int = 0) -> int:
        return await self._write((), Put(key, value, lease_id))

    async def compare_and_set(self, key: str, value: bytes, *, revision: int, lease_id: int = 0) -> int:
        return await self._write((Condition(key, revision),), Put(key, value, lease_id))

    async def delete(self, key: str, *, revision: int | None = None) -> None:
        await self._write(() if revision is None else (Condition(key, revision),), Delete(key))

    async def transact(self, transaction: Transaction) -> int:
        return _revision_after(await self._checked(Transact(transaction)))

    async def grant_lease(self, ttl_s: float) -> int:
        return _lease_in(await self._checked(GrantLease(self._command_id(), ttl_s))).lease_id

    async def renew_lease(self, lease_id: int) -> None:
        _lease_in(await self._checked(RenewLease(lease_id)))

    async def revoke_lease(self, lease_id: int) -> None:
        _revision_after(await self._checked(RevokeLease(lease_id)))

    async def expire_lease(self, lease_id: int) -> None:
        await self.revoke_lease(lease_id)

    async def _write(self, conditions: tuple[Condition, ...], write: Write) -> int:
        return await self.transact(Transaction(self._command_id(), conditions, (write,)))

    async def _checked(self, command: Command) -> Outcome:
        check_command(command)
        return await self._submit(command)


def _revision_after(outcome: Outcome) -> int:
    if isinstance(outcome, Applied):
        return outcome.revision
    raise _refusal(outcome)


def _lease_in(outcome: Outcome) -> Lease:
    if isinstance(outcome, LeaseGiven):
        return outcome.lease
    raise _refusal(outcome)


def _refusal(outcome: Outcome) -> Exception:
    match outcome:
        case Conflicted(key, expected, found):
            return VersionConflictError(
                f"metadata key {key} is at revision {found}, not {expected} (0: missing): read it again and retry"
            )
        case LeaseMissing(lease_id):
            return NotFoundError(f"lease {lease_id} has run out or was never granted: grant a new one")
        case TooManyLeases():
            return LimitReachedError("the metadata store holds as many leases as it can: end some first")
        case Applied() | LeaseGiven():
            return InternalError(f"{outcome} does not answer this command")

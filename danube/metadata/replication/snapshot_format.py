"""A snapshot of the metadata as bytes: what a snapshot of Raft, of a shared log, and a backup hold.

It is sealed records, each after its length as a little-endian u32: a head, then parts until there is as much as the
head says. Entries are sorted by key over all parts, outcomes are oldest first. Byte by byte:
`docs/formats/metadata-backup.md`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from danube.metadata.commands import Applied, Conflicted, Lease, LeaseGiven, LeaseMissing, Outcome, TooManyLeases
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import MetadataError, NewerRecordError
from danube.model.limits.metadata import METADATA_SNAPSHOT_BLOCK_BYTES_MAX
from danube.runtime.checksum import told_version
from danube.runtime.sealed import OtherVersionError, Sealed, UnsealError, framed, one_of, unframed

_ENTRIES_A_PART = 256
_OTHERS_A_PART = 2_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Head:
    revision: int
    last_lease_id: int
    entries: int
    leases: int
    outcomes: int


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The outcome of a command: one of these."""

    command_id: str
    applied: Applied | None = None
    conflicted: Conflicted | None = None
    lease_given: LeaseGiven | None = None
    lease_missing: LeaseMissing | None = None
    too_many_leases: TooManyLeases | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    entries: tuple[Entry, ...] = ()
    leases: tuple[Lease, ...] = ()
    outcomes: tuple[_Remembered, ...] = ()


_HEAD = Sealed(b"DnMs", _Head)
_PART = Sealed(b"DnMp", _Part, compress_from=0, bytes_max=METADATA_SNAPSHOT_BLOCK_BYTES_MAX)
_OUTCOMES: dict[type, str] = {
    Applied: "applied",
    Conflicted: "conflicted",
    LeaseGiven: "lease_given",
    LeaseMissing: "lease_missing",
    TooManyLeases: "too_many_leases",
}


def encode_state(snapshot: StateSnapshot) -> Iterator[bytes]:
    """The snapshot in pieces of bounded work: put together they are what `decode_state` takes."""
    counts = len(snapshot.entries), len(snapshot.leases), len(snapshot.outcomes)
    yield framed(_HEAD.seal(_Head(snapshot.revision, snapshot.last_lease_id, *counts)))
    for entries in _slices(snapshot.entries, _ENTRIES_A_PART):
        yield framed(_PART.seal(_Part(entries=entries)))
    for leases in _slices(snapshot.leases, _OTHERS_A_PART):
        yield framed(_PART.seal(_Part(leases=leases)))
    for outcomes in _slices(snapshot.outcomes, _OTHERS_A_PART):
        yield framed(_PART.seal(_Part(outcomes=tuple(_remembered(*each) for each in outcomes))))


def decode_state(packed: bytes | memoryview) -> StateSnapshot:
    """The snapshot whose pieces these are. Raises MetadataError, which is a NewerRecordError for another version."""
    try:
        return _decoded(memoryview(packed))
    except OtherVersionError as error:
        raise NewerRecordError(told_version("a snapshot of the metadata", error.found, error.known)) from error
    except UnsealError as error:
        raise MetadataError(f"a snapshot of the metadata cannot be read ({error}): take another copy of it") from error


def _decoded(packed: memoryview) -> StateSnapshot:
    sealed, at = unframed(packed)
    head = _HEAD.unseal(sealed)
    entries: list[Entry] = []
    leases: list[Lease] = []
    outcomes: list[tuple[str, Outcome]] = []
    while at < len(packed):
        sealed, at = unframed(packed, at)
        part = _PART.unseal(sealed)
        entries += part.entries
        leases += part.leases
        outcomes += ((each.command_id, one_of(each)) for each in part.outcomes)
    if (len(entries), len(leases), len(outcomes)) != (head.entries, head.leases, head.outcomes):
        raise UnsealError("it is cut off, or something follows its end")
    return StateSnapshot(head.revision, head.last_lease_id, tuple(entries), tuple(leases), tuple(outcomes))


def _remembered(command_id: str, outcome: Outcome) -> _Remembered:
    return _Remembered(command_id, **{_OUTCOMES[type(outcome)]: outcome})  # type: ignore[arg-type]


def _slices(values: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    for start in range(0, len(values), size):
        yield tuple(values[start : start + size])

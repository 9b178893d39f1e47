"""The audit log, version 1: one JSON object a record of AUDIT_TOPIC, each hashed to the one before. Pure.

The format is described in `docs/formats/audit.md`. Changing, removing or adding a record anywhere but at the end breaks
the chain from there on; that records are missing at the end shows only beside the offset of the topic.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import AUDIT_TEXT_CHARS_MAX, CALLER_CHARS_MAX
from danube.model.plans.plan import Arguments, Caller, Effect, Face, canonical
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.topic import TopicName
from danube.model.untrusted_json import decode_json

T = TypeVar("T")

VERSION = 1
AUDIT_TOPIC = TopicName(SYSTEM_NAMESPACE, "audit")
GENESIS = "0" * 64
"""What the first record is hashed to."""


class Outcome(StrEnum):
    """Outcome of a call."""

    STARTED = "started"
    """Written before a change is tried: without a second record, nobody knows how it ended."""
    DONE = "done"
    PLANNED = "planned"
    REFUSED = "refused"
    """By a rule: access level, approval, a plan that does not fit."""
    FAILED = "failed"


class Origin(StrEnum):
    """Knowledge behind a record."""

    SEEN = "seen"
    """The keeper itself was asked for it."""
    CLAIMED = "claimed"
    """A client told it: the keeper knows no more than who that was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One call, as the face or the broker that took it tells it."""

    caller: Caller
    operation: str
    arguments: Arguments
    """Without secrets."""
    effect: Effect
    outcome: Outcome
    plan_id: str | None = None
    error: str | None = None
    """The code of the error."""
    detail: str = ""
    """At most AUDIT_TEXT_CHARS_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One link of the chain."""

    sequence: int
    """From 0; the offset in the topic."""
    at_ms: int
    """By the clock of whoever keeps the log."""
    keeper: str
    """The broker's id, or `local`."""
    entry: AuditEntry
    origin: Origin | None = None
    """None in records of before it was written, and in a log that a face keeps itself."""
    previous: str
    """The hash of the record before, 64 hex digits; GENESIS for the first."""
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReceipt:
    """The place of a durable entry. Whoever keeps it can tell later that the log was not cut before it."""

    sequence: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAudit:
    """Ask for a page of the log."""

    start: int
    """The first sequence of the page."""
    limit: int
    """The most records of it; it may hold fewer."""
    topic: TopicName | None = None
    """The log: AUDIT_TOPIC or a partition of it; the one that the broker writes itself without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Records in their order; none when there are none from the sequence that was asked for."""

    records: tuple[AuditRecord, ...]
    start: int
    """The first sequence that can be read."""
    end: int
    """After the last record there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAuditPage:
    """A page as it is kept; nobody has looked at its records."""

    records: tuple[bytes, ...]
    first: int
    """Where the first of them stands."""
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerdict:
    """The verdict on a run of records: is it what was written?"""

    is_intact: bool
    checked: int
    broken_at: int | None = None
    """The sequence of the first record that does not fit."""
    reason: str = ""


def next_record(
    entry: AuditEntry, *, sequence: int, at_ms: int, keeper: str, previous: str, origin: Origin | None = None
) -> AuditRecord:
    """The entry as the next link of a chain."""
    record = AuditRecord(
        sequence=sequence, at_ms=at_ms, keeper=keeper, entry=entry, origin=origin, previous=previous, hash=""
    )
    return replace(record, hash=_hash(previous, _fields_of(record)))


def encode_record(record: AuditRecord) -> bytes:
    """One record: canonical JSON on one line."""
    return canonical({**_fields_of(record), "hash": record.hash}).encode()


def decode_record(data: bytes) -> AuditRecord:
    """The record. Its bytes must be those that `encode_record` writes; whether the hash is right, `verify` says.

    Raises InvalidRequestError for anything else, also for a record of another version.
    """
    try:
        record = _record_of(decode_json(data, any_text=True))
        is_exact = encode_record(record) == data
    except (ValueError, KeyError, TypeError):
        is_exact = False
    if not is_exact:
        raise InvalidRequestError("this is not a record of the audit log, version 1")
    return record


class ChainCheck:
    """The check of a run of records that come page by page. A chain that is broken stays broken."""

    def __init__(self, *, start: int | None = None, previous: str | None = None) -> None:
        """`start` is the sequence that the first record has to have, `previous` the hash before it; None takes its
        word for it.
        """
        self._expected = start
        self._previous = previous
        self.verdict = ChainVerdict(is_intact=True, checked=0)
        """On all that came so far."""

    def add(self, records: Iterable[AuditRecord]) -> None:
        """The next records."""
        for record in records:
            if not self.verdict.is_intact:
                return
            reason = self._fault(record)
            if reason:
                self.fail(record.sequence, reason)
                return
            self._expected, self._previous = record.sequence + 1, record.hash
            self.verdict = ChainVerdict(is_intact=True, checked=self.verdict.checked + 1)

    def end(self, stop: int) -> None:
        """Every record before this sequence has come, unless it is lost."""
        if self._expected is not None and self._expected < stop:
            self.fail(self._expected, f"{_sequenced(self._expected, stop)} cannot be read any more")

    def fail(self, at: int | None, reason: str) -> None:
        """The chain is broken here, for all that is known; the first break counts."""
        if self.verdict.is_intact:
            checked = self.verdict.checked
            self.verdict = ChainVerdict(is_intact=False, checked=checked, broken_at=at, reason=reason)

    def _fault(self, record: AuditRecord) -> str:
        expected, previous = self._expected, self._previous
        if expected not in {None, record.sequence}:
            if expected + 1 < record.sequence:
                return f"{_sequenced(expected, record.sequence)} should stand before it"
            return f"record {expected} should stand in its place"
        if record.hash != _hash(record.previous, _fields_of(record)):
            return "it was changed after it was written"
        if previous not in {None, record.previous} or (record.sequence == 0) != (record.previous == GENESIS):
            return "it does not follow the record before it"
        return ""


def verify(records: Iterable[AuditRecord], *, previous: str | None = None) -> ChainVerdict:
    """Check a run of records. `previous` is the hash before the first one; None takes the first one's word for it."""
    check = ChainCheck(previous=previous)
    check.add(records)
    return check.verdict


def bounded(entry: AuditEntry) -> AuditEntry:
    """The entry with its texts cut: those of the caller to CALLER_CHARS_MAX, the others to AUDIT_TEXT_CHARS_MAX."""
    arguments: Mapping[str, Any] = entry.arguments
    if len(canonical(arguments)) > AUDIT_TEXT_CHARS_MAX:
        arguments = {"cut": canonical(arguments)[:AUDIT_TEXT_CHARS_MAX]}
    caller = entry.caller
    return replace(
        entry,
        caller=replace(caller, who=caller.who[:CALLER_CHARS_MAX], client=caller.client[:CALLER_CHARS_MAX]),
        operation=entry.operation[:AUDIT_TEXT_CHARS_MAX],
        arguments=arguments,
        plan_id=entry.plan_id and entry.plan_id[:AUDIT_TEXT_CHARS_MAX],
        error=entry.error and entry.error[:AUDIT_TEXT_CHARS_MAX],
        detail=entry.detail[:AUDIT_TEXT_CHARS_MAX],
    )


def _record_of(fields: Mapping[str, Any]) -> AuditRecord:
    text, number = _Typed(fields, str), _Typed(fields, int)
    if not isinstance(fields["arguments"], dict):
        raise TypeError("arguments are an object")
    return AuditRecord(
        sequence=number["sequence"],
        at_ms=number["at_ms"],
        keeper=text["keeper"],
        entry=AuditEntry(
            caller=Caller(who=text["who"], face=Face(text["face"]), client=text["client"]),
            operation=text["operation"],
            arguments=fields["arguments"],
            effect=Effect(text["effect"]),
            outcome=Outcome(text["outcome"]),
            plan_id=text.or_none("plan_id"),
            error=text.or_none("error"),
            detail=text["detail"],
        ),
        origin=Origin(text["origin"]) if "origin" in fields else None,
        previous=text["previous"],
        hash=text["hash"],
    )


class _Typed(Generic[T]):
    """Fields of one type; TypeError for those of another."""

    def __init__(self, fields: Mapping[str, Any], kind: type[T]) -> None:
        self._fields = fields
        self._kind = kind

    def __getitem__(self, name: str) -> T:
        value = self._fields[name]
        if type(value) is not self._kind:
            raise TypeError(f"{name} is not of type {self._kind.__name__}")
        return value

    def or_none(self, name: str) -> T | None:
        return None if self._fields[name] is None else self[name]


def _sequenced(start: int, stop: int) -> str:
    return f"record {start}" if stop == start + 1 else f"records {start} to {stop - 1}"


def _fields_of(record: AuditRecord) -> dict[str, Any]:
    fields = asdict(record)
    entry = fields.pop("entry")
    fields.update(entry, **entry["caller"], version=VERSION)
    for name in ("caller", "hash", *(() if record.origin else ("origin",))):
        del fields[name]
    return fields


def _hash(previous: str, fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{previous}\n{canonical(fields)}".encode()).hexdigest()

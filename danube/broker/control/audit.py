"""Audit log: one reliable topic that this broker alone writes, each record hashed to the one before.

A record gets its time when it is appended, so those of concurrent calls follow each other and share a journal round.
When an append fails, the later ones fail too, and the chain continues from the last durable record.

A repair of damaged storage leaves placeholders for lost records (`danube/storage/batches/placeholder.py`). The log
continues after them from the last sound record. The missing numbers break the chain there for good. Pages leave
placeholders out.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import takewhile

from danube.broker.control.brokers import BrokerControl
from danube.broker.rates.claims import ClaimRates
from danube.broker.security.current import authenticated, current_principal
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.client import OutgoingMessage
from danube.model.errors import (
    DanubeError,
    InvalidRequestError,
    OverloadedError,
    PreconditionFailedError,
    StorageError,
    StorageUnavailableError,
)
from danube.model.limits.broker import AUDIT_PAGE_BYTES_MAX, AUDIT_PAGE_MAX, READ_BYTES_MAX
from danube.model.message import producer_id
from danube.model.records.audit import (
    AUDIT_TOPIC,
    GENESIS,
    AuditEntry,
    AuditReceipt,
    AuditRecord,
    Origin,
    ReadAudit,
    StoredAuditPage,
    bounded,
    decode_record,
    encode_record,
    next_record,
    verify,
)
from danube.model.security.principal import name_of
from danube.model.topic import TopicName
from danube.runtime.clock import Clock
from danube.storage.batches.batch import RecordKind, RecordView
from danube.storage.batches.placeholder import is_placeholder
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.topic_log import TopicLog
from danube.wire.decode import received_message
from danube.wire.encode import send_message

_log = logging.getLogger(__name__)

_PRODUCER = "danube-audit"
_BEFORE_THE_FIRST = AuditReceipt(sequence=-1, hash=GENESIS)


class AuditLog:
    """Appends to and reads `/system/audit`; the format is in `docs/formats/audit.md`."""

    def __init__(self, topics: Topics, brokers: BrokerControl, clock: Clock) -> None:
        self._topics = topics
        self._brokers = brokers
        self._clock = clock
        self._claims, self._refusals = ClaimRates(), ClaimRates()
        self._opening = asyncio.Lock()
        self._topic: ReliableTopic | None = None
        self._durable = self._last = _BEFORE_THE_FIRST
        """The newest record that is durable, and the newest that was appended."""
        self._pending: asyncio.Future[AuditReceipt | DanubeError] | None = None
        """Of the newest record, until that is durable or refused."""
        self._broken: PreconditionFailedError | None = None

    async def open(self) -> None:
        """Create the topic if it does not exist and find the end of the chain; a failure is logged.

        Each call of `record` tries again.
        """
        try:
            await self._opened()
        except DanubeError as error:
            _log.error("the audit log cannot be written: %s", error)

    async def claim(self, entry: AuditEntry) -> AuditReceipt:
        """Append what a client tells, marked as claimed. Raises as `record`, and OverloadedError above its rate."""
        principal = current_principal()
        if principal is not None:
            self._claims.use(name_of(str(principal)), self._clock.monotonic_s())
        return await self.record(entry, Origin.CLAIMED)

    def takes_refusal_of(self, who: str) -> bool:
        """Count one refused call of a principal; False above its rate, which keeps the log from growing for ever."""
        try:
            self._refusals.use(name_of(who), self._clock.monotonic_s())
        except OverloadedError:
            return False
        return True

    async def record(self, entry: AuditEntry, origin: Origin = Origin.SEEN) -> AuditReceipt:
        """Append one entry, its texts truncated; return once it is durable.

        Raises:
            StorageUnavailableError, OverloadedError: the journal does not accept it; the error has the reason.
            PreconditionFailedError: the last record is damaged or foreign. No second chain begins after it.
        """
        topic = await self._opened()
        entry = replace(entry, caller=authenticated(entry.caller))
        outcome: asyncio.Future[AuditReceipt | DanubeError] = asyncio.get_running_loop().create_future()
        record = next_record(
            bounded(entry),
            sequence=self._last.sequence + 1,
            at_ms=self._clock.now_ms(),
            keeper=self._brokers.own_id,
            previous=self._last.hash,
            origin=origin,
        )
        message = self._message(topic.record.name, record)
        topic.log.append_record(message, partial(self._appended, record, outcome))
        self._last, self._pending = _receipt(record), outcome
        result = await outcome
        if isinstance(result, DanubeError):
            raise result
        topic.messages_in += 1
        topic.bytes_in += len(message)
        return result

    async def read(self, wanted: ReadAudit) -> StoredAuditPage:
        """A page of stored records, also of those being appended. A page beyond all of them reads nothing.

        It skips placeholders at its start, and ends before the next one.

        Raises StorageUnavailableError where they cannot be read, InvalidRequestError for a topic that is no audit log,
        TopicNotFoundError, TopicNotServedError.
        """
        if self._pending is not None and wanted.start <= self._last.sequence:
            await asyncio.wait([self._pending])
        log = (await self._readable(wanted.topic)).log
        end = log.durable_end
        first = at = await _behind_placeholders(log, max(wanted.start, log.start_offset))
        stop = min(end, first + min(wanted.limit, AUDIT_PAGE_MAX))
        records: list[bytes] = []
        size = 0
        while at < stop and size < AUDIT_PAGE_BYTES_MAX:
            batches = list(takewhile(_is_of_records, await _read(log, at)))
            for payload in _payloads(batches, at):
                if at == stop or size >= AUDIT_PAGE_BYTES_MAX:
                    break
                records.append(payload)
                size += len(payload)
                at += 1
            if not batches:
                break
        return StoredAuditPage(records=tuple(records), first=first, start=log.start_offset, end=end)

    async def _opened(self) -> ReliableTopic:
        """The topic, once the end of its chain is known."""
        if self._broken is not None:
            raise self._broken
        if self._topic is not None:
            return self._topic
        async with self._opening:
            if self._topic is None:
                topic = await self._readable()
                self._durable = self._last = await _end_of_chain(topic.log)
                self._topic = topic
        return self._topic

    async def _readable(self, name: TopicName | None = None) -> ReliableTopic:
        if name is not None and not name.is_of(AUDIT_TOPIC):
            raise InvalidRequestError(f"{name} is no audit log: those are {AUDIT_TOPIC} and its partitions")
        topic = await self._topics.own_topic(AUDIT_TOPIC) if name is None else self._topics.get(name)
        if not isinstance(topic, ReliableTopic):
            raise PreconditionFailedError(
                f"{AUDIT_TOPIC} is not a reliable topic and cannot keep the audit log: delete it, it is made anew"
            )
        return topic

    def _appended(
        self, record: AuditRecord, outcome: "asyncio.Future[AuditReceipt | DanubeError]", result: int | DanubeError
    ) -> None:
        answer: AuditReceipt | DanubeError
        if isinstance(result, DanubeError):
            self._last = self._durable
            answer = result
        elif result != record.sequence:
            answer = self._broken = _not_ours(result)
        else:
            self._durable = answer = _receipt(record)
        if not outcome.done():
            outcome.set_result(answer)

    def _message(self, topic: TopicName, record: AuditRecord) -> bytes:
        return send_message(
            OutgoingMessage(
                request_id=0,
                producer_id=producer_id(topic, _PRODUCER),
                topic=str(topic),
                broker_addr=self._brokers.own.broker,
                payload=encode_record(record),
                publish_time_ms=record.at_ms,
                producer_name=_PRODUCER,
            )
        )


async def _end_of_chain(log: TopicLog) -> AuditReceipt:
    """The sequence number of the next record, and the hash of the last one; placeholders may follow that.

    Raises PreconditionFailedError when the last message is no record, or is in the wrong place.
    """
    end = log.durable_end
    last = await _before_placeholders(log)
    record = _record_at(await _read(log, last), last) if last >= 0 else None
    if last + 1 < end:
        _log.warning(
            "the audit log goes on at record %d: its chain stays broken there, for the records from %d on were lost "
            "with damaged storage",
            end,
            last + 1,
        )
    return AuditReceipt(sequence=end - 1, hash=record.hash if record is not None else GENESIS)


def _record_at(batches: list[StoredBatch], sequence: int) -> AuditRecord:
    try:
        record = decode_record(next(_payloads(batches, sequence)))
    except InvalidRequestError:
        raise _not_ours(sequence) from None
    if record.sequence != sequence or not verify([record]).is_intact:
        raise _not_ours(sequence)
    return record


async def _before_placeholders(log: TopicLog) -> int:
    """The last offset that is no placeholder; -1 when there is none."""
    end = log.durable_end
    while end > log.start_offset:
        batch = (await _read(log, end - 1))[0]
        if _is_of_records(batch):
            return end - 1
        end = batch.base_offset
    return -1


async def _behind_placeholders(log: TopicLog, offset: int) -> int:
    """The first offset from this one on that is no placeholder."""
    while offset < log.durable_end:
        for batch in await _read(log, offset):
            if _is_of_records(batch):
                return offset
            offset = batch.end_offset
    return offset


def _is_of_records(batch: StoredBatch) -> bool:
    return not is_placeholder(batch.body)


async def _read(log: TopicLog, offset: int) -> list[StoredBatch]:
    try:
        return await log.read(offset, READ_BYTES_MAX)
    except StorageError as error:
        _log.error("cannot read record %d of the audit log: %s", offset, error)
        raise StorageUnavailableError(
            f"record {offset} of the audit log cannot be read; the broker's log says why"
        ) from error


def _payloads(batches: list[StoredBatch], start: int) -> Iterator[bytes]:
    """Payloads of the messages from this offset on; bytes that are no message are returned as they are."""
    for batch in batches:
        view = RecordView(batch.body)
        for record in view.slice(max(0, start - batch.base_offset), batch.count):
            yield record if view.header.kind is RecordKind.PAYLOADS else _payload(record)


def _payload(message: bytes) -> bytes:
    try:
        return received_message(message).payload
    except InvalidRequestError:
        return message


def _receipt(record: AuditRecord) -> AuditReceipt:
    return AuditReceipt(sequence=record.sequence, hash=record.hash)


def _not_ours(sequence: int) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"record {sequence} of {AUDIT_TOPIC} is damaged, or another program wrote it, and nothing is recorded after it:"
        " keep a copy of the data folder, and restore it from a backup"
    )

"""The audit logs of a cluster, read side by side: each partition, also old ones, and their records as one list.

Each broker writes a log, and each log is a chain of its own. A log that cannot be read is told with the reason.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from danube.admin.gateway import AuditLogPlace
from danube.admin.operations.operation import Call
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.limits.broker import AUDIT_PAGE_MAX, PARTITIONS_MAX
from danube.model.limits.inspection import AUDIT_SEARCH_MAX
from danube.model.records.audit import AUDIT_TOPIC, AuditRecord, ChainCheck, ChainVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRecords:
    """The records that are asked for: the newest."""

    limit: int
    before_ms: int | None = None
    takes: Callable[[AuditRecord], bool] | None = None
    """True for those of a search; None for all."""
    is_whole: bool = False
    """True to read and check each log from its first record on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """One log, as far as it was read."""

    place: AuditLogPlace
    records: tuple[AuditRecord, ...]
    """Of those that are asked for, in its order."""
    verdict: ChainVerdict
    total: int | None
    """Records there are; None where that is unknown."""
    fault: DanubeError | None
    """Reason for which it was not read (to its end)."""


async def read_audit_logs(call: Call, wanted: WantedRecords) -> list[ReadLog]:
    """All logs, those of different brokers at once. Raises DanubeError where none of them can be read."""
    places = list(await call.gateway.audit_logs())[:PARTITIONS_MAX]
    if not places:
        found = [await _read(call, AuditLogPlace(topic=AUDIT_TOPIC, broker_id=None, admin_url=None), None, wanted)]
    else:
        depth = max(1, AUDIT_SEARCH_MAX // len(places))
        brokers = {place.broker_id: [each for each in places if each.broker_id == place.broker_id] for place in places}
        per_broker = await asyncio.gather(*(_read_each(call, some, wanted, depth) for some in brokers.values()))
        found = [log for some in per_broker for log in some]
    faults = [log.fault for log in found if log.fault is not None]
    if len(faults) == len(found):
        raise faults[0]
    return found


def newest_of(logs: Iterable[ReadLog], limit: int) -> list[AuditRecord]:
    """The newest records of all logs by their time, oldest first; those of one log stay in its order.

    Where it can be, they end between two times, so that those before the first one's time are all others.
    """
    timed: list[tuple[int, AuditRecord]] = []
    for log in logs:
        latest = 0
        for record in log.records:
            latest = max(latest, record.at_ms)  # a clock may have been set back
            timed.append((latest, record))
    timed.sort(key=lambda each: each[0])
    cut_ms = timed[-limit - 1][0] if len(timed) > limit else -1
    newest = timed[-limit:]
    return [record for at_ms, record in newest if at_ms > cut_ms] or [record for _, record in newest]


async def _read_each(call: Call, places: list[AuditLogPlace], wanted: WantedRecords, depth: int) -> list[ReadLog]:
    return [await _read(call, place, place, wanted, depth) for place in places]


async def _read(
    call: Call, place: AuditLogPlace, log: AuditLogPlace | None, wanted: WantedRecords, depth: int = AUDIT_SEARCH_MAX
) -> ReadLog:
    """One log page by page: it may be longer than fits in memory."""
    check, kept = ChainCheck(), deque[AuditRecord](maxlen=wanted.limit)
    total, fault = None, None
    try:
        newest = await call.gateway.audit(0, 1, log)
        total, first, end = newest.end - newest.start, 0, newest.end
        if not wanted.is_whole:
            end = end if wanted.before_ms is None else await _end_before(call, log, newest.start, end, wanted.before_ms)
            first = max(newest.start, end - (wanted.limit if wanted.takes is None else depth))
        check = ChainCheck(start=first)
        async for records in _pages(call, first, end, log):
            check.add(records)
            kept += [each for each in records if _is_wanted(each, wanted)]
        check.end(end)
    except InvalidRequestError as error:
        check.fail(None, str(error))  # a record that is none
    except DanubeError as error:
        fault = error
    return ReadLog(place=place, records=tuple(kept), verdict=check.verdict, total=total, fault=fault)


def _is_wanted(record: AuditRecord, wanted: WantedRecords) -> bool:
    is_before = wanted.before_ms is None or record.at_ms < wanted.before_ms
    return is_before and (wanted.takes is None or wanted.takes(record))


async def _end_before(call: Call, log: AuditLogPlace | None, start: int, end: int, before_ms: int) -> int:
    """The sequence after the last record from before this time."""
    while start < end:
        middle = (start + end) // 2
        page = await call.gateway.audit(middle, 1, log)
        if page.records and page.records[0].at_ms < before_ms:
            start = max(middle, page.records[0].sequence) + 1
        else:
            end = middle
    return end


async def _pages(call: Call, start: int, end: int, log: AuditLogPlace | None) -> AsyncIterator[list[AuditRecord]]:
    """The records of a log from one sequence up to another."""
    while start < end:
        page = await call.gateway.audit(start, min(AUDIT_PAGE_MAX, end - start), log)
        if not page.records:
            break
        yield [record for record in page.records if record.sequence < end]
        start = page.records[-1].sequence + 1
        await call.report(min(start, end), end, "reading the audit log")

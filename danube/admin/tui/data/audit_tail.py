"""The newest records of the audit log, each checked against the one before as it comes in."""

import asyncio
from collections import deque
from collections.abc import Sequence

from danube.admin.gateway import AdminGateway, AuditLogPlace
from danube.model.errors import DanubeError
from danube.model.limits.broker import AUDIT_PAGE_MAX
from danube.model.limits.faces import TUI_AUDIT_RECORDS_MAX
from danube.model.records.audit import AuditPage, AuditRecord, ChainCheck, ChainVerdict
from danube.model.topic import TopicName


class AuditTail:
    """The records read since the screen was opened. A chain once found broken stays broken."""

    def __init__(self) -> None:
        self._records: deque[AuditRecord] = deque(maxlen=TUI_AUDIT_RECORDS_MAX)
        self._check: ChainCheck | None = None
        self.total = 0
        """Records there are."""

    @property
    def records(self) -> Sequence[AuditRecord]:
        """Oldest first."""
        return tuple(self._records)

    @property
    def next(self) -> int | None:
        """The sequence to go on reading from; None before anything was read."""
        return self._records[-1].sequence + 1 if self._records else None

    @property
    def verdict(self) -> ChainVerdict:
        """On every record that was read so far."""
        return self._check.verdict if self._check is not None else ChainVerdict(is_intact=True, checked=0)

    def add(self, page: AuditPage, start: int) -> None:
        """A page that was asked for from `start` on: from `next`, where that is known."""
        self.total = page.end - page.start
        check = self._check = self._check or ChainCheck(start=start)
        last = self._records[-1].sequence if self._records else -1
        if self._records and page.end <= last:
            check.fail(page.end, f"records up to {last} were there before: the log was cut")
            return
        new = [record for record in page.records if record.sequence > last]
        check.add(new)
        if not new:
            check.end(page.end)
        self._records.extend(new)


class AuditTails:
    """The newest records of the audit logs of all brokers."""

    def __init__(self) -> None:
        self._tails: dict[TopicName | None, AuditTail] = {}
        self.missing: Sequence[str] = ()
        """Reasons for which logs were not read the last time, a sentence each."""

    @property
    def records(self) -> Sequence[AuditRecord]:
        """Oldest first."""
        found = sorted((each for tail in self._tails.values() for each in tail.records), key=lambda each: each.at_ms)
        return found[-TUI_AUDIT_RECORDS_MAX:]

    @property
    def total(self) -> int:
        """Records there are."""
        return sum(tail.total for tail in self._tails.values())

    @property
    def verdict(self) -> ChainVerdict:
        """On every record that was read so far; a broken chain, if there is one."""
        verdicts = [tail.verdict for tail in self._tails.values()]
        whole = ChainVerdict(is_intact=True, checked=sum(each.checked for each in verdicts))
        return next((each for each in verdicts if not each.is_intact), whole)

    async def read(self, gateway: AdminGateway) -> None:
        """Read on in each log. Raises DanubeError where none can be read."""
        logs = await gateway.audit_logs() or (None,)
        told = await asyncio.gather(*(self._read(gateway, log) for log in logs))
        failures = [each for each in told if each is not None]
        if len(failures) == len(logs):
            raise failures[0]
        self.missing = [str(each) for each in failures]

    async def _read(self, gateway: AdminGateway, log: AuditLogPlace | None) -> DanubeError | None:
        tail = self._tails.setdefault(log.topic if log else None, AuditTail())
        try:
            start = tail.next
            if start is None:
                newest = await gateway.audit(0, 1, log)
                start = max(newest.start, newest.end - TUI_AUDIT_RECORDS_MAX)
            tail.add(await gateway.audit(start, AUDIT_PAGE_MAX, log), start)
        except DanubeError as error:
            return error
        return None

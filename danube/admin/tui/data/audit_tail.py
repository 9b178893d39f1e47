"""The newest records of the audit log, each checked against the one before as it comes in. No I/O."""

from collections import deque
from collections.abc import Sequence

from danube.model.limits.faces import TUI_AUDIT_RECORDS_MAX
from danube.model.records.audit import AuditPage, AuditRecord, ChainCheck, ChainVerdict


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

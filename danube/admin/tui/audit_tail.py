"""The newest records of the audit log, each checked against the one before as it comes in. No I/O."""

from collections import deque
from collections.abc import Sequence

from danube.model.audit import AuditPage, AuditRecord, ChainVerdict, verify
from danube.model.face_limits import TUI_AUDIT_RECORDS_MAX


class AuditTail:
    """What was read of the log since the screen was opened. A chain once found broken stays broken."""

    def __init__(self) -> None:
        self._records: deque[AuditRecord] = deque(maxlen=TUI_AUDIT_RECORDS_MAX)
        self._broken: ChainVerdict | None = None
        self._checked = 0
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
        return self._broken or ChainVerdict(is_intact=True, checked=self._checked)

    def add(self, page: AuditPage) -> None:
        """A page that was asked for from `next` on."""
        self.total = page.end - page.start
        last = self._records[-1] if self._records else None
        if last is not None and page.end <= last.sequence:
            self._break(page.end, f"records up to {last.sequence} were there before: the log was cut")
            return
        new = [record for record in page.records if last is None or record.sequence > last.sequence]
        follows = last is not None and bool(new) and new[0].sequence == last.sequence + 1
        verdict = verify(new, previous=last.hash if follows and last is not None else None)
        self._checked += verdict.checked
        if not verdict.is_intact:
            self._break(verdict.broken_at, verdict.reason)
        self._records.extend(new)

    def _break(self, at: int | None, reason: str) -> None:
        if self._broken is None:
            self._broken = ChainVerdict(is_intact=False, checked=self._checked, broken_at=at, reason=reason)

"""What came of keeping the leader of a metadata cluster busy: the figures, and the verdict."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

CPU_PERCENT_MIN = 90.0
"""Of one processor: with less the broker was not busy, and nothing is proved."""


@dataclass(frozen=True, slots=True, order=True)
class Lead:
    """Who leads Raft, in the eyes of one broker."""

    leader_id: str | None
    """The node's id; None for nobody."""
    term: int

    def __str__(self) -> str:
        return f"{self.leader_id or 'nobody'} in term {self.term}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One second."""

    cpu_percent: float
    """Of one processor, by all threads of the leader's broker."""
    waited_percent: float
    """Of the time in which its main thread was ready and had no processor: others had them."""
    leads: Sequence[Lead | None]
    """By broker; None for one that did not answer."""
    messages: int
    """Sent and read since the start."""
    at_s: float

    def text(self) -> str:
        """On one line."""
        return f"the leader's broker at {self.cpu_percent:.0f} % of a processor, {self.messages:,} messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyReport:
    """The whole time."""

    before: Lead
    """On all brokers, when nothing was under way."""
    ramp: Sequence[Sample]
    """While the load grew: its figures do not count, an election in it does."""
    samples: Sequence[Sample]
    """Not empty."""
    clients: int

    @property
    def cpu_percent(self) -> float:
        """Median over the samples."""
        return statistics.median(sample.cpu_percent for sample in self.samples)

    @property
    def elections(self) -> Sequence[Lead]:
        """What was seen of other leaders, other terms, and of none."""
        seen = {lead for sample in (*self.ramp, *self.samples) for lead in sample.leads if lead is not None}
        return sorted(seen - {self.before}, key=lambda lead: lead.term)

    @property
    def is_good(self) -> bool:
        """Whether it was busy, and led all the time."""
        return not self.elections and self.cpu_percent >= CPU_PERCENT_MIN

    def text(self) -> str:
        """For a person."""
        lines = [
            f"time:      {self._seconds():,.0f} s, {len(self.samples):,} samples of three brokers",
            f"processor: {self._processor()}",
            f"messages:  {self._rate():,.0f} a second sent and read, by {self.clients} client processes",
            f"leader:    {self.before}; then {', '.join(map(str, self.elections)) or 'no other leader and term'}",
        ]
        if unanswered := sum(sample.leads.count(None) for sample in self.samples):
            lines.append(f"calls:     {unanswered:,} were not answered in time")
        return "\n".join([*lines, self._verdict()])

    def _processor(self) -> str:
        cpu = sorted(sample.cpu_percent for sample in self.samples)
        waited = statistics.median(sample.waited_percent for sample in self.samples)
        return (
            f"the leader's broker used {self.cpu_percent:.0f} % of one (median; {cpu[0]:.0f} to {cpu[-1]:.0f}), "
            f"and waited for one {waited:.0f} % of the time"
        )

    def _verdict(self) -> str:
        if self.elections:
            return "THERE WAS AN ELECTION, or a broker lost sight of the leader. Logs of the brokers were kept."
        if not self.is_good:
            return (
                f"NOT BUSY ENOUGH: under {CPU_PERCENT_MIN:.0f} % of a processor nothing is proved. Where the broker "
                "waited for one, let the machine do nothing else."
            )
        return "A leader that was busy all the time led all the time."

    def _seconds(self) -> float:
        first = self.ramp[-1] if self.ramp else self.samples[0]
        return self.samples[-1].at_s - first.at_s

    def _rate(self) -> float:
        known = [*self.ramp[-1:], *self.samples]
        moved = sum(after.messages - before.messages for before, after in pairwise(known))
        return moved / max(self._seconds(), 1e-9)

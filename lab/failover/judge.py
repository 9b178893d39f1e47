"""Rules for an application of the failover rounds, by its report and by what its topic holds afterwards. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from lab.kernel.judge import Violation

PROMISES = ("lost", "gaps", "changed", "disorder", "undelivered", "failed")
"""Promises: an acknowledged message is gone; offsets have a gap; a consumer got something else than the topic holds;
messages are out of order; a consumer never got a message; our client raised an error, or a broker did."""
SHOWN = 5


@dataclass(slots=True)
class Report:
    """The report of one application, fed line by line."""

    acknowledged: dict[int, float] = field(default_factory=dict)
    """By number: when its acknowledgement came, in monotonic seconds."""
    received: dict[int, int] = field(default_factory=dict)
    """Numbers by offset, as they came first."""
    errors: list[str] = field(default_factory=list)

    def add(self, line: Mapping[str, Any]) -> None:
        """Take in one line."""
        self.acknowledged.update(line["acknowledged"])
        self.errors += line["errors"]
        for offset, number in line["received"]:
            self.received.setdefault(offset, number)

    @property
    def end(self) -> int:
        """Behind the last offset that was received: what came later it had no time for."""
        return max(self.received, default=-1) + 1

    def first_acknowledged_after(self, at_s: float) -> float | None:
        """The time of the first acknowledgement after a moment; None if there is none."""
        return min((one for one in self.acknowledged.values() if one > at_s), default=None)


def judge(topic: str, report: Report, held: Sequence[tuple[int, int]]) -> Iterator[Violation]:
    """Every promise that was broken; `held` are offsets and numbers of all that the topic holds, as they were read."""
    gaps = [offset for at, (offset, _) in enumerate(held) if offset != at]
    yield from _of("gaps", topic, gaps, "the offsets are not contiguous from")
    there = dict.fromkeys(number for _, number in held)
    yield from _of("lost", topic, sorted(report.acknowledged.keys() - there.keys()), "acknowledged and gone:")
    numbers = list(there)
    overtaken = [number for number, before in zip(numbers, accumulate(numbers, max), strict=True) if number < before]
    yield from _of("disorder", topic, overtaken, "not in the order in which they were sent:")
    at_offset = dict(held)
    changed = [offset for offset, number in report.received.items() if at_offset.get(offset) != number]
    yield from _of("changed", topic, changed, "received, and the topic holds something else at offset")
    undelivered = [offset for offset in at_offset if offset < report.end and offset not in report.received]
    yield from _of("undelivered", topic, undelivered, "never received, at offset")


def _of(promise: str, topic: str, wrong: Sequence[int], what: str) -> Iterator[Violation]:
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        shown = ", ".join(map(str, wrong[:SHOWN]))
        yield Violation(promise, f"{what} {shown}{more}", topic, count=len(wrong))

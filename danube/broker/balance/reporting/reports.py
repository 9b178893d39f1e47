"""Load reports of all brokers, as they arrive: implausible numbers are set aside with a word, and age counts from here.

The age of a report goes by the clock of the broker that received it, so a reporter whose clock is a day off is no
older, and no younger, than it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from danube.loadmgr.load import BrokerLoad, Demand, demands_of, implausible, plausible
from danube.metadata.records import keys
from danube.metadata.records.cluster import decode_load
from danube.metadata.store import Entry
from danube.model.errors import MetadataError
from danube.model.limits.balance import DEMANDS_REMEMBERED_MAX, REPORT_CLOCK_SKEW_S_MAX
from danube.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """A report, and when it was received."""

    load: BrokerLoad
    received_s: float
    """Monotonic time."""
    received_ms: int
    note: str = ""
    """Anything odd about it, a sentence."""


class LoadReports:
    """The newest report of each broker."""

    def __init__(self, clock: Clock, *, carries_logs: bool = False) -> None:
        self._clock = clock
        self._carries_logs = carries_logs
        self._remembered: dict[str, Demand] = {}
        self._reports: dict[int, ReceivedReport] = {}
        self._refused: dict[int, str] = {}
        """Brokers whose last report could not be read, with the reason."""

    @property
    def reports(self) -> Mapping[int, ReceivedReport]:
        """By broker."""
        return self._reports

    @property
    def refused(self) -> Mapping[int, str]:
        """Reasons for which the last report of a broker was refused, by broker."""
        return self._refused

    @property
    def remembered(self) -> Mapping[str, Demand]:
        """The load of each topic as it was measured last, by whichever broker; DEMANDS_REMEMBERED_MAX at most."""
        return self._remembered

    def receive(self, load: BrokerLoad) -> None:
        """Receive a report."""
        now_ms = self._clock.now_ms()
        note = _note(load, now_ms)
        self._refused.pop(load.broker_id, None)
        report = ReceivedReport(plausible(load), self._clock.monotonic_s(), now_ms, note)
        self._reports[load.broker_id] = report
        for name, demand in demands_of(report.load, carries_logs=self._carries_logs).items():
            self._remembered.pop(name, None)
            self._remembered[name] = demand
        while len(self._remembered) > DEMANDS_REMEMBERED_MAX:
            self._remembered.pop(next(iter(self._remembered)))

    def follow(self, key: str, entry: Entry | None) -> None:
        """Apply a change or the end of a report's key."""
        try:
            broker_id = keys.parse_load(key)
        except MetadataError:
            return
        if entry is None:
            self._reports.pop(broker_id, None)
            self._refused.pop(broker_id, None)
            return
        try:
            self.receive(decode_load(entry))
        except MetadataError as error:
            self._reports.pop(broker_id, None)
            self._refused[broker_id] = f"Its load report cannot be read: {error}."


def _note(load: BrokerLoad, now_ms: int) -> str:
    notes = []
    if names := implausible(load):
        notes.append(f"Numbers of its load report cannot be, and count as 0: {', '.join(names)}.")
    ahead_s = (load.measured_ms - now_ms) / 1_000
    if abs(ahead_s) > REPORT_CLOCK_SKEW_S_MAX:
        way = "ahead of" if ahead_s > 0 else "behind"
        notes.append(f"Its clock is {abs(ahead_s):,.0f} s {way} this broker's: set its time.")
    return " ".join(notes)

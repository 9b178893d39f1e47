"""Reporter: measures this broker's load every few seconds, and has the other brokers know it.

In a cluster the report is one key of the metadata, which lives with the broker's lease: every broker can show the
balance, a new leader knows it at once, and the report of a dead broker goes with it.
"""

import logging

from danube.broker.balance.reporting.load_meter import LoadMeter
from danube.broker.balance.reporting.reports import LoadReports
from danube.metadata.cluster.lease_keeper import LeaseKeeper
from danube.metadata.records import keys
from danube.metadata.records.cluster import encode_load
from danube.metadata.store import MetadataStore
from danube.model.errors import DanubeError
from danube.runtime.clock import Clock, sleep_for

_log = logging.getLogger(__name__)


class Reporter:
    """The task that reports."""

    def __init__(
        self, meter: LoadMeter, reports: LoadReports, store: MetadataStore, keeper: LeaseKeeper | None, clock: Clock
    ) -> None:
        """`keeper` has the lease of a broker in a cluster; None for one that stands alone."""
        self._meter = meter
        self._reports = reports
        self._store = store
        self._keeper = keeper
        self._clock = clock
        self._is_failing = False

    async def run(self, interval_s: float) -> None:
        """Report every `interval_s`, for ever."""
        while True:
            await self.report()
            await sleep_for(self._clock, interval_s)

    async def report(self) -> None:
        """One report. The first failure of several is logged."""
        try:
            load = await self._meter.measure()
            self._reports.receive(load)
            if self._keeper is not None and self._keeper.lease_id:
                await self._store.put(keys.load(load.broker_id), encode_load(load), lease_id=self._keeper.lease_id)
        except DanubeError as error:
            if not self._is_failing:
                _log.warning("the load of this broker cannot be reported, and is tried again: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

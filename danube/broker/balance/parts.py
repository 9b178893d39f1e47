"""Parts of the balance of one broker, built from its dependencies and settings."""

from dataclasses import dataclass

from danube.broker.balance.control import BalanceControl
from danube.broker.balance.planned import RebalancePlans
from danube.broker.balance.records import BalanceRecords
from danube.broker.balance.reports import LoadReports
from danube.broker.balance.source import BalanceSettings, BalanceSource
from danube.broker.cluster.metadata import Metadata
from danube.broker.environment import Dependencies
from danube.broker.topics.local_topics import Topics
from danube.metadata.records import keys
from danube.metadata.watch_cache import WatchCache


@dataclass(frozen=True, slots=True)
class Balance:
    """The parts."""

    records: BalanceRecords
    reports: LoadReports
    source: BalanceSource
    control: BalanceControl
    plans: RebalancePlans


def open_balance(given: Dependencies, metadata: Metadata, topics: Topics) -> Balance:
    """Build the parts, and follow the records and the reports of all brokers."""
    records, reports = BalanceRecords(metadata.store, given.clock, given.rng), LoadReports(given.clock)
    source = BalanceSource(
        metadata.cluster,
        topics,
        reports,
        records,
        broker_id=given.folder.broker_id,
        settings=BalanceSettings(),
        clock=given.clock,
    )
    records.start(given.tasks)
    if metadata.cluster is not None:
        followed = WatchCache(metadata.store, keys.LOADS, given.clock, reports.follow)
        given.tasks.spawn(followed.run(), "watch the loads")
    control = BalanceControl(source, records, given.clock)
    plans = RebalancePlans(source, records, metadata.store, given.clock, given.rng)
    return Balance(records, reports, source, control, plans)

"""Parts of the balance of one broker, built from its dependencies and settings."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from danube.broker.balance.control import BalanceControl
from danube.broker.balance.planned import RebalancePlans
from danube.broker.balance.records import BalanceRecords
from danube.broker.balance.reporting.load_meter import LoadMeter
from danube.broker.balance.reporting.machine import OwnMachine
from danube.broker.balance.reporting.reporter import Reporter
from danube.broker.balance.reporting.reports import LoadReports
from danube.broker.balance.source import BalanceSettings, BalanceSource
from danube.broker.cluster.metadata import Metadata
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Dependencies
from danube.broker.topics.local_topics import Topics
from danube.loadmgr.automatic import Automatic
from danube.loadmgr.score import Strategy
from danube.metadata.records import keys
from danube.metadata.watch_cache import WatchCache
from danube.model.calls.balance import BalanceRule, RuleKind
from danube.model.ownership import StorageMode
from danube.model.records.audit import AuditEntry, AuditReceipt
from danube.storage.store import Storage


@dataclass(frozen=True, slots=True)
class Balance:
    """The parts."""

    records: BalanceRecords
    reports: LoadReports
    source: BalanceSource
    control: BalanceControl
    plans: RebalancePlans


def balance_settings(settings: BrokerSettings) -> BalanceSettings:
    """The settings of balance."""
    return BalanceSettings(
        strategy=Strategy(settings.assignment_strategy),
        automatic=Automatic(settings.rebalance_mode),
        report_interval_s=settings.load_report_interval_s,
        cool_down_s=settings.rebalance_cool_down_s,
        parallel_moves=settings.rebalance_parallel_moves,
        moves_per_hour=settings.rebalance_moves_per_hour,
        check_interval_s=settings.rebalance_check_interval_s,
        excluded=tuple(map(_excluded, settings.rebalance_excluded_topics)),
        copy_bytes_per_s=settings.move_rate_bytes_s,
    )


def _excluded(pattern: str) -> BalanceRule:
    namespace = pattern.removeprefix("/").removesuffix("/*")
    if pattern.endswith("/*"):
        return BalanceRule(kind=RuleKind.EXCLUDE_NAMESPACE, name=namespace, set_by="settings")
    return BalanceRule(kind=RuleKind.PIN_TOPIC, name=pattern, set_by="settings")


def open_balance(deps: Dependencies, metadata: Metadata, topics: Topics) -> Balance:
    """Build the parts, and follow the records and the reports of all brokers."""
    mode = metadata.cluster.topics.mode if metadata.cluster else StorageMode.SHARED_FS
    records = BalanceRecords(metadata.store, deps.clock, deps.rng)
    reports = LoadReports(deps.clock, carries_logs=mode is StorageMode.LOCAL)
    source = BalanceSource(
        metadata.cluster,
        topics,
        reports,
        records,
        broker_id=deps.folder.broker_id,
        settings=balance_settings(deps.settings),
        clock=deps.clock,
    )
    records.start(deps.tasks)
    if metadata.cluster is not None:
        from danube.broker.balance.assigner import LoadAssigner  # noqa: PLC0415 - a standalone broker starts without it

        metadata.cluster.topics.assigner = LoadAssigner(source, metadata.cluster.topics, deps.clock)
        followed = WatchCache(metadata.store, keys.LOADS, deps.clock, reports.follow)
        deps.tasks.spawn(followed.run(), "watch the loads")
    control = BalanceControl(source, records, deps.clock, deps.rng)
    plans = RebalancePlans(source, records, deps.clock)
    return Balance(records, reports, source, control, plans)


def start_balance(
    deps: Dependencies,
    metadata: Metadata,
    balance: Balance,
    storage: Storage,
    topics: Topics,
    *,
    audit: Callable[[AuditEntry], Awaitable[AuditReceipt]],
) -> None:
    """Begin to report the load; in a cluster, to carry out rebalances while this broker leads."""
    meter = LoadMeter(
        topics,
        storage,
        broker_id=deps.folder.broker_id,
        process=deps.environment.process,
        machine=deps.environment.machine or OwnMachine(),
        runner=deps.reader,
        clock=deps.clock,
        shares_disk=deps.settings.storage.folder is not None,
        interval_s=deps.settings.load_report_interval_s,
    )
    cluster = metadata.cluster
    keeper = cluster.keeper if cluster else None
    reporter = Reporter(meter, balance.reports, metadata.store, keeper, deps.clock)
    deps.tasks.spawn(reporter.run(deps.settings.load_report_interval_s), "report the load")
    if cluster is None:
        return
    from danube.broker.balance.automatic import AutomaticMode  # noqa: PLC0415 - as above
    from danube.broker.balance.rebalancer import Rebalancer  # noqa: PLC0415 - as above

    Rebalancer(cluster, balance.source, balance.records, metadata.records, deps.clock).start(deps.tasks)
    automatic = AutomaticMode(
        cluster, balance.source, balance.records, metadata.plans, audit=audit, clock=deps.clock, rng=deps.rng
    )
    balance.control.follow_automatic(automatic.balance)
    deps.tasks.spawn(automatic.run(deps.settings.rebalance_check_interval_s), "automatic mode of rebalances")

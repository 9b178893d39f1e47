"""A cluster as facts: brokers with reports, and topics on them."""

from collections.abc import Iterable, Mapping, Sequence

from danube.broker.balance.reporting.reports import ReceivedReport
from danube.broker.balance.view import BalanceView, Facts, view_of
from danube.loadmgr.load import BrokerLoad, TopicLoad, plausible
from danube.loadmgr.score import Strategy
from danube.metadata.records.cluster import BrokerDrain
from danube.model.calls.balance import BalanceRule
from danube.model.ownership import StorageMode, TopicOwnership
from danube.model.topic import TopicName

NOW_S = 1_000.0
NOW_MS = 1_000_000


def report(broker_id: int, cpu: float, topics: Mapping[str, float], **more: float) -> BrokerLoad:
    """A report of a broker whose topics have these messages a second."""
    loads = tuple(
        TopicLoad(topic=name, messages_per_s=rate, producers=1, consumers=1, stored_bytes=1_000)
        for name, rate in topics.items()
    )
    return BrokerLoad(broker_id=broker_id, measured_ms=NOW_MS, cpu=cpu, topics=loads, **more)  # type: ignore[arg-type]  # each a number


def received(load: BrokerLoad, *, age_s: float = 1.0, note: str = "") -> ReceivedReport:
    return ReceivedReport(plausible(load), NOW_S - age_s, NOW_MS - round(1_000 * age_s), note)


def facts(
    reports: Sequence[ReceivedReport],
    topics: Mapping[str, int],
    *,
    brokers: Mapping[int, BrokerDrain | None] | None = None,
    rules: Sequence[BalanceRule] = (),
    assigned: Mapping[str, int] | None = None,
    failed: Iterable[int] = (),
    moved: frozenset[str] = frozenset(),
    strategy: Strategy = Strategy.BALANCED,
    mode: StorageMode = StorageMode.SHARED_FS,
) -> Facts:
    """Facts about topics with these owners; `assigned` are those that are on their way."""
    names = [(TopicName.parse(name), owner) for name, owner in topics.items()]
    by_broker = {one.load.broker_id: one for one in reports}
    return Facts(
        topics=[
            (
                name,
                TopicOwnership(
                    topic_id=number,
                    namespace=name.namespace,
                    is_reliable=True,
                    owner=owner,
                    broker=(assigned or {}).get(str(name), owner),
                    is_pinned=name.namespace == "system",
                ),
            )
            for number, (name, owner) in enumerate(names, 1)
        ],
        brokers=dict.fromkeys(by_broker) if brokers is None else brokers,
        reports=by_broker,
        rules=rules,
        failed=dict.fromkeys(failed, NOW_MS + 40_000),
        moved=moved,
        strategy=strategy,
        mode=mode,
        now_s=NOW_S,
        now_ms=NOW_MS,
        stale_s=20.0,
    )


SKEWED = {f"/default/t{number}": 1 for number in range(6)}
"""Six topics, all of broker 1."""
RATES = dict.fromkeys(SKEWED, 1_000.0)


def skewed(**more: object) -> Facts:
    """Three brokers, of which the first does all the work."""
    reports = [received(report(1, 0.6, RATES)), received(report(2, 0.0, {})), received(report(3, 0.0, {}))]
    return facts(reports, SKEWED, **more)  # type: ignore[arg-type]  # keywords of it


def view(**more: object) -> BalanceView:
    return view_of(skewed(**more))

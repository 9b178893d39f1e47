"""The balance of a cluster as administrators see it, made of a view. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from danube.broker.balance.view import BalanceView, BrokerStatus
from danube.loadmgr.cluster_state import ClusterState
from danube.loadmgr.explain import cause_of
from danube.loadmgr.load import Shares
from danube.loadmgr.score import BrokerScore, Imbalance, status_of
from danube.model.calls.balance import BalanceFigures, BrokerBalance, TopicBalance, Utilisation
from danube.model.limits.balance import BALANCE_HOTTEST_SHOWN


def figures(found: Imbalance, scores: Mapping[int, BrokerScore]) -> BalanceFigures:
    """An imbalance in numbers, with the busiest of these brokers."""
    busiest = max(scores.values(), key=lambda one: one.score, default=None)
    return BalanceFigures(
        cv=found.cv,
        band=found.band.value,
        peak_to_average=found.peak_to_average,
        mean=found.mean,
        highest=found.highest,
        lowest=found.lowest,
        deviation=found.deviation,
        busiest_broker=str(busiest.broker_id) if busiest else "",
        busiest_resource=busiest.busiest.value if busiest else "",
    )


def utilisation(shares: Shares) -> Utilisation:
    """Shares by resource."""
    return Utilisation(cpu=shares[0], memory=shares[1], network=shares[2], disk=shares[3])


def brokers_of(view: BalanceView, state: ClusterState) -> tuple[BrokerBalance, ...]:
    """Every broker, by id."""
    scores = state.broker_scores()
    statuses = status_of({each: score.score for each, score in state.counted_scores().items()})
    owned = Counter(one.owner for _, one in view.facts.topics if not one.is_pinned)
    found = []
    for broker_id, status in view.statuses.items():
        score = scores.get(broker_id)
        broker = _broker(view, broker_id, status)
        if score is not None:
            broker = replace(
                broker,
                is_known=True,
                score=score.score,
                cause=cause_of(score, state),
                status=statuses.get(broker_id, "normal"),
                used=utilisation(score.shares),
                hottest=_hottest(view, state, broker_id),
            )
        found.append(replace(broker, topics=owned[broker_id]))
    return tuple(found)


def _broker(view: BalanceView, broker_id: int, status: BrokerStatus) -> BrokerBalance:
    """A broker with its last report, whether that counts or not."""
    known = BrokerBalance(broker_id=str(broker_id), state=status.state, note=status.note)
    if status.report is None:
        return known
    load = status.report.load
    return replace(
        known,
        report_age_s=max(0.0, view.facts.now_s - status.report.received_s),
        used=Utilisation(cpu=load.cpu, memory=load.memory),
        cores=load.cores,
        memory_bytes=load.memory_bytes,
        disk_bytes=load.disk_bytes,
        disk_bytes_per_s=load.disk_bytes_per_s,
        network_bytes_per_s=load.traffic_bytes_per_s,
        messages_in_per_s=load.messages_in_per_s,
        messages_out_per_s=load.messages_out_per_s,
        bytes_in_per_s=load.bytes_in_per_s,
        bytes_out_per_s=load.bytes_out_per_s,
        producers=sum(one.producers for one in load.topics),
        consumers=sum(one.consumers for one in load.topics),
        backlog_messages=sum(one.backlog_messages for one in load.topics),
    )


def _hottest(view: BalanceView, state: ClusterState, broker_id: int) -> tuple[TopicBalance, ...]:
    found = []
    for weight, name in reversed(state.on[broker_id][-BALANCE_HOTTEST_SHOWN:]):
        placed, load = state.topics[name], view.loads.get(name)
        found.append(
            TopicBalance(
                topic=name,
                broker_id=str(broker_id),
                score=weight,
                messages_per_s=load.messages_per_s if load else 0.0,
                bytes_per_s=load.bytes_per_s if load else 0.0,
                clients=load.clients if load else 0,
                backlog_messages=load.backlog_messages if load else 0,
                stored_bytes=load.stored_bytes if load else 0,
                stays=placed.stays,
            )
        )
    return tuple(found)

"""Which brokers of a cluster run, which are gone, and how many topics each of them owns, reachable or not."""

from collections import Counter
from typing import TYPE_CHECKING

from danube.model.calls.admin import UNREACHABLE, BrokerStanding
from danube.model.limits.metadata import CLUSTER_GONE_SHOWN_S
from danube.model.records.telemetry import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster


def is_counted(topic: str) -> bool:
    """Whether a topic is missed without its broker; each broker owns parts of the log of the system itself."""
    return not topic.startswith(f"/{SYSTEM_NAMESPACE}/")


def standings(own: BrokerStanding, cluster: "Cluster", now_ms: int) -> tuple[BrokerStanding, ...]:
    """By id: this broker, those that are registered, those gone for less than CLUSTER_GONE_SHOWN_S, owners of topics.

    A broker is unreachable once its lease has ended, and before that where its member of the Raft group is.
    """
    topics = Counter(record.owner for record in cluster.topics if is_counted(str(record.name)))
    running, gone = cluster.registry.brokers, cluster.registry.gone
    recent = [one for one, each in gone.items() if now_ms - each.last_seen_ms < CLUSTER_GONE_SHOWN_S * 1_000]
    members = cluster.membership.status().members if cluster.membership else ()
    away = {each.node_id for each in members if not each.connected}

    def standing(broker_id: int) -> BrokerStanding:
        if str(broker_id) == own.broker_id:
            return own
        is_active = broker_id in running and running[broker_id].node_id not in away
        return BrokerStanding(
            broker_id=str(broker_id),
            status=own.status if is_active else UNREACHABLE,
            topics=topics[broker_id],
            last_seen_ms=gone[broker_id].last_seen_ms if broker_id in gone else None,
        )

    return tuple(map(standing, sorted({*running, *recent, *topics, int(own.broker_id)})))

"""Clusters that might be: without a broker, with one more, with a topic at another rate. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from danube.loadmgr.assigning import assign_topics
from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.score import Strategy
from danube.model.errors import NotFoundError

Cluster = tuple[list[Place], list[PlacedTopic]]


def without_broker(
    places: Sequence[Place], topics: Sequence[PlacedTopic], broker_id: int, strategy: Strategy
) -> Cluster:
    """The cluster after a broker is gone, and its topics were assigned to others. Raises NotFoundError."""
    left = [place for place in places if place.broker_id != broker_id]
    if len(left) == len(places):
        raise NotFoundError(f"there is no broker {broker_id}: list the brokers to see their ids")
    staying = [topic for topic in topics if topic.broker_id != broker_id]
    orphans = [topic for topic in topics if topic.broker_id == broker_id]
    assigned = assign_topics(ClusterState(left, staying, strategy), orphans, seed=0)
    moved = [replace(topic, broker_id=assigned[topic.demand.topic]) for topic in orphans if assigned]
    return left, [*staying, *moved]


def with_broker(places: Sequence[Place], topics: Sequence[PlacedTopic], broker_id: int) -> Cluster:
    """The cluster with one more broker, as large as the middle one, and without topics."""
    by_cores = sorted(places, key=lambda place: place.capacity.cores)
    like = by_cores[len(by_cores) // 2]
    return [*places, replace(like, broker_id=broker_id, takes_topics=True, waits_until="")], list(topics)


def with_rate(places: Sequence[Place], topics: Sequence[PlacedTopic], topic: str, factor: float) -> Cluster:
    """The cluster with a topic at another rate. Raises NotFoundError."""
    if not any(one.demand.topic == topic for one in topics):
        raise NotFoundError(f"there is no topic {topic} with a known load: list the topics")
    changed = [replace(one, demand=one.demand.scaled(factor)) if one.demand.topic == topic else one for one in topics]
    return list(places), changed

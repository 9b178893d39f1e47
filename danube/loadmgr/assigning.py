"""Assignment of topics that have no broker: to the one that is best off with it. Pure.

Each topic counts from the moment that it is assigned, with the demand that is expected of it: so a burst of new topics
does not pile up on the broker that was idle when the reports were made.
"""

import hashlib
from collections.abc import Sequence

from danube.loadmgr.cluster_state import ClusterState, PlacedTopic
from danube.loadmgr.load import Demand
from danube.loadmgr.score import Strategy
from danube.model.limits.balance import NEAR_SCORE


def assign_topics(
    state: ClusterState, topics: Sequence[PlacedTopic], seed: int, takers: Sequence[int] | None = None
) -> dict[str, int]:
    """The brokers of these topics, which `state` has from then on; empty where no broker takes any.

    `takers` are the brokers to choose from, if not all that take topics by the state.
    Partitions of a base name are spread. Of brokers with nearly the same score the one with the fewest topics gets it:
    what an idle broker uses is noise, and a burst of new topics is not to follow that. Of brokers that are as well off,
    the seed chooses: it is in the record of the decision, so the decision can be made again.
    """
    found: dict[str, int] = {}
    if takers is None:
        takers = [broker_id for broker_id, place in state.places.items() if place.takes_topics]
    for topic in topics if takers else ():
        name = topic.demand.topic
        counts = state.groups[topic.group] if topic.group else {}
        scores = {each: state.score_with(topic, each) for each in takers}
        near = min(scores.values()) + (0.0 if state.strategy is Strategy.FAIR else NEAR_SCORE)
        target = min(
            takers,
            key=lambda each: (
                counts.get(each, 0),
                0.0 if scores[each] <= near else scores[each],
                len(state.on[each]),
                round(scores[each], 6),
                _lot(seed, name, each),
            ),
        )
        state.add(topic, target)
        found[name] = target
    return found


def expected_demand(name: str, known: Sequence[Demand]) -> Demand:
    """The demand that is expected of a topic that nobody has measured: the median of the known ones."""
    if not known:
        return Demand(topic=name)
    cores = sorted(one.cores for one in known)
    rates = sorted(one.bytes_per_s for one in known)
    middle = len(known) // 2
    return Demand(topic=name, cores=cores[middle], bytes_per_s=rates[middle])


def _lot(seed: int, name: str, broker_id: int) -> bytes:
    return hashlib.blake2b(f"{seed}/{name}/{broker_id}".encode(), digest_size=8).digest()

"""Assigner: the brokers of new and orphaned topics, by the strategy of the cluster."""

from collections.abc import Sequence
from dataclasses import replace

from danube.broker.balance.source import BalanceSource
from danube.broker.balance.view import BalanceView
from danube.loadmgr.assigning import assign_topics, expected_demand
from danube.loadmgr.cluster_state import ClusterState, PlacedTopic
from danube.loadmgr.score import Strategy
from danube.model.calls.balance import BrokerPlaceState
from danube.model.topic import TopicName

_SEED = 0
"""Of every decision: with the names of the topics it is enough to spread ties."""


class LoadAssigner:
    """Chooses by the view at this moment, in which topics that were assigned a moment ago count already."""

    def __init__(self, source: BalanceSource) -> None:
        self._source = source

    def __call__(self, names: Sequence[TopicName], brokers: Sequence[int]) -> list[int]:
        """The brokers, of those given, that these topics go to.

        None where a broker's load is unknown: by numbers of topics it gets its part until then. None where each is
        full or failed lately: a topic on such a broker is better than on none.
        """
        if self._source.settings.strategy is Strategy.FAIR and not self._source.failed():
            return []
        return assigned(self._source.view(), names, brokers)


def assigned(view: BalanceView, names: Sequence[TopicName], brokers: Sequence[int]) -> list[int]:
    """The brokers that these topics go to, in their order; empty as above. Pure."""
    states = {each: view.standings[each].state for each in brokers if each in view.standings}
    if BrokerPlaceState.UNKNOWN in states.values():
        return []
    # A broker that no rebalance touches gets new topics like any other.
    takes = {each for each, state in states.items() if state in {BrokerPlaceState.ACTIVE, BrokerPlaceState.EXCLUDED}}
    places = [replace(place, takes_topics=place.broker_id in takes) for place in view.places]
    known = [one.demand for one in view.topics]
    new = [
        PlacedTopic(
            demand=view.facts.remembered.get(str(name)) or expected_demand(str(name), known),
            broker_id=0,
            group=str(name.base_by_form or ""),
        )
        for name in names
    ]
    found = assign_topics(ClusterState(places, view.topics, view.facts.strategy), new, _SEED)
    return [found[str(name)] for name in names] if found else []

"""Assigner: the brokers of new and orphaned topics, by the strategy of the cluster."""

from collections.abc import Sequence
from dataclasses import replace

from danube.broker.balance.source import BalanceSource
from danube.broker.balance.view import BalanceView
from danube.broker.ownership.cluster_topics import ClusterTopics
from danube.loadmgr.assigning import assign_topics, expected_demand
from danube.loadmgr.cluster_state import PlacedTopic
from danube.loadmgr.score import Strategy
from danube.metadata.records.record_format import TopicRecord
from danube.model.calls.balance import BrokerPlaceState
from danube.model.ownership import TopicOwnership
from danube.model.topic import TopicName
from danube.runtime.clock import Clock

_SEED = 0
"""Of every decision: with the names of the topics it is enough to spread ties."""


class LoadAssigner:
    """Chooses by the newest load reports, in which topics that were assigned a moment ago count already.

    The loads are summed up once for each set of reports; topics that change meanwhile are moved in the sums.
    """

    def __init__(self, source: BalanceSource, topics: ClusterTopics, clock: Clock) -> None:
        self._source = source
        self._topics = topics
        self._clock = clock
        self._loads: Loads | None = None
        self._basis: tuple[object, ...] = ()
        self._stale_s = 0.0
        """Monotonic time at which a report that the loads are from is too old."""
        self._changed: dict[str, TopicName] = {}
        topics.on_change(self._topic_changed)

    def __call__(self, names: Sequence[TopicName], brokers: Sequence[int]) -> list[int]:
        """The brokers, of those given, that these topics go to.

        None where a broker's load is unknown: by numbers of topics it gets its part until then. None where each is
        full or failed lately: a topic on such a broker is better than on none.
        """
        if self._source.settings.strategy is Strategy.FAIR and not self._source.failed():
            return []
        return self._newest().assign(names, brokers)

    def _topic_changed(self, before: TopicRecord | None, after: TopicRecord | None) -> None:
        if self._clock.monotonic_s() > self._stale_s:  # others choose: what changes is not kept for ever
            self._loads = None
            self._changed.clear()
        for record in (before, after):
            if record is not None and self._loads is not None:
                self._changed[str(record.name)] = record.name

    def _newest(self) -> "Loads":
        basis, now_s = self._source.basis(), self._clock.monotonic_s()
        if self._loads is None or now_s > self._stale_s or basis != self._basis:
            view = self._source.view()
            ends_s = [one.received_s + view.facts.stale_s for one in view.facts.reports.values()]
            self._stale_s = min((each for each in ends_s if each >= now_s), default=now_s + view.facts.stale_s)
            self._loads, self._basis = Loads(view), basis
        else:
            for text, name in self._changed.items():
                record = self._topics.find(text)
                self._loads.follow(name, self._topics.ownership(record) if record is not None else None)
        self._changed.clear()
        return self._loads


class Loads:
    """Sums of the load of each broker, from one view on."""

    def __init__(self, view: BalanceView) -> None:
        self._view = view
        self.state = view.state()
        """Each topic where it counts."""
        self._expected = expected_demand("", [one.demand for one in view.topics])

    def assign(self, names: Sequence[TopicName], brokers: Sequence[int]) -> list[int]:
        """The brokers that these topics go to, in their order, which count there from then on; empty as above. Pure."""
        statuses = self._view.statuses
        states = {each: statuses[each].state for each in brokers if each in statuses}
        if BrokerPlaceState.UNKNOWN in states.values():
            return []
        # A broker that no rebalance touches gets new topics like any other.
        takes = {each for each, one in states.items() if one in {BrokerPlaceState.ACTIVE, BrokerPlaceState.EXCLUDED}}
        takers = [each for each in self.state.places if each in takes]
        new = [self._topic(name, name.base_by_form) for name in names]
        found = assign_topics(self.state, new, _SEED, takers)
        return [found[str(name)] for name in names] if found else []

    def follow(self, name: TopicName, topic: TopicOwnership | None) -> None:
        """Count a topic where it is now; None for a topic that was deleted."""
        state, text = self.state, str(name)
        broker_id = 0
        if topic is not None and not topic.is_pinned:
            broker_id = topic.broker if topic.broker in state.places else topic.owner
        if state.broker_of.get(text, 0) == broker_id:
            return
        if text in state.topics:
            state.remove(text)
        if topic is not None and broker_id in state.places:
            state.add(self._topic(name, topic.base), broker_id)

    def _topic(self, name: TopicName, base: TopicName | None) -> PlacedTopic:
        demand = self._view.facts.remembered.get(str(name)) or replace(self._expected, topic=str(name))
        return PlacedTopic(demand=demand, broker_id=0, group=str(base or ""))

"""State of a cluster that a planner changes in thought: shares of each broker, and where each topic is."""

import math
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from danube.loadmgr.load import Capacity, Demand, Shares
from danube.loadmgr.score import BrokerScore, Imbalance, Strategy, broker_score, imbalance_of, score_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A broker as a place for topics."""

    broker_id: int
    capacity: Capacity
    own: Shares
    """Shares that it takes up without its topics."""
    takes_topics: bool = True
    """False while it is drained, or has failed lately."""
    waits_until: str = ""
    """When it takes topics again that takes none for now: it counts for the balance; "" for any other."""

    @property
    def counts(self) -> bool:
        """True if its score is part of the imbalance."""
        return self.takes_topics or bool(self.waits_until)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTopic:
    """A topic on its broker."""

    demand: Demand
    broker_id: int
    group: str = ""
    """Base name that partitions share: they are kept apart; "" for a topic alone."""
    stays: str = ""
    """The reason for which it does not move, such as a pin; "" for one that may."""


class ClusterState:
    """Scores of all brokers, changed move by move."""

    def __init__(self, places: Iterable[Place], topics: Iterable[PlacedTopic], strategy: Strategy) -> None:
        self.places: Mapping[int, Place] = {place.broker_id: place for place in places}
        self.strategy = strategy
        self.topics: dict[str, PlacedTopic] = {}
        self.broker_of: dict[str, int] = {}
        self.on: dict[int, list[tuple[float, str]]] = {broker_id: [] for broker_id in self.places}
        """Topics of each broker by their weight there, the lightest first."""
        self.shares: dict[int, Shares] = {broker_id: place.own for broker_id, place in self.places.items()}
        self.groups: dict[str, Counter[int]] = defaultdict(Counter)
        for topic in topics:
            if topic.broker_id in self.places:
                self._add(topic, topic.broker_id)
        self.scores = {broker_id: self._score(broker_id) for broker_id in self.places}
        takers = max(1, sum(place.takes_topics for place in self.places.values()))
        self._fair = {group: math.ceil(counts.total() / takers) for group, counts in self.groups.items()}
        self._crowds = {group: Counter(counts) for group, counts in self.groups.items()}
        """Partitions of each base name by broker, before any move."""

    def add(self, topic: PlacedTopic, broker_id: int) -> None:
        """Assign a topic that had no broker."""
        self._add(topic, broker_id)
        self.scores[broker_id] = self._score(broker_id)

    def remove(self, name: str) -> PlacedTopic:
        """Take a topic off its broker."""
        topic, source = self.topics[name], self.broker_of[name]
        ordered = self.on[source]
        del ordered[bisect_left(ordered, (self.weight(name, source), name))]
        del self.topics[name], self.broker_of[name]
        self.groups[topic.group][source] -= 1
        self.shares[source] = _less(self.shares[source], topic.demand.shares(self.places[source].capacity))
        self.scores[source] = self._score(source)
        return topic

    def score_with(self, topic: PlacedTopic, broker_id: int) -> float:
        """Score of a broker with one more topic."""
        shares = _plus(self.shares[broker_id], topic.demand.shares(self.places[broker_id].capacity))
        return score_of(shares, len(self.on[broker_id]) + 1, self.strategy)

    def move(self, name: str, target: int) -> None:
        """Move a topic."""
        self.add(self.remove(name), target)

    def weight(self, name: str, broker_id: int) -> float:
        """Score that a topic makes on a broker, of the resource that it takes most of."""
        shares = self.topics[name].demand.shares(self.places[broker_id].capacity)
        return 100 * max(shares[0], shares[2], shares[3])

    def nearest(self, broker_id: int, wanted: float, count: int) -> list[str]:
        """Topics of a broker that may move, those first whose weight comes nearest to what is wanted."""
        ordered = self.on[broker_id]
        above = bisect_left(ordered, (wanted, ""))
        below, found = above - 1, list[str]()
        while len(found) < count and (below >= 0 or above < len(ordered)):
            is_above = below < 0 or (above < len(ordered) and ordered[above][0] - wanted <= wanted - ordered[below][0])
            name = ordered[above if is_above else below][1]
            above, below = (above + 1, below) if is_above else (above, below - 1)
            if not self.topics[name].stays:
                found.append(name)
        return found

    def scores_after(self, name: str, target: int) -> tuple[float, float]:
        """Scores of source and target once a topic has moved."""
        demand, source = self.topics[name].demand, self.broker_of[name]
        left = _less(self.shares[source], demand.shares(self.places[source].capacity))
        return (
            score_of(left, len(self.on[source]) - 1, self.strategy),
            score_of(self.shares_with(name, target), len(self.on[target]) + 1, self.strategy),
        )

    def shares_with(self, name: str, target: int) -> Shares:
        """Shares of a broker with one more topic."""
        return _plus(self.shares[target], self.topics[name].demand.shares(self.places[target].capacity))

    def keeps_apart(self, name: str, target: int) -> bool:
        """True if a move leaves the target no more partitions of the base name than it had, or than is fair."""
        group = self.topics[name].group
        return not group or self.groups[group][target] < self._crowd_max(group, target)

    def is_crowded(self, name: str, broker_id: int) -> bool:
        """True if a broker has more partitions of the topic's base name than it may."""
        group = self.topics[name].group
        return bool(group) and self.groups[group][broker_id] > self._crowd_max(group, broker_id)

    def _crowd_max(self, group: str, broker_id: int) -> int:
        return max(self._fair[group], self._crowds[group][broker_id])

    def imbalance(self) -> Imbalance:
        """Imbalance of the brokers that take topics, now or in a moment."""
        return imbalance_of([score for each, score in self.scores.items() if self.places[each].counts])

    def broker_scores(self) -> dict[int, BrokerScore]:
        """Scores with their causes."""
        return {each: broker_score(each, self.shares[each], len(self.on[each]), self.strategy) for each in self.places}

    def counted_scores(self) -> dict[int, BrokerScore]:
        """Scores that the imbalance is of, with their causes."""
        return {each: score for each, score in self.broker_scores().items() if self.places[each].counts}

    def _add(self, topic: PlacedTopic, broker_id: int) -> None:
        name = topic.demand.topic
        self.topics[name] = topic
        self.broker_of[name] = broker_id
        insort(self.on[broker_id], (self.weight(name, broker_id), name))
        self.groups[topic.group][broker_id] += 1
        self.shares[broker_id] = _plus(self.shares[broker_id], topic.demand.shares(self.places[broker_id].capacity))

    def _score(self, broker_id: int) -> float:
        return score_of(self.shares[broker_id], len(self.on[broker_id]), self.strategy)


def _plus(one: Shares, other: Shares) -> Shares:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3])


def _less(one: Shares, other: Shares) -> Shares:
    return (
        max(0.0, one[0] - other[0]),
        max(0.0, one[1] - other[1]),
        max(0.0, one[2] - other[2]),
        max(0.0, one[3] - other[3]),
    )

"""Policies that rebalance: ours, the original broker's, least-loaded greedy, and goals in order as Cruise Control's."""

import math
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from bench.balance_simulation import HOUR_S, NETWORK_BYTES_PER_S, OWN_CPU, Cluster, Vector
from danube.loadmgr.assigning import assign_topics
from danube.loadmgr.automatic import RULES, Automatic, AutomaticMemory, Obstacles, check
from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.goal import Goal
from danube.loadmgr.load import Capacity, Demand
from danube.loadmgr.planner import plan
from danube.loadmgr.score import Strategy

MODE = Automatic.BALANCED
RULE = RULES[MODE]


class Ours:
    """The automatic mode `balanced` with our planner."""

    name = "ours"

    def __init__(self) -> None:
        self._memory = AutomaticMemory()

    def place(self, cluster: Cluster, topics: Sequence[int]) -> list[tuple[int, int]]:
        """By `assign_topics`."""
        if not topics:
            return []
        orphans = set(topics)
        staying = [one for number, one in enumerate(_topics(cluster, frozenset())) if number not in orphans]
        state = ClusterState(_places(cluster), staying, Strategy.BALANCED)
        wanted = [_topic(cluster, number, "") for number in topics]
        found = assign_topics(state, wanted, seed=1)
        return [(int(name.removeprefix("/default/")), target) for name, target in found.items()]

    def moves(self, cluster: Cluster) -> list[tuple[int, int]]:
        """Of a plan, when the rule says that it is time."""
        now_ms = cluster.now_s * 1_000
        decision = check(RULE, self._memory, cluster.cv(), Obstacles(), now_ms)
        self._memory = decision.memory
        if not decision.moves_max:
            return []
        topics = _topics(cluster, self._memory.muted(RULE, now_ms))
        found = plan(_places(cluster), topics, Goal(target_cv=RULE.target_cv, moves_max=decision.moves_max))
        self._memory = self._memory.moved(tuple(move.topic for move in found.moves), now_ms)
        return [(int(move.topic.removeprefix("/default/")), move.target) for move in found.moves]


def _places(cluster: Cluster) -> list[Place]:
    return [
        Place(broker_id=number, capacity=Capacity(cores=float(cores)), own=(OWN_CPU, 0.0, 0.0, 0.0))
        for number, cores in enumerate(cluster.capacity)
        if cluster.alive[number]
    ]


def _topics(cluster: Cluster, muted: frozenset[str]) -> list[PlacedTopic]:
    stays = {int(name.removeprefix("/default/")) for name in muted}
    return [_topic(cluster, number, "muted" if number in stays else "") for number in range(len(cluster.cores))]


def _topic(cluster: Cluster, number: int, stays: str) -> PlacedTopic:
    demand = Demand(
        topic=f"/default/{number}",
        cores=float(cluster.cores[number]),
        bytes_per_s=float(cluster.bytes_per_s[number]),
        clients=int(cluster.clients[number]),
    )
    return PlacedTopic(demand=demand, broker_id=int(cluster.broker_of[number]), stays=stays)


class _Limited:
    """A policy that moves at most so many topics an hour as ours."""

    def __init__(self) -> None:
        self._moved_s: deque[int] = deque()

    def _left(self, now_s: int) -> int:
        while self._moved_s and now_s - self._moved_s[0] >= HOUR_S:
            self._moved_s.popleft()
        return RULE.moves_per_hour - len(self._moved_s)

    def place(self, cluster: Cluster, topics: Sequence[int]) -> list[tuple[int, int]]:
        """Each topic on the broker that scores least at that moment."""
        found: list[tuple[int, int]] = []
        scores = np.where(cluster.alive, cluster.scores(), math.inf)
        for topic in topics:
            target = int(np.argmin(scores))
            scores[target] += 100 * cluster.cores[topic] / cluster.capacity[target]
            found.append((topic, target))
        return found


class Original(_Limited):
    """The original broker: one topic a check, the lightest, from an overloaded broker to the least loaded one."""

    name = "original"

    def __init__(self) -> None:
        super().__init__()
        self._moved_at_s: dict[int, int] = {}
        self._next = 0

    def place(self, cluster: Cluster, topics: Sequence[int]) -> list[tuple[int, int]]:
        """In turn on brokers near the lowest score, which counts no load of what was placed before it."""
        scores = np.where(cluster.alive, self._scores(cluster), 10**9)
        lowest = int(scores.min())
        near = np.flatnonzero(scores <= (lowest if lowest < 10 else lowest + max(1, lowest // 10)))
        found = []
        for topic in topics:
            self._next += 1
            found.append((topic, int(near[self._next % len(near)])))
        return found

    def moves(self, cluster: Cluster) -> list[tuple[int, int]]:
        """At most one."""
        scores = self._scores(cluster)[cluster.alive].astype(float)
        mean, sigma = scores.mean(), scores.std()
        cv = sigma / mean if mean else 0.0
        if cv < RULE.threshold_cv or self._left(cluster.now_s) <= 0:
            return []
        ids, spread = np.flatnonzero(cluster.alive), max(sigma, 0.2 * mean, 2.0)
        margin = (0.5 if cv > 0.3 else 1.0) * spread
        sources = ids[scores > mean + margin]
        if not len(sources) and (scores < mean - margin).any() and np.ptp(scores) > max(0.1 * mean, 2):
            sources = ids[scores > mean]
        weight = 0.5 * cluster.bytes_per_s / 1e6 + 0.3 * cluster.clients
        for source in sources:
            own = np.flatnonzero(cluster.broker_of == source)
            free = [one for one in own if cluster.now_s - self._moved_at_s.get(int(one), -HOUR_S) >= 300]
            others = [(score, each) for score, each in zip(scores, ids, strict=True) if each != source]
            if free and others:
                topic = int(min(free, key=lambda one: weight[one]))
                self._moved_at_s[topic] = cluster.now_s
                self._moved_s.append(cluster.now_s)
                return [(topic, int(min(others)[1]))]
        return []

    def _scores(self, cluster: Cluster) -> Vector:
        """Its strategy `balanced`: 0.3 W + 0.35 CPU % + 0.35 memory % as whole numbers; memory is the same for all."""
        count = len(cluster.capacity)
        cpu = np.minimum(100, 100 * np.bincount(cluster.broker_of, cluster.cores, count) / cluster.capacity)
        composite = (
            0.2 * np.bincount(cluster.broker_of, minlength=count)
            + 0.3 * np.bincount(cluster.broker_of, cluster.bytes_per_s / 1e6, count)
            + 0.3 * np.bincount(cluster.broker_of, cluster.clients, count)
        )
        return (0.3 * composite + 0.35 * cpu + 0.35 * 30).astype(int)


class LeastLoaded(_Limited):
    """Greedy: while the CV is high, the heaviest topic that fits goes from the busiest to the least loaded broker."""

    name = "least-loaded greedy"

    def moves(self, cluster: Cluster) -> list[tuple[int, int]]:
        """As many as the hour allows."""
        found: list[tuple[int, int]] = []
        at = cluster.broker_of.copy()
        scores = cluster.scores()
        while self._left(cluster.now_s) > 0 and _cv(scores[cluster.alive]) >= RULE.threshold_cv:
            source = int(np.argmax(np.where(cluster.alive, scores, -1.0)))
            target = int(np.argmin(np.where(cluster.alive, scores, math.inf)))
            own = np.flatnonzero(at == source)
            weights = 100 * cluster.cores[own] / cluster.capacity[target]
            fitting = weights < scores[source] - scores[target]
            if not fitting.any():
                break
            topic = int(own[np.argmax(np.where(fitting, weights, -1.0))])
            scores[target] += 100 * cluster.cores[topic] / cluster.capacity[target]
            scores[source] -= 100 * cluster.cores[topic] / cluster.capacity[source]
            at[topic] = target
            found.append((topic, target))
            self._moved_s.append(cluster.now_s)
        return found


class GoalOrder(_Limited):
    """Goals in order, as in Cruise Control: capacity, topics, processor, network; no goal may undo one before it."""

    name = "goals in order"

    def moves(self, cluster: Cluster) -> list[tuple[int, int]]:
        """The moves that each goal asks for, in the order of the goals."""
        count, at, found = len(cluster.capacity), cluster.broker_of.copy(), list[tuple[int, int]]()
        demands = (cluster.cores, np.ones(len(at)), cluster.cores, cluster.bytes_per_s)
        sizes = (cluster.capacity, np.ones(count), cluster.capacity, np.full(count, NETWORK_BYTES_PER_S))
        limits: list[tuple[Vector, Vector]] = []
        alive = cluster.alive
        for number, (demand, size) in enumerate(zip(demands, sizes, strict=True)):
            mean = np.bincount(at, demand, count)[alive].sum() / size[alive].sum()
            detected = np.where(number == 0, 0.7, 1.15 * mean)
            upper = np.where(number == 0, 0.7, 1.09 * mean) * size
            used = np.bincount(at, demand, count)
            if (used[alive] > (detected * size)[alive]).any():
                found += self._satisfy(cluster, at, (demand, upper), limits)
            limits.append((demand, upper))
        return found

    def _satisfy(
        self, cluster: Cluster, at: Vector, goal: tuple[Vector, Vector], limits: Sequence[tuple[Vector, Vector]]
    ) -> list[tuple[int, int]]:
        demand, upper = goal
        found: list[tuple[int, int]] = []
        used = np.bincount(at, demand, len(upper))
        for source in np.argsort(-used):
            own = np.flatnonzero(at == source)
            for topic in own[np.argsort(-demand[own])]:
                if used[source] <= upper[source] or self._left(cluster.now_s) <= 0:
                    break
                target = int(np.argmin(np.where(cluster.alive, used / upper, math.inf)))
                if not _fits(at, int(topic), target, [*limits, goal]):
                    continue
                used[source] -= demand[topic]
                used[target] += demand[topic]
                at[topic] = target
                found.append((int(topic), target))
                self._moved_s.append(cluster.now_s)
        return found


def _fits(at: Vector, topic: int, target: int, limits: Sequence[tuple[Vector, Vector]]) -> bool:
    on_target = at == target
    return all(demand[on_target].sum() + demand[topic] <= upper[target] for demand, upper in limits)


def _cv(scores: Vector) -> float:
    return float(scores.std() / scores.mean()) if len(scores) and scores.mean() else 0.0


POLICIES: tuple[Callable[[], Ours | Original | LeastLoaded | GoalOrder], ...] = (Ours, Original, LeastLoaded, GoalOrder)

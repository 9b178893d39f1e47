"""Weeks of a simulated cluster: day and night, topics that go viral, a slow broker, brokers that leave and join.

All policies see the same load, at the same times, and may move equally many topics an hour. Pure but for its seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from danube.loadmgr.score import imbalance_of
from danube.model.limits.balance import SCORE_PER_TOPIC

Vector: TypeAlias = Any
"""A numpy array: of topics or of brokers."""
CHECK_S = 300
HOUR_S, DAY_S = 3_600, 86_400
CORES, NETWORK_BYTES_PER_S = 4.0, 125e6
OWN_CPU = 0.03
MEAN_USE = 0.4
"""Mean share of all cores in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a simulation."""

    brokers: int
    topics: int
    days: float = 7.0
    seed: int = 1


@dataclass(slots=True, kw_only=True)
class Cluster:
    """State that a policy sees at a check: loads of topics, capacity of brokers, and where each topic is."""

    now_s: int
    cores: Vector
    """Demand of each topic."""
    bytes_per_s: Vector
    clients: Vector
    broker_of: Vector
    capacity: Vector
    """Cores of each broker."""
    alive: Vector

    def scores(self) -> Vector:
        """Score of each broker, by the definition of `danube.loadmgr.score`."""
        count = len(self.capacity)
        cpu = np.bincount(self.broker_of, self.cores, count) / self.capacity + OWN_CPU
        network = np.bincount(self.broker_of, self.bytes_per_s, count) / NETWORK_BYTES_PER_S
        return 100 * np.maximum(cpu, network) + SCORE_PER_TOPIC * np.bincount(self.broker_of, minlength=count)

    def cv(self) -> float:
        """Imbalance of the brokers that are there."""
        return imbalance_of([float(score) for score in self.scores()[self.alive]]).cv


class Policy(Protocol):
    """Rule that rebalances."""

    name: str

    def place(self, cluster: Cluster, topics: Sequence[int]) -> list[tuple[int, int]]:
        """Brokers of topics whose broker has left: index of the topic, index of the broker."""

    def moves(self, cluster: Cluster) -> list[tuple[int, int]]:
        """Moves at this check."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Result of one policy over the whole time."""

    name: str
    cvs: list[float] = field(default_factory=list)
    moves: int = 0
    clients: int = 0
    oscillations: int = 0
    """Moves of a topic back to a broker that it had left within the hour."""
    overloaded: int = 0
    """Checks of single brokers that found more than 90 % of the processor in use."""
    settled_s: int | None = None
    """Until the imbalance was under 0.3 for the first time."""


def simulate(size: Size, policy: Policy) -> Outcome:
    """Run the policy through the time."""
    rng = np.random.default_rng(size.seed)
    load = _Load(size, rng)
    outcome = Outcome(name=policy.name)
    broker_of = load.placed(rng)
    left: dict[tuple[int, int], int] = {}
    for now_s in range(0, round(size.days * DAY_S), CHECK_S):
        cluster = load.at(now_s, broker_of)
        orphans = np.flatnonzero(~cluster.alive[cluster.broker_of])
        for topic, target in policy.place(cluster, [int(one) for one in orphans]):
            cluster.broker_of[topic] = target
        _count(outcome, cluster)
        for topic, target in policy.moves(cluster):
            source = int(cluster.broker_of[topic])
            outcome.moves += 1
            outcome.clients += int(cluster.clients[topic])
            outcome.oscillations += now_s - left.get((topic, target), -DAY_S) < HOUR_S
            left[topic, source] = now_s
            cluster.broker_of[topic] = target
        broker_of = cluster.broker_of
    return outcome


def _count(outcome: Outcome, cluster: Cluster) -> None:
    cv = cluster.cv()
    outcome.cvs.append(cv)
    cpu = np.bincount(cluster.broker_of, cluster.cores, len(cluster.capacity)) / cluster.capacity
    outcome.overloaded += int(np.sum(cpu[cluster.alive] > 0.9))
    if cv < 0.3 and outcome.settled_s is None:
        outcome.settled_s = cluster.now_s


class _Load:
    """Load of each topic at each time."""

    def __init__(self, size: Size, rng: np.random.Generator) -> None:
        self._size, self._noise = size, np.random.default_rng(size.seed + 1)
        raw = np.minimum(rng.lognormal(0, 1.3, size.topics), 60.0)
        self._cores = raw * MEAN_USE * CORES * size.brokers / raw.sum()
        self._bytes = self._cores * rng.lognormal(np.log(4e6), 0.5, size.topics)
        self._clients = rng.integers(1, 12, size.topics)
        self._phase = rng.normal(0, 1.5 * HOUR_S, size.topics)
        self._swing = rng.uniform(0.1, 0.7, size.topics)
        middle = np.argsort(raw)[size.topics // 2 :]
        self._viral = [(int(rng.choice(middle)), day * DAY_S + 10 * HOUR_S) for day in range(round(size.days + 0.5))]

    def placed(self, rng: np.random.Generator) -> Vector:
        """Equally many topics on each broker, the busy ones together more often than not; one broker joins later."""
        order = np.argsort(np.log(self._cores) + rng.normal(0, 2.5, self._size.topics))
        broker_of = np.empty(self._size.topics, dtype=int)
        broker_of[order] = np.arange(self._size.topics) * (self._size.brokers - 1) // self._size.topics
        return broker_of

    def at(self, now_s: int, broker_of: Vector) -> Cluster:
        """The cluster at this time."""
        size = self._size
        day = 1 + self._swing * np.sin(2 * np.pi * (now_s - self._phase) / DAY_S)
        factor = day * self._noise.lognormal(0, 0.08, size.topics)
        for topic, start_s in self._viral:
            if 0 <= now_s - start_s < 5 * HOUR_S:
                factor[topic] *= min(0.5 * CORES / self._cores[topic], 1 + 30 * min(1.0, (now_s - start_s) / HOUR_S))
        capacity, alive = np.full(size.brokers, CORES), np.ones(size.brokers, dtype=bool)
        if 3 * DAY_S <= now_s < 3.5 * DAY_S:
            capacity[1] = CORES / 2
        alive[2] = not 1.5 * DAY_S <= now_s < 1.75 * DAY_S
        alive[size.brokers - 1] = now_s >= 5 * DAY_S
        return Cluster(
            now_s=now_s,
            cores=self._cores * factor,
            bytes_per_s=self._bytes * factor,
            clients=self._clients,
            broker_of=broker_of.copy(),
            capacity=capacity,
            alive=alive,
        )

"""The plan of a soak, which follows from seeds: topics, producers, subscriptions, and faults of a round. Pure."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from danube.model.limits.broker import SWEEP_INTERVAL_S
from lab.kernel.chance import seeded

CONFIRMED_S = 2.0
"""A broker that dies may forget acknowledgements of its last moments: cursors are durable 0.2 s after they moved, and
a busy machine takes its time. What was confirmed earlier than this must not come again."""
REPORTED_S = 1.0  # until a program has written down what it was told
GAP_S = (0.6, 2.2)  # between two faults
LONG_GAP_S = (SWEEP_INTERVAL_S, SWEEP_INTERVAL_S + 1.5)
"""The same before the last fault of one round in `LONG_ROUNDS`: a broker looks at retention for the first time then."""
LONG_ROUNDS = 4
PAUSE_S = (0.3, 2.5)
STARTUP_S = (0.05, 0.6)
UNDER_LOAD = 0.7  # so many of the faults wait for all clients
FAULTS_MAX = 3  # in a round; two at least


@dataclass(frozen=True, slots=True)
class LoadedProducer:
    """One producer; its name differs with every round."""

    name: str
    kind: str
    """single: one message after the other. keyed: the same, with keys. many: batches, de-duplicated."""


@dataclass(frozen=True, slots=True)
class LoadedSubscription:
    """One subscription."""

    name: str
    kind: str  # the name of its `SubType`
    consumers: int


@dataclass(frozen=True, slots=True)
class LoadedTopic:
    """One topic, and who is attached to it during a round."""

    topic: str
    producers: tuple[LoadedProducer, ...]
    subscriptions: tuple[LoadedSubscription, ...]

    def as_plan(self) -> dict[str, object]:
        """As `soak_load` takes it."""
        return asdict(self)


_EXCLUSIVE = LoadedSubscription("exclusive", "EXCLUSIVE", 1)
_FAILOVER = LoadedSubscription("failover", "FAILOVER", 2)
_SHARED = LoadedSubscription("shared", "SHARED", 3)
_KEY_SHARED = LoadedSubscription("key-shared", "KEY_SHARED", 2)


def our_topics(round_number: int) -> tuple[LoadedTopic, ...]:
    """The topics that our client works on in a round."""
    return (
        _topic(round_number, "soak-single", ("single", "single", "single"), (_EXCLUSIVE, _SHARED)),
        _topic(round_number, "soak-many", ("many", "many"), (_FAILOVER, _SHARED)),
        _topic(round_number, "soak-keyed", ("keyed", "keyed"), (_KEY_SHARED, _EXCLUSIVE)),
    )


def published_topics(round_number: int) -> tuple[LoadedTopic, ...]:
    """The topics that the published client works on in a round."""
    subscriptions = (_EXCLUSIVE, _FAILOVER, _SHARED, _KEY_SHARED)
    return (_topic(round_number, "soak-published", ("single", "keyed", "keyed"), subscriptions),)


def _topic(
    round_number: int, name: str, kinds: Sequence[str], subscriptions: tuple[LoadedSubscription, ...]
) -> LoadedTopic:
    producers = tuple(LoadedProducer(f"{name}-{kind}-{i}-r{round_number}", kind) for i, kind in enumerate(kinds))
    return LoadedTopic(f"/default/{name}", producers, subscriptions)


def kind_of(producer: str) -> str:
    """The kind of the producer with this name."""
    return next((kind for kind in ("keyed", "many", "single") if f"-{kind}-" in producer), "")


class FaultKind(StrEnum):
    """A kind of fault of a broker."""

    KILL = "kill"  # `kill -9`
    KILL_TWICE = "kill, and again in the start-up"
    KILL_PAUSED = "kill while paused"
    PAUSE = "pause"  # SIGSTOP, later SIGCONT
    TERMINATE = "terminate"  # SIGTERM


_LAST = (FaultKind.KILL, FaultKind.KILL, FaultKind.KILL_TWICE, FaultKind.KILL_PAUSED, FaultKind.TERMINATE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One of them."""

    kind: FaultKind
    after_s: float  # since the broker served last
    for_s: float = 0.0  # a pause, or a start-up before it is killed
    under_load: bool = True  # not before all clients are back; otherwise it may hit them while they come back

    def __str__(self) -> str:
        return f"{self.kind} ({self.for_s:.1f} s)" if self.kind is FaultKind.PAUSE else str(self.kind)


def faults(seed: int) -> list[Fault]:
    """The faults of a round; behind the last one the broker is dead."""
    rng = seeded(seed)
    between = [_fault(rng, rng.choice(list(FaultKind))) for _ in range(rng.randrange(1, FAULTS_MAX))]
    last = _fault(rng, rng.choice(_LAST))
    if seed % LONG_ROUNDS == 0:
        last = replace(last, after_s=rng.uniform(*LONG_GAP_S))
    return [*between, last]


def _fault(rng: random.Random, kind: FaultKind) -> Fault:
    after_s, under_load = rng.uniform(*GAP_S), rng.random() < UNDER_LOAD
    if kind is FaultKind.KILL_TWICE:
        return Fault(kind, after_s, rng.uniform(*STARTUP_S), under_load)
    if kind in {FaultKind.PAUSE, FaultKind.KILL_PAUSED}:
        return Fault(kind, after_s, rng.uniform(*PAUSE_S), under_load)
    return Fault(kind, after_s, under_load=under_load)

"""Kinds of scenarios: incidents with their cause, and courses that look like one and are none. Pure, by seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from danube.model.lag.alerts import IncidentCause
from danube.model.records.telemetry import Reading, Stamp
from spark_analytics.incidents.queue_model import STEP_S, WINDOW, SimulatedSubscription, Step

START_MS = 1_750_000_000_000
STEPS = 720
"""An hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The truth about one incident."""

    cause: IncidentCause
    began_ms: int
    ended_ms: int
    """The lag is young again."""


@dataclass(slots=True, kw_only=True)
class Scenario:
    """One course: its records, and the incidents in it."""

    kind: str
    seed: int
    records: list[tuple[Stamp, Reading]] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    true_lag_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """By topic and time."""
    end_ms: int = START_MS + STEPS * STEP_S * 1_000


@dataclass(frozen=True, slots=True)
class Course:
    """Numbers of one scenario: usual rates, and the time of the fault in steps."""

    chance: Random
    arrival: float
    capacity: float
    first: int
    last: int

    @classmethod
    def of(cls, chance: Random) -> "Course":
        """Drawn by chance."""
        arrival = chance.lognormvariate(3.5, 1.0)
        first = chance.randint(200, 300)
        return cls(chance, arrival, arrival * chance.uniform(1.6, 3.0), first, first + chance.randint(80, 180))

    def usual(self) -> Step:
        """A step without fault."""
        return Step(arrival=self.arrival, capacity=self.capacity)

    def has(self, number: int) -> bool:
        """True for steps of the fault."""
        return self.first <= number < self.last


Play = Callable[[Course, SimulatedSubscription, int], Step]
"""Conditions of a step; may act on the subscription."""


def _consumer_gone(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), consumers=0) if course.has(number) else course.usual()


def _consumer_slow(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    share = 0.3 + 0.5 * (course.first % 10) / 10
    return replace(course.usual(), capacity=course.arrival * share) if course.has(number) else course.usual()


def _producer_burst(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), arrival=course.capacity * 2.5) if course.has(number) else course.usual()


def _redelivery_storm(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    if not course.has(number):
        return course.usual()
    done = course.arrival * 0.2
    return replace(course.usual(), capacity=done, returned=round(done * STEP_S * 2) + 3)


def _poison_message(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    if not course.has(number):
        return course.usual()
    if course.first % 2:  # shared: later messages pass
        return replace(course.usual(), passes=True, returned=1 + number % 2)
    return replace(course.usual(), capacity=0.0, returned=1 + number % 3)


def _consumer_stuck(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), capacity=0.0, in_flight=WINDOW) if course.has(number) else course.usual()


def _not_sent(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), capacity=0.0, in_flight=0) if course.has(number) else course.usual()


def _throttled(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), capacity=course.arrival * 0.5, in_flight=0) if course.has(number) else course.usual()


def _rebalance(course: Course, sub: SimulatedSubscription, number: int) -> Step:
    """The topic moves; its consumers find it late."""
    away = 30 + course.first % 12
    if number == course.first:
        return replace(course.usual(), consumers=0, gone=True)
    if number == course.first + 1:
        sub.restart("2")
    if course.first < number <= course.first + away:
        return replace(course.usual(), consumers=0)
    return course.usual()


def _broker_down(course: Course, sub: SimulatedSubscription, number: int) -> Step:
    if number == course.last:
        sub.restart()
    return replace(course.usual(), silent=True) if course.has(number) else course.usual()


def _rewound(course: Course, sub: SimulatedSubscription, number: int) -> Step:
    if number == course.first:
        sub.seek(sub.position - round(course.arrival * STEP_S * 120))
    slow = replace(course.usual(), capacity=course.arrival * 1.05)
    return slow if course.has(number) else course.usual()


def _blocked(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), capacity=0.0, blocked=1 + course.first % 4) if course.has(number) else course.usual()


def _data_loss(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    """Retention passes a consumer that is too slow."""
    keep = round(course.arrival * STEP_S * 50)
    step = replace(course.usual(), keep=keep)
    return replace(step, capacity=course.arrival * 0.1) if course.has(number) else step


def _slow_leak(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), capacity=course.arrival * 0.85) if course.has(number) else course.usual()


INCIDENTS: Mapping[str, tuple[IncidentCause, Play]] = {
    "consumer gone": (IncidentCause.CONSUMER_GONE, _consumer_gone),
    "consumer slow": (IncidentCause.CONSUMER_SLOW, _consumer_slow),
    "producer burst": (IncidentCause.PRODUCER_BURST, _producer_burst),
    "redelivery storm": (IncidentCause.REDELIVERY_STORM, _redelivery_storm),
    "poison message": (IncidentCause.POISON_MESSAGE, _poison_message),
    "consumer stuck": (IncidentCause.CONSUMER_STUCK, _consumer_stuck),
    "consumer receives nothing": (IncidentCause.NOT_SENT, _not_sent),
    "throttled": (IncidentCause.THROTTLED, _throttled),
    "rebalance": (IncidentCause.REBALANCE, _rebalance),
    "broker down": (IncidentCause.BROKER_DOWN, _broker_down),
    "rewound": (IncidentCause.REWOUND, _rewound),
    "blocked": (IncidentCause.BLOCKED, _blocked),
    "data loss": (IncidentCause.DATA_LOSS, _data_loss),
    "slow leak": (IncidentCause.CONSUMER_SLOW, _slow_leak),
    "one slow partition": (IncidentCause.CONSUMER_SLOW, _consumer_slow),
}
"""Kinds of incidents, each with the cause that should be named."""


def _steady(course: Course, _sub: SimulatedSubscription, _number: int) -> Step:
    return course.usual()


def _idle(_course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    """A message now and then, acknowledged after a few seconds."""
    return Step(arrival=0.4 if number % 40 == 0 else 0.0, capacity=1.0 if number % 40 in {3, 4} else 0.0)


def _batch_producer(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), arrival=course.capacity * 4 if number % 120 < 2 else 0.0)


def _periodic_consumer(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    """It attaches every five minutes, reads everything, and leaves."""
    reads = number % 60 < 8
    return Step(arrival=course.arrival, capacity=course.capacity * 12 if reads else 0.0, consumers=int(reads))


def _deploy(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    return replace(course.usual(), consumers=0) if course.first <= number < course.first + 7 else course.usual()


def _broker_restart(course: Course, sub: SimulatedSubscription, number: int) -> Step:
    if number == course.first + 6:
        sub.restart()
    return replace(course.usual(), silent=True) if course.first <= number < course.first + 6 else course.usual()


def _young_lag(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    """A few seconds of messages always wait."""
    return replace(course.usual(), capacity=0.0 if number < 1 else course.arrival)


def _noisy(course: Course, _sub: SimulatedSubscription, _number: int) -> Step:
    return replace(course.usual(), arrival=course.arrival * course.chance.lognormvariate(-0.3, 0.8))


def _short_burst(course: Course, _sub: SimulatedSubscription, number: int) -> Step:
    """High for half a minute, and read soon."""
    return (
        replace(course.usual(), arrival=course.capacity * 2)
        if course.first <= number < course.first + 6
        else course.usual()
    )


def _clock_step(course: Course, sub: SimulatedSubscription, number: int) -> Step:
    if number == course.first:
        sub.clock_ms = course.chance.choice([-90_000, -20_000, 20_000, 90_000])
    return course.usual()


def _recreated(course: Course, sub: SimulatedSubscription, number: int) -> Step:
    if number == course.first:
        sub.recreate()
    return course.usual()


BENIGN: Mapping[str, Play] = {
    "steady": _steady,
    "idle": _idle,
    "batch producer": _batch_producer,
    "periodic consumer": _periodic_consumer,
    "deploy": _deploy,
    "broker restart": _broker_restart,
    "young lag": _young_lag,
    "noisy": _noisy,
    "short burst": _short_burst,
    "clock step": _clock_step,
    "topic made anew": _recreated,
}
"""Courses without an incident."""


def scenario(kind: str, seed: int) -> Scenario:
    """The scenario of a kind and a seed."""
    chance = Random(f"{kind} {seed}")  # noqa: S311 - a scenario is no secret
    course = Course.of(chance)
    partitions = 4 if kind == "one slow partition" else 1
    found = Scenario(kind=kind, seed=seed)
    lags: dict[tuple[str, int], float] = {}
    for number in range(partitions):
        topic = f"/default/orders-part-{number}" if partitions > 1 else "/default/orders"
        sub = SimulatedSubscription(topic=topic, subscription="billing", chance=chance, now_ms=START_MS)
        play = BENIGN.get(kind) or (INCIDENTS[kind][1] if number == 0 else _steady)
        for step in range(STEPS):
            sub.step(play(course, sub, step))
        found.records += sub.records
        lags |= {(topic, at_ms): lag_s for at_ms, lag_s in sub.true_lag_s.items()}
        if kind in INCIDENTS and number == 0:
            found.labels = [_label(INCIDENTS[kind][0], course, sub)]
    found.true_lag_s = lags
    return found


def _label(cause: IncidentCause, course: Course, sub: SimulatedSubscription) -> Label:
    """From the fault until the lag is young again."""
    began_ms = START_MS + course.first * STEP_S * 1_000
    times: Sequence[int] = sorted(at_ms for at_ms in sub.true_lag_s if at_ms > began_ms)
    old = [at_ms for at_ms in times if sub.true_lag_s[at_ms] >= 10.0]
    fault_ms = START_MS + (course.last if cause is not IncidentCause.REBALANCE else course.first) * STEP_S * 1_000
    return Label(cause=cause, began_ms=began_ms, ended_ms=max([fault_ms, *old[-1:]]))

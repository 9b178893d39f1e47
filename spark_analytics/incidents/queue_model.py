"""A simulated subscription: messages arrive, consumers acknowledge, a broker publishes telemetry of real shape. Pure.

One step is the interval of telemetry, five seconds. The model keeps the append time of every stretch of offsets, so the
age of the oldest unread message is known exactly.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from random import Random

from danube.model.records.telemetry import Reading, Stamp, SubscriptionReading

STEP_S = 5
WINDOW = 64
"""Messages in flight that a busy consumer has."""


@dataclass(slots=True, kw_only=True)
class Step:
    """Conditions of one step."""

    arrival: float
    """Messages a second."""
    capacity: float
    """Messages a second that consumers can acknowledge."""
    consumers: int = 2
    in_flight: int | None = None
    """None is as a healthy consumer has it."""
    returned: int = 0
    """Messages that come back in this step."""
    passes: bool = False
    """Later messages are acknowledged while the position stands still."""
    waiting: int = 0
    blocked: int = 0
    silent: bool = False
    """The broker publishes nothing, and serves nothing."""
    gone: bool = False
    keep: int | None = None
    """Messages that retention keeps."""


@dataclass(slots=True, kw_only=True)
class SimulatedSubscription:
    """State of one subscription of one topic."""

    topic: str
    subscription: str
    chance: Random
    now_ms: int
    broker_id: str = "1"
    start: int = 0
    """Starts of the broker so far."""
    clock_ms: int = 0
    """Error of the broker's clock."""
    topic_id: int = 7
    head: int = 0
    position: int = 0
    beyond: int = 0
    start_offset: int = 0
    returned: int = 0
    sequence: int = 0
    messages_out: int = 0
    appended: list[int] = field(default_factory=list)
    """First offset of each stretch, and below its append time."""
    appended_ms: list[int] = field(default_factory=list)
    records: list[tuple[Stamp, Reading]] = field(default_factory=list)
    true_lag_s: dict[int, float] = field(default_factory=dict)
    """By time."""

    def step(self, step: Step) -> None:
        """Five seconds more."""
        self.now_ms += STEP_S * 1_000
        if not step.silent:
            self._append(step)
            self._consume(step)
        if step.keep is not None:
            self.start_offset = max(self.start_offset, self.head - step.keep)
        self.true_lag_s[self.now_ms] = self._lag_s()
        if not step.silent:
            self._publish(step)

    def restart(self, broker_id: str | None = None) -> None:
        """The broker starts again, or another one serves the topic."""
        self.broker_id, self.start, self.sequence = broker_id or self.broker_id, self.start + 1, 0
        self.returned = self.messages_out = 0

    def seek(self, position: int) -> None:
        """The position goes back."""
        self.position, self.beyond = max(self.start_offset, position), 0

    def recreate(self) -> None:
        """The topic is deleted, and made anew under its name."""
        self.topic_id += 1
        self.head = self.position = self.beyond = self.start_offset = 0
        self.appended, self.appended_ms = [], []

    def _append(self, step: Step) -> None:
        mean = step.arrival * STEP_S
        count = max(0, round(self.chance.gauss(mean, mean**0.5))) if mean else 0
        parts = min(count, STEP_S)
        for part in range(parts):
            self.appended.append(self.head)
            self.appended_ms.append(self.now_ms - (STEP_S * 1_000 * (parts - part)) // parts + 200)
            self.head += count // parts + (1 if part < count % parts else 0)

    def _consume(self, step: Step) -> None:
        if not step.consumers:
            return
        waits = self.head - self.position - self.beyond
        done = min(waits, round(step.capacity * STEP_S * self.chance.uniform(0.97, 1.03)))
        if step.passes:
            self.beyond += max(0, min(done, waits - 1))
        else:
            self.position += done + self.beyond
            self.beyond = 0
        self.returned += step.returned
        self.messages_out += done + step.returned

    def _lag(self) -> int:
        return self.head - self.position - self.beyond

    def _oldest_ms(self) -> int | None:
        at = max(self.position, self.start_offset)
        if at >= self.head or not self._lag():
            return None
        return self.appended_ms[bisect_right(self.appended, at) - 1]

    def _lag_s(self) -> float:
        oldest_ms = self._oldest_ms()
        return 0.0 if oldest_ms is None else (self.now_ms - oldest_ms) / 1_000

    def _publish(self, step: Step) -> None:
        lag, oldest_ms = self._lag(), self._oldest_ms()
        flight = min(lag, WINDOW) if step.in_flight is None else step.in_flight
        stamp = Stamp(
            broker_id=self.broker_id,
            start_id=f"{self.broker_id}-{self.start}",
            sequence=self.sequence,
            at_ms=self.now_ms + self.clock_ms,
            full=self.sequence % 12 == 0,
            gone=step.gone,
        )
        self.sequence += 1
        reading = SubscriptionReading(
            topic=self.topic,
            topic_id=str(self.topic_id),
            subscription=self.subscription,
            subscription_id="70",
            type="shared",
            consumers=step.consumers,
            consumers_known=step.consumers,
            messages_out=self.messages_out,
            start_offset=self.start_offset,
            head=self.head,
            position=self.position,
            acknowledged_beyond=self.beyond,
            lag_messages=lag,
            in_flight=flight if step.consumers else 0,
            waiting=step.waiting,
            ready=0,
            redelivered=self.returned,
            nacked=self.returned,
            oldest_unread_append_ms=None if oldest_ms is None else oldest_ms + self.clock_ms,
            head_append_ms=self.appended_ms[-1] + self.clock_ms if self.appended_ms else None,
            blocked=step.blocked,
        )
        self.records.append((stamp, reading))

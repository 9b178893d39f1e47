"""Pacing: the dispatch rate of a subscription. Its streams have no room while it is above the rate.

Nothing is queued here, so nothing is lost and the order holds; redeliveries count too. The rate is read for each
message, so a change applies to open streams at once.
"""

from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

from danube.broker.policy.throttle import TokenBucket
from danube.broker.topics.subscription import Subscription
from danube.broker.topics.topic import AnyTopic
from danube.model.errors import DanubeError
from danube.rpc.carrier import Caller, ServerStream
from danube.runtime.clock import Clock, TimerHandle


class Pace:
    """The dispatch rate of one subscription, shared by all its streams."""

    def __init__(self, topic: AnyTopic, clock: Clock) -> None:
        self.topic = topic
        self.clock = clock
        self._bucket: TokenBucket | None = None
        self._rate = 0

    def bucket(self) -> TokenBucket:
        """For the rate of now, which is one."""
        rate = self.topic.dispatch_rate
        if self._bucket is None or rate != self._rate:
            self._bucket, self._rate = TokenBucket(rate, self.clock.monotonic_s()), rate
        return self._bucket


class Paces:
    """The paces of this broker's subscriptions, as long as these are there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paces: WeakKeyDictionary[Subscription, Pace] = WeakKeyDictionary()

    def of(self, topic: AnyTopic, subscription: Subscription) -> Pace:
        """The pace of a subscription of this topic."""
        pace = self._paces.get(subscription)
        if pace is None:
            pace = self._paces[subscription] = Pace(topic, self._clock)
        return pace


class PacedStream:
    """A consumer's stream that has room only while its subscription may send.

    Without a rate it costs no more than asking for room, which every writer does before it writes.
    """

    __slots__ = (
        *("_pace", "_ready", "_stream", "_topic", "_wake"),
        *("open", "pause_reading", "resume_reading", "write"),
    )

    def __init__(self, stream: ServerStream, pace: Pace, ready: Callable[[], None]) -> None:
        """`ready` is called when there is room again because time has passed. It must not hold this stream: what is
        queued on it goes with it, and does not wait for the garbage collector.
        """
        self._stream = stream
        self._topic = pace.topic
        self._pace = pace
        self._ready = ready
        self._wake: TimerHandle | None = None
        self.write = stream.write
        """As the stream's own; with a rate, each message counts."""
        self.open = stream.open
        self.pause_reading = stream.pause_reading
        self.resume_reading = stream.resume_reading

    @property
    def caller(self) -> Caller:
        return self._stream.caller

    @property
    def room(self) -> int:
        if self._topic.dispatch_rate:
            self.write = partial(_write_counted, self._stream, self._pace)
            if self._must_wait():
                return 0
        return self._stream.room

    @property
    def is_left(self) -> bool:
        return self._stream.is_left

    @property
    def messages_max(self) -> int | None:
        """Messages that may be written now, one at least; None is any number."""
        if not self._topic.dispatch_rate:
            return None
        return max(1, int(self._pace.bucket().available(self._pace.clock.monotonic_s())))

    @property
    def unpaced_room(self) -> int:
        """Room for answers without messages: a rate of messages delays none of these."""
        return self._stream.room

    def write_batch(self, answer: bytes, messages: int) -> None:
        """Write an answer that has so many messages, and count them; the next one waits the longer."""
        if messages and self._topic.dispatch_rate:
            self._pace.bucket().use(messages, self._pace.clock.monotonic_s())
        self._stream.write(answer)

    def finish(self) -> None:
        self.cancel()
        self._stream.finish()

    def fail(self, error: DanubeError) -> None:
        self.cancel()
        self._stream.fail(error)

    def cancel(self) -> None:
        """The stream is over: nothing is waited for any more."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _must_wait(self) -> bool:
        clock = self._pace.clock
        now_s = clock.monotonic_s()
        wait_s = self._pace.bucket().wait_s(now_s)
        if wait_s and self._wake is None:
            self._wake = clock.call_at(now_s + wait_s, self._woken)
        return wait_s > 0

    def _woken(self) -> None:
        self._wake = None
        self._ready()


def _write_counted(stream: ServerStream, pace: Pace, message: bytes) -> None:
    if pace.topic.dispatch_rate:
        pace.bucket().use(1, pace.clock.monotonic_s())
    stream.write(message)

"""Pacing: the dispatch rate of a subscription. Its streams have no room while it is above the rate.

Nothing is queued here, so nothing is lost and the order holds; redeliveries count too. The rate is read for each
message, so a change applies to open streams at once.
"""

from collections.abc import Callable
from functools import partial

from danube.broker.rates.rates import RatedStream
from danube.broker.subscriptions.subscription import Subscription
from danube.broker.topics.topic import AnyTopic
from danube.rpc.carrier import ServerStream
from danube.runtime.clock import Clock


class PacedStream(RatedStream):
    """A consumer's stream that has room only while its subscription may send: all its streams share one rate.

    Without a rate it costs no more than asking for room, which every writer does before it writes.
    """

    __slots__ = ("_subscription", "_topic", "write")

    def __init__(
        self, stream: ServerStream, topic: AnyTopic, subscription: Subscription, clock: Clock, ready: Callable[[], None]
    ) -> None:
        """`ready` as `on_room`."""
        super().__init__(stream, clock, ready)
        self._topic = topic
        self._subscription = subscription
        self.write = stream.write
        """As the stream's own; with a rate, each message counts."""

    @property
    def room(self) -> int:
        if not (rate := self._topic.dispatch_rate):
            return self._stream.room
        self.write = partial(_write_counted, self._stream, self._topic, self._subscription, self.clock)
        now_s = self.clock.monotonic_s()
        return self.room_after(self._subscription.pace(rate, now_s).wait_s(now_s), now_s)

    @property
    def messages_max(self) -> int | None:
        """Messages that may be written now, one at least; None is any number."""
        if not (rate := self._topic.dispatch_rate):
            return None
        now_s = self.clock.monotonic_s()
        return max(1, int(self._subscription.pace(rate, now_s).available(now_s)))

    @property
    def unpaced_room(self) -> int:
        """Room for answers without messages: a rate of messages delays none of these."""
        return self._stream.room

    def write_batch(self, answer: bytes, messages: int) -> None:
        """Write an answer that has so many messages, and count them; the next one waits the longer."""
        if messages and (rate := self._topic.dispatch_rate):
            now_s = self.clock.monotonic_s()
            self._subscription.pace(rate, now_s).use(messages, now_s)
        self._stream.write(answer)


def _write_counted(
    stream: ServerStream, topic: AnyTopic, subscription: Subscription, clock: Clock, message: bytes
) -> None:
    now_s = clock.monotonic_s()
    subscription.pace(topic.dispatch_rate, now_s).use(1, now_s)
    stream.write(message)

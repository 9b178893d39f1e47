"""Dispatch as metrics and administrators see it."""

from heapq import nsmallest
from operator import attrgetter

from danube.broker.dispatch.attached import AttachedConsumer, ConsumerView
from danube.broker.dispatch.exhausted import ExhaustedDeliveries
from danube.broker.dispatch.flow import Flow
from danube.broker.dispatch.in_flight import Deliveries, DeliveryState
from danube.broker.dispatch.progress import PassedOver, Progress
from danube.model.limits.broker import TELEMETRY_SILENT_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange


class DispatchView:
    """Reads the state of an engine, which is in these."""

    _progress: Progress
    _flow: Flow
    _deliveries: Deliveries
    _exhausted: ExhaustedDeliveries
    _consumers: dict[int, AttachedConsumer]
    _counted_from: int
    """Messages that were acknowledged, or passed over by a seek, and that nobody acknowledged since it began."""
    passed_over: PassedOver

    @property
    def cursor(self) -> Cursor:
        """The cursor to save."""
        return self._progress.cursor

    @property
    def position(self) -> int:
        """Everything below it is acknowledged; the cursor's, at less cost."""
        return self._progress.position

    @property
    def next_offset(self) -> int:
        """The lowest offset that was not taken up yet."""
        return self._progress.next_offset

    @property
    def durable_end(self) -> int:
        """The offset after the last message that may be sent."""
        return self._progress.durable_end

    @property
    def lag(self) -> int:
        """Durable messages that are not acknowledged."""
        return self._progress.lag

    @property
    def acknowledged(self) -> int:
        """Messages that consumers acknowledged since the engine began."""
        done = self._progress.durable_end - self._progress.lag - self._counted_from
        return done - self.passed_over.total - self._flow.unclaimed

    @property
    def worst_failure(self) -> FailedRange | None:
        """The lowest open messages that failed most often; costs O(ranges)."""
        return self._progress.failed.worst

    @property
    def most_silent(self) -> list[AttachedConsumer]:
        """The few consumers that owe an answer for the longest time, in order; costs O(consumers)."""
        owing = (each for each in self._consumers.values() if each.owes or each.in_flight)
        return nsmallest(TELEMETRY_SILENT_MAX, owing, key=attrgetter("sign_s"))

    @property
    def in_flight(self) -> int:
        """Messages sent and not yet answered; costs O(consumers)."""
        return sum(consumer.in_flight for consumer in self._consumers.values())

    @property
    def waiting(self) -> int:
        """Messages in back-off; costs O(ranges)."""
        return self._deliveries.messages(DeliveryState.WAITING)

    @property
    def ready(self) -> int:
        """Messages to be sent as soon as a consumer has room and their key allows; costs O(ranges)."""
        return self._deliveries.messages(DeliveryState.READY)

    @property
    def blocked(self) -> list[OffsetRange]:
        """Messages that wait for an operator."""
        return list(self._exhausted.blocked)

    @property
    def is_blocked(self) -> bool:
        """Tell whether any message waits for an operator."""
        return self._exhausted.has_any and bool(self._exhausted.blocked)

    @property
    def blocked_messages(self) -> int:
        """The number of messages that wait for an operator; costs O(ranges)."""
        return self._exhausted.blocked.count()

    @property
    def dead_letters(self) -> int:
        """Messages that are to be copied to the dead letter topic; costs O(ranges)."""
        return self._exhausted.dead_letters

    @property
    def unclaimed(self) -> int:
        """Messages passed over because no consumer takes their key, since the engine began."""
        return self._flow.unclaimed

    @property
    def consumers(self) -> tuple[ConsumerView, ...]:
        """The attached consumers, as they came."""
        return tuple(
            ConsumerView(each.consumer_id, each.window, each.in_flight, each.is_paused)
            for each in self._consumers.values()
        )

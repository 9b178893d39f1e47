"""Messages in the order of their offsets: what is ready goes before what is new, lowest first."""

from collections.abc import Iterator

from danube.broker.dispatch.attached import AttachedConsumer
from danube.broker.dispatch.events import Instruction, Send
from danube.broker.dispatch.flow import Flow
from danube.broker.dispatch.in_flight import Deliveries
from danube.broker.dispatch.progress import Progress
from danube.broker.dispatch.selection.selection import SELECTIONS, BatchEnd
from danube.model.limits.broker import REDELIVERY_RANGES_MAX
from danube.model.subscription import SubscriptionType


class OrderedFlow(Flow):
    """The flow of Exclusive, Failover and Shared subscriptions; keys and filters mean nothing here."""

    def __init__(self, subscription_type: SubscriptionType, progress: Progress, batch_end: BatchEnd) -> None:
        self._selection = SELECTIONS[subscription_type](batch_end)
        super().__init__(progress, Deliveries(self._selection.refresh))

    def attach(self, consumer: AttachedConsumer, filters: tuple[str, ...]) -> None:  # noqa: ARG002 - keys mean nothing
        self._selection.attach(consumer)

    def detach(self, consumer: AttachedConsumer, now_s: float) -> None:  # noqa: ARG002 - nothing is kept for it
        self._selection.detach(consumer)
        self.deliveries.release(consumer)

    def refresh(self, consumer: AttachedConsumer) -> None:
        self._selection.refresh(consumer)

    def acknowledge(self, start: int, end: int) -> None:
        """All that was taken up was sent, but for what was taken back."""
        if self.deliveries.has_unsent:
            super().acknowledge(start, end)
        else:
            self.finish(start, end)

    def finish(self, start: int, end: int) -> None:
        if self.deliveries.remove(start, end):
            self._progress.add(start, min(self._progress.next_offset, end))

    def send(self, deadline_s: float, *, is_stopped: bool = False) -> list[Instruction]:
        sends: list[Instruction] = []
        if self._send_ready(deadline_s, sends) and not is_stopped:
            self._send_new(deadline_s, sends)
        return sends

    def problems(self) -> Iterator[str]:
        return self._selection.problems()

    def _send_ready(self, deadline_s: float, sends: list[Instruction]) -> bool:
        """Send what is ready as far as consumers have room; says whether all of it went out."""
        offset = 0
        deliveries = self.deliveries
        while (span := deliveries.next_ready(offset)) is not None:
            turn = self._selection.take(span.start, span.end)
            if turn is None:
                return False
            consumer, count = turn
            offset = span.start + count
            attempt = deliveries.send_again(span.start, offset, consumer, deadline_s)
            sends.append(Send(consumer.consumer_id, span.start, offset, attempt))
            self._sent_to(consumer)
        return True

    def _send_new(self, deadline_s: float, sends: list[Instruction]) -> None:
        """Send what was never sent, as far as consumers have room and the bounds allow."""
        progress, deliveries = self._progress, self.deliveries
        ahead, end = progress.ahead, progress.send_end
        while progress.next_offset < end and not self._is_at_bound():
            start = progress.next_offset
            turn = self._selection.take(start, min(ahead[0].start, end) if ahead else end)
            if turn is None:
                return
            consumer, count = turn
            deliveries.send_new(start, start + count, consumer, deadline_s)
            sends.append(Send(consumer.consumer_id, start, start + count))
            progress.next_offset = start + count
            if ahead:
                progress.take_up(start + count)
            self._sent_to(consumer)

    def _sent_to(self, consumer: AttachedConsumer) -> None:
        """One that is sent ranges gets the next one when this is written."""
        if consumer.by_batch:
            consumer.is_paused = True
            self._selection.refresh(consumer)

    def _is_at_bound(self) -> bool:
        return self._progress.is_scattered or self.deliveries.redelivery_ranges >= REDELIVERY_RANGES_MAX

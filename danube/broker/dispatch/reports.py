"""Reports of consumers: what their applications have, and so what is overdue.

A client holds messages that its application has not taken yet, and these do not fail. A consumer that reports is asked
once something was not answered in time; one that does not answer for another timeout is lost. Of other consumers only
the order is known: they work on what they were sent first, so what is behind an answer counts from that answer.
"""

from collections.abc import Iterable

from danube.broker.dispatch.attached import AttachedConsumer
from danube.broker.dispatch.events import AskReport, EndSilent, Instruction
from danube.broker.dispatch.in_flight import Deliveries, Delivery
from danube.model.calls.consume import ConsumeReport
from danube.model.limits.stream import CONSUME_WORK_TIMEOUTS
from danube.model.ranges import OffsetRange


class Reports:
    """Decides whether messages that were not answered in time have failed."""

    def __init__(self, deliveries: Deliveries, *, is_shared: bool) -> None:
        self.asks: list[Instruction] = []
        """To be given, and cleared."""
        self._deliveries = deliveries
        self._is_shared = is_shared

    def has_time(self, due: Delivery, consumers: Iterable[AttachedConsumer], timeout_s: float, now_s: float) -> bool:
        """Postpone messages that may wait behind others; answers whether it did."""
        consumer, again_s = due.holder, 0.0
        if consumer is not None and consumer.reports:
            again_s = self._ask(consumer, consumers, timeout_s, now_s)
        elif consumer is not None and (due.number, due.start) >= consumer.front:
            again_s = consumer.answered_s + timeout_s
        if again_s > now_s:
            self._deliveries.postpone(due, again_s)
        return again_s > now_s

    def apply(
        self, consumer: AttachedConsumer, report: ConsumeReport, timeout_s: float, now_s: float
    ) -> list[OffsetRange]:
        """Give what waits another timeout, what the application has the rest of its own. Answers what failed."""
        deliveries, until_s = self._deliveries, now_s + timeout_s
        consumer.asked_s = None
        for span in [part for each in report.returned for part in deliveries.held_spans(consumer, *each)]:
            deliveries.take_back(*span)
        for held in consumer.held:
            deliveries.postpone(held, until_s)
        work_s, failed = timeout_s * (CONSUME_WORK_TIMEOUTS if report.is_busy else 1), []
        for start, end, age_s in report.held:
            over_s = now_s - age_s + work_s
            parts = deliveries.held_spans(consumer, start, end) if over_s < until_s else []
            if over_s <= now_s:
                failed += parts
                continue
            for part in parts:
                deliveries.postpone_span(*part, over_s)
        return failed

    def _ask(
        self, consumer: AttachedConsumer, consumers: Iterable[AttachedConsumer], timeout_s: float, now_s: float
    ) -> float:
        """Ask once, and give it up once it had time to answer; answers until when it has."""
        if consumer.asked_s is None:
            give_back = self._is_shared and any(each.room > 0 for each in consumers if each is not consumer)
            self.asks.append(AskReport(consumer.consumer_id, give_back))
            consumer.asked_s = now_s
        elif now_s >= consumer.asked_s + timeout_s:
            self.asks.append(EndSilent(consumer.consumer_id))
            consumer.asked_s = now_s
        return consumer.asked_s + timeout_s

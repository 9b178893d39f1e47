"""The engine tells what moved the position, why deliveries failed, and which consumer is silent."""

from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import (
    Acknowledged,
    ConsumerAttached,
    ConsumerDetached,
    Nacked,
    Seek,
    SkipRange,
    SkipReason,
    TimerFired,
)
from danube.broker.dispatch.progress import FAILED_ON_MAX, FailureCauses
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.limits.broker import TELEMETRY_SILENT_MAX
from danube.model.subscription import Cursor, SubscriptionType

POLICY = RedeliveryPolicy(ack_timeout_s=30.0, base_delay_s=1.0, max_delay_s=1.0, max_redelivery_count=9)


def engine_of(*consumers: int, window: int = 5) -> DispatchEngine:
    engine = DispatchEngine(SubscriptionType.SHARED, Cursor(0), 100, POLICY)
    for consumer in consumers:
        engine.handle(ConsumerAttached(consumer, window), 0.0)
    return engine


def test_acknowledged_messages_are_told_from_what_else_moves_the_position() -> None:
    engine = engine_of(1)
    engine.handle(Acknowledged(0, 2), 1.0)
    engine.handle(Acknowledged(3, 4), 1.0)
    engine.handle(SkipRange(2, 10, SkipReason.SKIPPED), 2.0)
    engine.handle(SkipRange(0, 30, SkipReason.EXPIRED), 3.0)
    engine.handle(SkipRange(0, 60, SkipReason.TRIMMED), 4.0)
    engine.handle(Seek(20), 5.0)
    engine.handle(Acknowledged(20, 24), 6.0)
    passed = engine.passed_over
    assert (passed.skipped, passed.expired, passed.trimmed) == (7, 20, 30)
    assert (engine.acknowledged, engine.position, engine.generation) == (3 + 4, 24, 1)


def test_nacks_timeouts_and_lost_streams_are_counted_apart() -> None:
    engine = engine_of(1)
    engine.handle(Nacked(0), 1.0)
    engine.handle(TimerFired(), 32.0)
    assert engine.failures.timed_out == 5  # four of the first, and one in place of that
    held = engine.in_flight
    engine.handle(ConsumerDetached(1), 33.0)
    assert (engine.failures.disconnected, held) == (5, 5)


def test_message_at_the_position_is_known_to_have_failed_on_each_consumer() -> None:
    engine = engine_of(1, window=1)
    engine.handle(Nacked(0), 1.0)
    engine.handle(ConsumerDetached(1), 1.5)
    engine.handle(ConsumerAttached(2, 100), 1.5)
    engine.handle(TimerFired(), 2.0)
    engine.handle(Nacked(0), 3.0)
    assert (engine.failures.offset, engine.failures.consumers) == (0, {1, 2})
    worst = engine.worst_failure
    assert worst is not None
    assert (worst.start, worst.failures) == (0, 2)


def test_consumer_that_answers_nothing_is_the_most_silent_one() -> None:
    engine = engine_of(1, 2)
    for second in range(1, 20):
        held = (each for each in range(1, 100) if engine._deliveries.holder(each) is engine._consumers[2])
        offset = next(held)
        engine.handle(Acknowledged(offset, offset + 1), float(second))
    assert [(each.consumer_id, each.sign_s) for each in engine.most_silent] == [(1, 0.0), (2, 19.0)]
    assert (engine._consumers[2].sign_s, engine._consumers[2].in_flight) == (19.0, 5)


def test_idle_consumer_owes_nothing() -> None:
    engine = DispatchEngine(SubscriptionType.SHARED, Cursor(100), 100, POLICY)
    engine.handle(ConsumerAttached(1, 5), 0.0)
    assert engine.most_silent == []


def test_no_more_than_a_few_silent_consumers_are_told() -> None:
    engine = engine_of(*range(1, 3 * TELEMETRY_SILENT_MAX))
    assert [each.consumer_id for each in engine.most_silent] == [*range(1, 1 + TELEMETRY_SILENT_MAX)]


def test_consumers_on_which_a_message_failed_are_counted_up_to_a_bound() -> None:
    causes = FailureCauses()
    for consumer_id in range(10 * FAILED_ON_MAX):
        causes.blame(7, consumer_id)
    assert len(causes.consumers) == FAILED_ON_MAX
    causes.blame(8, 0)
    assert causes.consumers == {0}

"""Messages that wait in a client do not fail: by what the client reports, or by the order of its answers."""

from dataclasses import replace

import pytest

from danube.broker.dispatch.events import (
    Acknowledged,
    AskReport,
    ConsumerAttached,
    EndSilent,
    Event,
    Instruction,
    Nacked,
    Reported,
    Send,
    TimerFired,
)
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.calls.consume import ConsumeReport, TakenRange
from danube.model.ranges import OffsetRange
from danube.model.subscription import FailedRange, SubscriptionType

from .conftest import Driven

POLICY = RedeliveryPolicy(ack_timeout_s=30.0, base_delay_s=1.0, max_delay_s=8.0, max_redelivery_count=2)
EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


def reporting(made: Driven, consumer_id: int = 1, window: int = 100) -> None:
    made.now(ConsumerAttached(consumer_id, window, by_batch=True, reports=True))


def asked(made: Driven, now_s: float, event: Event | None = None) -> list[Instruction]:
    """What the consumers are asked when this happens."""
    answers = made.engine.handle(event or TimerFired(), now_s)
    made.engine.validate()
    return [each for each in answers if isinstance(each, AskReport | EndSilent)]


def report(made: Driven, now_s: float, *taken: TakenRange, **fields: bool | tuple[OffsetRange, ...]) -> None:
    made.at(now_s, Reported(1, ConsumeReport(taken, **fields)))  # type: ignore[arg-type]  # of the two kinds


def test_what_waits_in_a_client_never_fails_however_long() -> None:
    made = Driven(EXCLUSIVE, POLICY, durable_end=2_000)
    made.now(ConsumerAttached(1, 2_000, by_batch=True, reports=True))
    now_s, offset = 0.0, 0
    while offset < 2_000:  # a quarter of a second of work each, one after the other
        now_s, offset = now_s + 0.25, offset + 1
        if asked(made, now_s):
            report(made, now_s, TakenRange(offset - 1, offset, 0.25), is_busy=True)
        assert asked(made, now_s, Acknowledged(offset - 1, offset)) == []
    assert made.engine.cursor.position == 2_000
    assert made.engine.cursor.failed == ()


def test_busy_application_has_twelve_timeouts_for_a_message_and_one_that_waits_has_one() -> None:
    made = Driven(EXCLUSIVE, POLICY, durable_end=3)
    reporting(made)
    for number in range(1, 12):
        assert asked(made, 30.0 * number) == [AskReport(1, give_back=False)]
        report(made, 30.0 * number, TakenRange(0, 1, 30.0 * number), is_busy=True)
        assert made.engine.cursor.failed == ()
    assert asked(made, 360.0) == [AskReport(1, give_back=False)]
    report(made, 360.0, TakenRange(0, 1, 360.0), is_busy=True)
    assert made.engine.cursor.failed == (FailedRange(0, 1, 1),)
    assert asked(made, 390.0) == [AskReport(1, give_back=False)]
    report(made, 390.0, TakenRange(1, 2, 12.0))
    assert made.engine.cursor.failed == (FailedRange(0, 1, 1),)
    assert asked(made, 408.0) == [AskReport(1, give_back=False)]
    report(made, 408.0, TakenRange(1, 2, 30.0))
    assert made.engine.cursor.failed == (FailedRange(0, 2, 1),)


def test_consumer_that_does_not_report_is_lost_after_another_timeout_and_no_sooner() -> None:
    made = Driven(EXCLUSIVE, POLICY, durable_end=3)
    reporting(made)
    assert asked(made, 30.0) == [AskReport(1, give_back=False)]
    assert asked(made, 59.9) == []
    assert asked(made, 60.0) == [EndSilent(1)]
    assert made.engine.cursor.failed == ()


def test_shared_consumer_gives_back_what_waits_when_another_has_room() -> None:
    made = Driven(SHARED, POLICY, durable_end=10)
    reporting(made)
    assert asked(made, 30.0) == [AskReport(1, give_back=False)]
    report(made, 30.0, TakenRange(0, 1, 20.0), is_busy=True)
    made.now(ConsumerAttached(2, 100))
    assert asked(made, 60.0) == [AskReport(1, give_back=True)]
    made.engine.handle(
        Reported(1, ConsumeReport((TakenRange(0, 1, 50.0),), is_busy=True, returned=(OffsetRange(1, 10),))), 60.0
    )
    made.engine.validate()
    assert {each.consumer_id: each.in_flight for each in made.engine.consumers}[2] >= 1
    assert made.engine.cursor.failed == ()
    assert made.engine.ready + made.engine.in_flight == 10


def test_range_of_a_shared_turn_is_no_larger_than_the_credit_of_messages() -> None:
    made = Driven(SHARED, POLICY, durable_end=10)
    sends = made.engine.handle(ConsumerAttached(1, 100, by_batch=True, turn_max=3, reports=True), 0.0)
    assert [each for each in sends if isinstance(each, Send)] == [Send(1, 0, 3)]


@pytest.mark.parametrize("kind", [*SubscriptionType])
def test_consumer_that_answers_one_after_the_other_fails_nothing_that_waits_behind(kind: SubscriptionType) -> None:
    made = Driven(kind, replace(POLICY, jitter=0.0), durable_end=100, keys="".join(map(chr, range(65, 165))))
    made.now(ConsumerAttached(1, 100))
    for offset in range(100):
        made.at(20.0 * offset + 10.0, TimerFired())
        made.at(20.0 * (offset + 1), Nacked(offset, 10_000.0) if offset == 50 else Acknowledged(offset, offset + 1))
    assert made.engine.cursor.failed == (FailedRange(50, 51, 1),)


def test_message_that_the_answers_passed_fails_in_its_time() -> None:
    made = Driven(EXCLUSIVE, POLICY, durable_end=10)
    made.now(ConsumerAttached(1, 10))
    made.at(29.0, Acknowledged(1, 2))
    made.at(30.0, TimerFired())
    assert list(made.engine.cursor.failed) == [FailedRange(0, 1, 1)]
    made.at(59.0, TimerFired())
    assert list(made.engine.cursor.failed) == [FailedRange(0, 1, 1), FailedRange(2, 10, 1)]

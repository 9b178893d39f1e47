import pytest

from danube.broker.dispatch.attached import ConsumerView
from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import (
    Acknowledged,
    Appended,
    ConsumerAttached,
    ConsumerDetached,
    ConsumerPaused,
    ConsumerResumed,
    Event,
    Instruction,
    Nacked,
    PolicyChanged,
    SaveCursor,
    Send,
    SetTimer,
    TimerFired,
)
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.errors import InternalError, InvalidRequestError
from danube.model.limits.broker import CURSOR_RANGES_MAX, REDELIVERY_RANGES_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange, SubscriptionType

POLICY = RedeliveryPolicy(ack_timeout_s=30.0, base_delay_s=1.0, max_delay_s=8.0, max_redelivery_count=1_000)
START = Cursor(0)
EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


class Subscription:
    """An engine whose invariants are checked after every event."""

    def __init__(self, subscription_type: SubscriptionType, cursor: Cursor = START, durable_end: int = 0) -> None:
        self.engine = DispatchEngine(subscription_type, cursor, durable_end, POLICY)
        self.now_s = 0.0

    def at(self, now_s: float, event: Event) -> list[Instruction]:
        self.now_s = now_s
        return self.now(event)

    def now(self, event: Event) -> list[Instruction]:
        instructions = self.engine.handle(event, self.now_s)
        self.engine.validate()
        return instructions


@pytest.fixture
def exclusive() -> Subscription:
    """Offsets 0 to 19, and consumer 1 that has 0 to 9, its whole window."""
    subscription = Subscription(EXCLUSIVE, durable_end=20)
    assert subscription.now(ConsumerAttached(1, 10)) == [Send(1, 0, 10), SetTimer(30.0)]
    return subscription


@pytest.fixture
def shared() -> Subscription:
    """Consumers 1, 2 and 3 with windows of 10, and nothing to send yet."""
    subscription = Subscription(SHARED)
    for consumer_id in (1, 2, 3):
        assert subscription.now(ConsumerAttached(consumer_id, 10)) == []
    return subscription


def test_a_backlog_goes_out_as_soon_as_a_consumer_attaches() -> None:
    subscription = Subscription(EXCLUSIVE, Cursor(5), durable_end=8)
    assert subscription.now(ConsumerAttached(1, 10)) == [Send(1, 5, 8), SetTimer(30.0)]


def test_new_messages_go_out_when_they_are_durable() -> None:
    subscription = Subscription(EXCLUSIVE)
    subscription.now(ConsumerAttached(1, 10))
    assert subscription.now(Appended(3)) == [Send(1, 0, 3), SetTimer(30.0)]
    assert subscription.now(Appended(3)) == []
    assert subscription.now(Appended(2)) == []
    assert subscription.now(Appended(5)) == [Send(1, 3, 5)]


def test_a_message_acknowledged_makes_room_for_the_next(exclusive: Subscription) -> None:
    assert exclusive.now(Acknowledged(0, 1)) == [Send(1, 10, 11), SaveCursor(Cursor(1))]


def test_a_range_acknowledged_makes_room_for_a_range(exclusive: Subscription) -> None:
    assert exclusive.now(Acknowledged(0, 8)) == [Send(1, 10, 18), SaveCursor(Cursor(8))]


def test_acknowledgements_out_of_order_are_kept_beyond_the_front(exclusive: Subscription) -> None:
    exclusive.now(Acknowledged(1, 2))
    assert exclusive.now(Acknowledged(4, 6))[-1] == SaveCursor(Cursor(0, (OffsetRange(1, 2), OffsetRange(4, 6))))
    assert exclusive.now(Acknowledged(0, 1))[-1] == SaveCursor(Cursor(2, (OffsetRange(4, 6),)))
    assert exclusive.now(Acknowledged(2, 4))[-1] == SaveCursor(Cursor(6))


def test_an_acknowledgement_of_what_was_not_sent_changes_nothing(exclusive: Subscription) -> None:
    assert exclusive.now(Acknowledged(10, 20)) == []
    assert exclusive.now(Acknowledged(1_000, 2_000)) == []
    assert exclusive.engine.cursor == Cursor(0)


def test_an_acknowledgement_counts_for_the_part_that_was_sent(exclusive: Subscription) -> None:
    assert exclusive.now(Acknowledged(8, 1_000)) == [Send(1, 10, 12), SaveCursor(Cursor(0, (OffsetRange(8, 10),)))]


def test_an_acknowledgement_below_the_cursor_or_repeated_changes_nothing(exclusive: Subscription) -> None:
    exclusive.now(Acknowledged(0, 5))
    exclusive.now(Acknowledged(7, 8))
    for event in (Acknowledged(0, 5), Acknowledged(7, 8), Acknowledged(-3, 2), Acknowledged(9, 9), Acknowledged(9, 6)):
        assert exclusive.now(event) == []


def test_a_nacked_message_returns_after_its_backoff(exclusive: Subscription) -> None:
    failed = SaveCursor(Cursor(0, failed=(FailedRange(3, 4, 1),)))
    assert exclusive.at(2.0, Nacked(3)) == [Send(1, 10, 11), failed, SetTimer(3.0)]
    exclusive.now(Acknowledged(0, 1))
    assert exclusive.at(2.5, TimerFired()) == [SetTimer(3.0)]
    exclusive.now(ConsumerPaused(1))
    assert exclusive.at(3.0, TimerFired()) == [SetTimer(30.0)]
    exclusive.now(Acknowledged(1, 3))
    assert exclusive.now(ConsumerResumed(1)) == [Send(1, 3, 4, 2), Send(1, 12, 13)]


def test_a_nack_may_ask_for_more_delay_up_to_the_cap(exclusive: Subscription) -> None:
    assert exclusive.now(Nacked(3, delay_s=5.0))[-1] == SetTimer(5.0)
    assert exclusive.now(Nacked(4, delay_s=0.1))[-1] == SetTimer(1.0)
    exclusive.now(ConsumerPaused(1))
    exclusive.now(Nacked(5, delay_s=3_600.0))
    for now_s, ready in ((1.0, 1), (5.0, 2), (7.9, 2), (8.0, 3)):
        exclusive.at(now_s, TimerFired())
        assert exclusive.engine.ready == ready


def test_each_failure_doubles_the_delay_up_to_the_cap_and_goes_on_for_ever() -> None:
    subscription = Subscription(EXCLUSIVE, durable_end=1)
    subscription.now(ConsumerAttached(1, 10))
    delays = []
    for attempt in range(2, 9):
        subscription.now(Nacked(0))
        due_s = subscription.engine._deliveries.due_before(1e9)
        assert due_s is not None
        delays.append(due_s - subscription.now_s)
        assert subscription.at(due_s, TimerFired())[0] == Send(1, 0, 1, attempt)
    assert delays == [1, 2, 4, 8, 8, 8, 8]


def test_a_nack_of_what_is_not_in_flight_changes_nothing(exclusive: Subscription) -> None:
    exclusive.now(Nacked(3))
    for offset in (3, -1, 15, 1_000):
        assert exclusive.now(Nacked(offset, delay_s=5.0)) == []
    exclusive.now(Acknowledged(4, 5))
    assert exclusive.now(Nacked(4)) == []


def test_messages_time_out_from_their_own_send_where_later_ones_were_answered(exclusive: Subscription) -> None:
    exclusive.at(10.0, Acknowledged(0, 9))
    exclusive.now(Acknowledged(18, 19))
    failed = SaveCursor(Cursor(9, (OffsetRange(18, 19),), (FailedRange(9, 10, 1),)))
    assert exclusive.at(30.0, TimerFired()) == [failed, SetTimer(31.0)]
    exclusive.now(Acknowledged(10, 12))
    assert exclusive.at(31.0, TimerFired()) == [Send(1, 9, 10, 2), SetTimer(40.0)]
    assert exclusive.at(40.0, TimerFired())[1:] == [SetTimer(41.0)]
    assert exclusive.engine.cursor.failed == (FailedRange(9, 10, 1), FailedRange(12, 18, 1))
    assert (exclusive.engine.waiting, exclusive.engine.in_flight) == (6, 2)


def test_a_timeout_gives_its_room_to_others() -> None:
    subscription = Subscription(SHARED, durable_end=4)
    subscription.now(ConsumerAttached(1, 2))
    subscription.now(ConsumerAttached(2, 2))
    assert subscription.engine.in_flight == 4
    subscription.now(ConsumerPaused(1))
    subscription.at(30.0, TimerFired())
    assert subscription.at(31.0, TimerFired())[:-1] == [Send(2, 0, 2, 2)]


def test_an_acknowledgement_during_the_backoff_counts(exclusive: Subscription) -> None:
    exclusive.now(Nacked(0))
    assert exclusive.now(Acknowledged(0, 1)) == [SaveCursor(Cursor(1))]
    assert exclusive.at(1.0, TimerFired()) == [SetTimer(30.0)]


def test_an_acknowledgement_of_what_is_ready_counts(exclusive: Subscription) -> None:
    exclusive.now(ConsumerDetached(1))
    assert exclusive.now(Acknowledged(0, 9)) == [SaveCursor(Cursor(9))]
    assert exclusive.now(ConsumerAttached(2, 10)) == [Send(2, 9, 10, 2), Send(2, 10, 19)]


def test_what_a_detached_consumer_had_is_sent_again_without_delay(exclusive: Subscription) -> None:
    exclusive.now(Acknowledged(2, 4))
    exclusive.now(ConsumerDetached(1))
    assert exclusive.engine.ready == 10
    assert exclusive.now(ConsumerAttached(1, 20)) == [
        Send(1, 0, 2, 2), Send(1, 4, 12, 2), Send(1, 12, 20),
    ]  # fmt: skip


def test_what_a_detached_shared_consumer_had_goes_to_the_others(shared: Subscription) -> None:
    shared.now(Appended(6))
    assert shared.now(ConsumerDetached(1)) == [Send(2, 0, 1, 2), Send(3, 3, 4, 2)]


def test_attaching_again_starts_over(exclusive: Subscription) -> None:
    exclusive.now(Acknowledged(0, 2))
    assert exclusive.now(ConsumerAttached(1, 3)) == [Send(1, 2, 5, 2)]
    assert exclusive.engine.consumers == (ConsumerView(1, 3, 3, is_paused=False),)


def test_a_second_consumer_of_an_exclusive_subscription_waits_for_the_first_to_leave(exclusive: Subscription) -> None:
    assert exclusive.now(ConsumerAttached(2, 10)) == []
    assert exclusive.now(Acknowledged(0, 1)) == [Send(1, 10, 11), SaveCursor(Cursor(1))]
    assert exclusive.now(ConsumerDetached(1)) == [Send(2, 1, 11, 2)]


def test_redeliveries_go_before_new_messages_lowest_first(exclusive: Subscription) -> None:
    exclusive.now(Nacked(7))
    exclusive.now(Nacked(2))
    exclusive.now(ConsumerPaused(1))
    exclusive.at(1.0, TimerFired())
    exclusive.now(Acknowledged(0, 2))
    exclusive.now(Acknowledged(5, 6))
    assert exclusive.now(ConsumerResumed(1)) == [Send(1, 2, 3, 2), Send(1, 7, 8, 2), Send(1, 12, 13)]


def test_a_paused_consumer_gets_nothing_until_it_is_resumed(exclusive: Subscription) -> None:
    exclusive.now(ConsumerPaused(1))
    assert exclusive.now(Acknowledged(0, 10)) == [SaveCursor(Cursor(10))]
    assert exclusive.now(ConsumerResumed(1)) == [Send(1, 10, 20)]


def test_a_paused_shared_consumer_is_passed_over_and_then_comes_back_to_its_place(shared: Subscription) -> None:
    shared.now(ConsumerPaused(2))
    assert shared.now(Appended(3))[:-1] == [Send(1, 0, 1), Send(3, 1, 2), Send(1, 2, 3)]
    shared.now(ConsumerResumed(2))
    assert shared.now(Appended(6)) == [Send(2, 3, 4), Send(3, 4, 5), Send(1, 5, 6)]


def test_shared_consumers_get_messages_in_turn(shared: Subscription) -> None:
    assert shared.now(Appended(5)) == [
        Send(1, 0, 1), Send(2, 1, 2), Send(3, 2, 3), Send(1, 3, 4), Send(2, 4, 5), SetTimer(30.0),
    ]  # fmt: skip
    assert shared.now(Appended(6)) == [Send(3, 5, 6)]


def test_a_slow_shared_consumer_holds_up_nobody(shared: Subscription) -> None:
    shared.now(Appended(30))
    for offset in range(1, 30, 3):
        shared.now(Acknowledged(offset, offset + 1))
    assert shared.now(Appended(33)) == [Send(2, 30, 33)]


def test_ten_thousand_messages_go_out_evenly_over_shared_consumers() -> None:
    subscription = Subscription(SHARED)
    for consumer_id in (1, 2, 3):
        subscription.now(ConsumerAttached(consumer_id, 10_000))
    sends = [each for each in subscription.now(Appended(10_000)) if isinstance(each, Send)]
    assert [(send.start, send.end) for send in sends] == [(offset, offset + 1) for offset in range(10_000)]
    assert [consumer.in_flight for consumer in subscription.engine.consumers] == [3_334, 3_333, 3_333]


def test_events_of_unknown_consumers_change_nothing(exclusive: Subscription) -> None:
    for event in (ConsumerDetached(7), ConsumerPaused(7), ConsumerResumed(7)):
        assert exclusive.now(event) == []


@pytest.mark.parametrize(("window", "quantum"), [(0, 1), (10, 0), (-1, 1)])
def test_a_consumer_that_could_never_be_served_is_refused(window: int, quantum: int) -> None:
    with pytest.raises(InvalidRequestError):
        Subscription(SHARED).now(ConsumerAttached(1, window, quantum))


def test_a_restart_sends_exactly_what_the_saved_cursor_leaves_open() -> None:
    cursor = Cursor(5, (OffsetRange(8, 10), OffsetRange(12, 13)))
    subscription = Subscription(EXCLUSIVE, cursor, durable_end=15)
    assert subscription.engine.lag == 7
    assert subscription.now(ConsumerAttached(1, 100))[:-1] == [Send(1, 5, 8), Send(1, 10, 12), Send(1, 13, 15)]
    assert subscription.now(Acknowledged(5, 8)) == [SaveCursor(Cursor(10, (OffsetRange(12, 13),)))]
    assert subscription.now(Acknowledged(10, 12)) == [SaveCursor(Cursor(13))]


def test_a_cursor_above_what_is_durable_skips_nothing_that_will_be_written() -> None:
    subscription = Subscription(EXCLUSIVE, Cursor(50, (OffsetRange(60, 70),)), durable_end=20)
    subscription.now(ConsumerAttached(1, 100))
    assert subscription.now(Appended(100))[:-1] == [Send(1, 20, 100)]


def test_the_timer_is_set_only_to_wake_earlier(exclusive: Subscription) -> None:
    assert exclusive.at(1.0, Acknowledged(0, 10)) == [Send(1, 10, 20), SaveCursor(Cursor(10))]
    assert exclusive.at(30.0, TimerFired()) == [SetTimer(31.0)]
    assert exclusive.at(30.5, Acknowledged(10, 20)) == [SaveCursor(Cursor(20))]
    assert exclusive.at(31.0, TimerFired()) == []
    assert exclusive.at(40.0, Appended(21)) == [Send(1, 20, 21), SetTimer(70.0)]


def test_the_policy_can_be_replaced_while_it_runs(exclusive: Subscription) -> None:
    exclusive.now(PolicyChanged(RedeliveryPolicy(ack_timeout_s=5.0, base_delay_s=0.0, max_delay_s=0.0)))
    failed = (FailedRange(4, 5, 1),)
    assert exclusive.now(Nacked(4)) == [Send(1, 10, 11), SaveCursor(Cursor(0, failed=failed)), SetTimer(0.0)]
    assert exclusive.now(TimerFired()) == [SetTimer(5.0)]
    assert exclusive.now(Acknowledged(0, 1)) == [Send(1, 4, 5, 2), SaveCursor(Cursor(1, failed=failed))]


def test_too_many_gaps_stop_new_messages_until_they_close() -> None:
    end = 100_000
    subscription = Subscription(EXCLUSIVE, durable_end=end)
    engine = subscription.engine
    engine.handle(ConsumerAttached(1, 10_000), 0.0)
    for offset in range(1, 2 * CURSOR_RANGES_MAX + 2, 2):
        engine.handle(Acknowledged(offset, offset + 1), 0.0)
    stopped_at = engine.next_offset
    assert 10_000 < stopped_at < end
    assert subscription.now(Acknowledged(9_001, 9_002))[0] == SaveCursor(engine.cursor)
    assert len(engine.cursor.beyond) == CURSOR_RANGES_MAX
    assert subscription.now(Nacked(0)) == [SaveCursor(engine.cursor), SetTimer(1.0)]
    assert subscription.at(1.0, TimerFired())[0] == Send(1, 0, 1, 2)
    sends = [each for each in subscription.now(Acknowledged(0, 9_000)) if isinstance(each, Send)]
    assert sends == [Send(1, stopped_at, engine.next_offset)]
    assert engine.in_flight == 10_000


def test_too_many_failed_messages_stop_new_ones_until_they_are_sent_again() -> None:
    subscription = Subscription(EXCLUSIVE, durable_end=100_000)
    engine = subscription.engine
    engine.handle(ConsumerAttached(1, 10), 0.0)
    for failed in range(REDELIVERY_RANGES_MAX):
        engine.handle(Nacked(failed), failed * 1e-6)
    stopped_at = engine.next_offset
    assert (engine.waiting, engine.in_flight) == (REDELIVERY_RANGES_MAX, 9)
    assert subscription.now(Acknowledged(stopped_at - 1, stopped_at))[:-1] == []
    assert subscription.at(2.0, TimerFired())[0] == Send(1, 0, 2, 2)
    assert engine.next_offset == stopped_at


def test_gaps_from_before_a_restart_are_filled_however_many_there_are() -> None:
    beyond = tuple(OffsetRange(offset, offset + 1) for offset in range(1, 2 * CURSOR_RANGES_MAX, 2))
    subscription = Subscription(EXCLUSIVE, Cursor(0, beyond), durable_end=20_000)
    subscription.now(ConsumerAttached(1, 10_000))
    assert subscription.engine.in_flight == CURSOR_RANGES_MAX
    assert subscription.now(Acknowledged(0, 20_000)) == [Send(1, 8_192, 18_192), SaveCursor(Cursor(8_192))]


def test_what_an_observer_sees(exclusive: Subscription) -> None:
    exclusive.now(Acknowledged(4, 6))
    exclusive.now(Nacked(0))
    exclusive.now(ConsumerPaused(1))
    engine = exclusive.engine
    assert (engine.lag, engine.in_flight, engine.waiting, engine.ready) == (18, 10, 1, 0)
    assert (engine.next_offset, engine.durable_end, engine.cursor.position) == (13, 20, 0)
    assert engine.consumers == (ConsumerView(1, 10, 10, is_paused=True),)


def test_a_broken_invariant_is_named(exclusive: Subscription) -> None:
    exclusive.engine._progress.add(3, 4)
    with pytest.raises(InternalError, match="is open, but"):
        exclusive.engine.validate()


def first_send(instructions: list[Instruction]) -> Send:
    return next(each for each in instructions if isinstance(each, Send))


def test_send_that_was_held_up_is_wanted_only_as_far_as_it_still_holds() -> None:
    engine = DispatchEngine(SubscriptionType.EXCLUSIVE, Cursor(0), 6, RedeliveryPolicy())
    send = first_send(engine.handle(ConsumerAttached(1, 10), 0.0))
    assert engine.still_wanted(send) == [send] == [Send(1, 0, 6)]
    engine.handle(Acknowledged(1, 3), 0.0)
    engine.handle(Nacked(4), 0.0)
    assert engine.still_wanted(send) == [Send(1, 0, 1), Send(1, 3, 4), Send(1, 5, 6)]
    engine.handle(ConsumerDetached(1), 0.0)
    assert engine.still_wanted(send) == []


def test_send_that_was_held_up_gives_way_to_a_later_attempt() -> None:
    engine = DispatchEngine(SubscriptionType.EXCLUSIVE, Cursor(0), 1, RedeliveryPolicy())
    first = first_send(engine.handle(ConsumerAttached(1, 10), 0.0))
    engine.handle(Nacked(0, 0.0), 0.0)
    again = first_send(engine.handle(TimerFired(), 5.0))
    assert again == Send(1, 0, 1, attempt=2)
    assert (engine.still_wanted(first), engine.still_wanted(again)) == ([], [again])

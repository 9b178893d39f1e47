from dataclasses import replace

import pytest

from danube.broker.dispatch.events import (
    Acknowledged,
    ConsumerAttached,
    ConsumerDetached,
    DeadLetter,
    DeadLettered,
    DeadLetterFailed,
    Nacked,
    PolicyChanged,
    RetryBlocked,
    Seek,
    SkipBlocked,
    SkipRange,
    TimerFired,
    WindowChanged,
)
from danube.broker.dispatch.redelivery import NACK_REASON, RedeliveryPolicy
from danube.model.limits.broker import DEAD_LETTERS_AT_ONCE_MAX, FAILURE_REASON_BYTES_MAX
from danube.model.policies import PoisonPolicy
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange, SubscriptionType

from .conftest import Driven

BLOCK = RedeliveryPolicy(ack_timeout_s=30.0, base_delay_s=1.0, max_delay_s=8.0, max_redelivery_count=1)
DROP = replace(BLOCK, poison=PoisonPolicy.DROP)
DEAD_LETTER = replace(BLOCK, poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic="/default/dead")


def poisoned(policy: RedeliveryPolicy, *, window: int = 3, reason: str = "") -> Driven:
    """Offsets 0 to 9, consumer 1 with some of them, and message 0 that has just failed for the last time."""
    made = Driven(SubscriptionType.SHARED, policy, durable_end=10)
    made.now(ConsumerAttached(1, window))
    made.now(Nacked(0))
    assert made.at(1.0, TimerFired()) == ([(1, 0, 2)] if window > 3 else [])
    if window <= 3:
        assert made.now(Acknowledged(1, 2)) == [(1, 0, 2)]
    made.now(Nacked(0, reason=reason))
    return made


def test_a_blocked_message_stops_all_that_is_new() -> None:
    made = poisoned(BLOCK)
    assert made.engine.blocked == [OffsetRange(0, 1)]
    assert made.now(Acknowledged(2, 4)) == []
    assert made.engine.cursor == Cursor(0, (OffsetRange(1, 4),), (FailedRange(0, 1, 2),))


def test_what_is_in_flight_can_still_fail_and_come_back_while_blocked() -> None:
    made = poisoned(BLOCK)
    made.now(Nacked(2))
    assert made.at(2.0, TimerFired()) == [(1, 2, 2)]


def test_a_blocked_message_that_is_skipped_counts_as_acknowledged_and_all_goes_on() -> None:
    made = poisoned(BLOCK)
    made.now(Acknowledged(2, 4))
    assert made.now(SkipBlocked(7)) == []
    assert made.now(SkipBlocked(0)) == [(1, 4, 1), (1, 5, 1), (1, 6, 1)]
    assert made.saved == [Cursor(4)]
    assert (made.engine.passed_over.skipped, made.engine.blocked) == (1, [])


def test_a_blocked_message_that_is_retried_is_sent_once_more_and_judged_again() -> None:
    made = poisoned(BLOCK)
    assert made.now(RetryBlocked())[0] == (1, 0, 3)
    made.now(Nacked(0))
    assert made.engine.blocked == [OffsetRange(0, 1)]
    made.now(RetryBlocked(0))
    made.now(Acknowledged(0, 1))
    assert (made.engine.blocked, made.engine.position) == ([], 2)


def test_a_late_acknowledgement_of_a_blocked_message_counts() -> None:
    made = poisoned(BLOCK)
    assert made.now(Acknowledged(0, 1)) != []
    assert (made.engine.blocked, made.engine.position) == ([], 2)


def test_a_dropped_message_counts_as_acknowledged() -> None:
    made = poisoned(DROP)
    assert made.saved == [Cursor(2)]
    assert (made.engine.passed_over.dropped, made.engine.position) == (1, 2)


def test_messages_that_time_out_for_the_last_time_are_dropped_and_the_cursor_is_saved() -> None:
    made = Driven(SubscriptionType.EXCLUSIVE, replace(DROP, max_redelivery_count=0), durable_end=10)
    made.now(ConsumerAttached(1, 4))
    assert made.at(30.0, TimerFired()) == [(1, 4, 1), (1, 5, 1), (1, 6, 1), (1, 7, 1)]
    assert made.saved == [Cursor(4)]
    assert made.engine.passed_over.dropped == 4


def test_a_dead_letter_is_kept_open_until_its_copy_is_durable() -> None:
    made = poisoned(DEAD_LETTER, reason="no such order")
    assert made.dead_letters == [DeadLetter(0, 2, "no such order", "/default/dead")]
    made.now(Acknowledged(2, 5))
    assert (made.engine.position, made.dead_letters) == (0, [])
    made.now(DeadLettered(0))
    assert (made.saved, made.engine.passed_over.dead_lettered) == ([Cursor(5)], 1)
    made.now(DeadLettered(0), DeadLetterFailed(0), DeadLettered(5))
    assert made.engine.passed_over.dead_lettered == 1


def test_a_dead_letter_that_failed_is_asked_for_again_after_a_growing_delay() -> None:
    made = poisoned(DEAD_LETTER)
    for delay_s in (1.0, 2.0, 4.0, 8.0, 8.0):
        made.now(DeadLetterFailed(0))
        made.at(made.now_s + delay_s - 0.1, TimerFired())
        assert made.dead_letters == []
        made.at(made.now_s + 0.1, TimerFired())
        assert [dead_letter.offset for dead_letter in made.dead_letters] == [0]
    assert made.engine.position == 0


def test_a_message_that_timed_out_says_so_in_its_dead_letter() -> None:
    made = Driven(SubscriptionType.FAILOVER, replace(DEAD_LETTER, max_redelivery_count=0), durable_end=1)
    made.now(ConsumerAttached(1, 1))
    made.at(30.0, TimerFired())
    assert made.dead_letters == [DeadLetter(0, 1, "ack timeout", "/default/dead")]


def test_a_consumer_that_gives_no_reason_did_not_time_out() -> None:
    assert poisoned(DEAD_LETTER).dead_letters[0].reason == NACK_REASON


@pytest.mark.parametrize("said", ["x", "\N{SNOWMAN}"])
def test_a_long_reason_is_cut_by_the_byte_and_between_characters(said: str) -> None:
    reason = poisoned(DEAD_LETTER, reason=said * 100_000).dead_letters[0].reason
    assert set(reason) == {said}
    assert FAILURE_REASON_BYTES_MAX - len(said.encode()) < len(reason.encode()) <= FAILURE_REASON_BYTES_MAX


def test_only_so_many_dead_letters_are_under_way_and_failed_ones_keep_their_place() -> None:
    made = Driven(SubscriptionType.SHARED, replace(DEAD_LETTER, max_redelivery_count=0), durable_end=100)
    made.now(ConsumerAttached(1, 50))
    made.at(30.0, TimerFired())
    assert [dead_letter.offset for dead_letter in made.dead_letters] == list(range(DEAD_LETTERS_AT_ONCE_MAX))
    made.now(DeadLetterFailed(0))
    assert made.dead_letters == []
    made.now(DeadLettered(1))
    assert [dead_letter.offset for dead_letter in made.dead_letters] == [DEAD_LETTERS_AT_ONCE_MAX]
    assert made.engine.dead_letters == 49


def test_a_late_acknowledgement_of_a_dead_letter_counts_and_its_answer_does_not() -> None:
    made = poisoned(DEAD_LETTER)
    made.now(Acknowledged(0, 1))
    assert made.engine.position == 2
    made.now(DeadLettered(0))
    assert made.engine.passed_over.dead_lettered == 0


@pytest.mark.parametrize("policy", [DROP, DEAD_LETTER, replace(BLOCK, max_redelivery_count=5)])
def test_what_is_blocked_is_judged_by_a_new_policy_at_once(policy: RedeliveryPolicy) -> None:
    made = poisoned(BLOCK)
    sent = made.now(PolicyChanged(policy))
    assert made.engine.blocked == []
    assert (made.engine.passed_over.dropped == 1) is (policy is DROP)
    assert (len(made.dead_letters) == 1) is (policy is DEAD_LETTER)
    assert ((1, 0, 3) in sent) is (policy.max_redelivery_count == 5)


def test_a_dead_letter_that_fails_after_the_policy_changed_is_judged_anew() -> None:
    made = poisoned(DEAD_LETTER)
    made.now(PolicyChanged(BLOCK))
    assert made.engine.blocked == []
    made.now(DeadLetterFailed(0))
    assert made.engine.blocked == [OffsetRange(0, 1)]


def test_leaving_is_no_failure() -> None:
    made = Driven(SubscriptionType.EXCLUSIVE, replace(DROP, max_redelivery_count=0), durable_end=1)
    for attempt in range(1, 5):
        assert made.now(ConsumerAttached(1, 1)) == [(1, 0, attempt)]
        made.now(ConsumerDetached(1))
    assert made.engine.lag == 1


def test_a_seek_back_sends_again_and_what_was_acknowledged_before_does_not_count() -> None:
    made = Driven(SubscriptionType.SHARED, BLOCK, durable_end=10)
    made.now(ConsumerAttached(1, 4))
    made.now(Acknowledged(0, 3))
    assert made.now(Seek(1)) == [(1, 1, 1), (1, 2, 1), (1, 3, 1), (1, 4, 1)]
    assert made.saved == [Cursor(1)]
    made.now(Acknowledged(5, 7), Nacked(6))
    assert (made.engine.cursor, made.engine.next_offset) == (Cursor(1), 5)


def test_an_acknowledgement_of_an_older_generation_does_not_count() -> None:
    made = Driven(SubscriptionType.SHARED, BLOCK, durable_end=10)
    made.now(ConsumerAttached(1, 4))
    made.now(Seek(0))
    made.now(Acknowledged(0, 2, generation=0), Nacked(0, generation=0))
    assert (made.engine.position, made.engine.in_flight) == (0, 4)
    made.now(Acknowledged(0, 2, generation=made.engine.generation))
    assert made.engine.position == 2


def test_a_seek_ahead_passes_over_what_is_open_and_a_seek_too_far_is_to_the_end() -> None:
    made = poisoned(BLOCK)
    assert made.now(Seek(8)) == [(1, 8, 1), (1, 9, 1)]
    assert made.engine.blocked == []
    made.now(Seek(1_000))
    assert (made.engine.position, made.engine.lag, made.engine.in_flight) == (10, 0, 0)


def test_a_seek_leaves_no_dead_letter_under_way() -> None:
    made = poisoned(DEAD_LETTER)
    made.now(Seek(0), DeadLettered(0))
    assert (made.engine.position, made.engine.dead_letters) == (0, 0)


def test_a_range_that_is_skipped_is_never_sent_and_counted_once() -> None:
    made = Driven(SubscriptionType.EXCLUSIVE, BLOCK, durable_end=20)
    made.now(ConsumerAttached(1, 4))
    made.now(Acknowledged(1, 2))
    assert [offset for _, offset, _ in made.now(SkipRange(0, 3))] == [5, 6]
    assert made.now(SkipRange(10, 12)) == []
    assert [offset for _, offset, _ in made.now(Acknowledged(3, 7))] == [7, 8, 9, 12]
    made.now(SkipRange(18, 1_000))
    assert [offset for _, offset, _ in made.now(Acknowledged(7, 13))] == [13, 14, 15, 16]
    made.now(Acknowledged(13, 17))
    made.now(Acknowledged(17, 18))
    assert (made.engine.lag, made.engine.passed_over.skipped) == (0, 6)


def test_a_smaller_window_holds_at_once_and_takes_nothing_back() -> None:
    made = Driven(SubscriptionType.SHARED, BLOCK, durable_end=20)
    made.now(ConsumerAttached(1, 4))
    assert made.now(WindowChanged(2)) == []
    assert made.now(Acknowledged(0, 2)) == []
    assert made.now(Acknowledged(2, 3)) == [(1, 4, 1)]
    assert len(made.now(WindowChanged(10))) == 8


def test_jitter_takes_a_share_off_the_delay_and_spreads_what_failed_together() -> None:
    made = Driven(SubscriptionType.SHARED, replace(BLOCK, jitter=0.5), durable_end=8)
    made.now(ConsumerAttached(1, 8))
    for offset in range(8):
        made.now(Nacked(offset))
    back = set()
    for step in range(11):
        back |= {(step, offset) for _, offset, _ in made.at(step / 10, TimerFired())}
    assert len(back) == 8
    assert all(step >= 5 for step, _ in back)
    assert len({step for step, _ in back}) > 3

"""What becomes of messages whose consumer is lost: the one that it had longest failed, the others did not."""

from dataclasses import replace

import pytest

from danube.broker.dispatch.events import (
    Acknowledged,
    ConsumerAttached,
    ConsumerDetached,
    KeyRun,
    KeysRead,
    Nacked,
    Send,
    TimerFired,
)
from danube.broker.dispatch.redelivery import DISCONNECT_REASON, RECALLED_REASON, RedeliveryPolicy
from danube.model.policies import PoisonPolicy
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange, SubscriptionType

from .conftest import Driven

POLICY = RedeliveryPolicy(ack_timeout_s=30.0, base_delay_s=1.0, max_delay_s=8.0, max_redelivery_count=2)
DROP = replace(POLICY, poison=PoisonPolicy.DROP)
LETTER = replace(POLICY, poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic="/default/dead")
ORDERED = [SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED, SubscriptionType.FAILOVER]


def lost(consumer_id: int, *unsent: Send) -> ConsumerDetached:
    return ConsumerDetached(consumer_id, is_lost=True, unsent=unsent)


@pytest.mark.parametrize("kind", ORDERED)
def test_a_message_that_ends_its_consumers_is_poison_in_the_end_and_what_was_behind_it_is_not(
    kind: SubscriptionType,
) -> None:
    made = Driven(kind, LETTER, durable_end=4)
    for consumer_id, now_s in enumerate((0.0, 0.0, 1.0), 1):
        made.at(now_s, TimerFired(), ConsumerAttached(consumer_id, 10))
        made.now(lost(consumer_id))
    assert [(each.offset, each.reason) for each in made.dead_letters] == [(0, DISCONNECT_REASON)]
    assert made.engine.cursor == Cursor(0, failed=(FailedRange(0, 1, 3),))
    assert made.now(ConsumerAttached(4, 10)) == [(4, 1, 4), (4, 2, 4), (4, 3, 4)]


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER])
def test_broken_connections_change_no_order_until_the_policy_decides(kind: SubscriptionType) -> None:
    made = Driven(kind, POLICY, durable_end=3)
    made.now(ConsumerAttached(1, 2))
    for attempt in (2, 3):
        made.now(lost(1))
        assert made.now(ConsumerAttached(1, 2)) == [(1, 0, attempt), (1, 1, attempt)]
    made.now(lost(1))
    made.now(ConsumerAttached(1, 2))
    assert made.engine.blocked == [OffsetRange(0, 1)]


def test_shared_consumers_are_spared_the_message_of_a_second_broken_connection_for_a_moment() -> None:
    made = Driven(SubscriptionType.SHARED, POLICY, durable_end=3)
    made.now(ConsumerAttached(1, 2), lost(1))
    made.now(ConsumerAttached(1, 2), lost(1))
    assert made.now(ConsumerAttached(1, 2)) == [(1, 1, 3), (1, 2, 1)]
    made.now(Acknowledged(1, 3))
    assert made.at(1.0, TimerFired()) == [(1, 0, 3)]


def test_a_consumer_that_gets_on_before_it_is_lost_is_forgiven() -> None:
    made = Driven(SubscriptionType.SHARED, DROP, durable_end=50)
    for offset in range(40):
        made.now(ConsumerAttached(1, 10), Acknowledged(offset, offset + 1), lost(1))
        assert made.engine.cursor == Cursor(offset + 1, failed=(FailedRange(offset + 1, offset + 2, 1),))
    assert made.engine.passed_over.dropped == 0


def test_a_consumer_that_is_sent_away_or_says_that_it_leaves_fails_nothing() -> None:
    made = Driven(SubscriptionType.SHARED, DROP, durable_end=3)
    for _ in range(10):
        made.now(ConsumerAttached(1, 10), ConsumerDetached(1))
    assert made.engine.cursor == Cursor(0)


def test_disconnects_fail_nothing_where_the_settings_say_so() -> None:
    made = Driven(SubscriptionType.SHARED, replace(DROP, disconnects_fail=False), durable_end=3)
    for _ in range(10):
        made.now(ConsumerAttached(1, 10), lost(1))
    assert made.engine.cursor == Cursor(0)


def test_the_message_that_a_consumer_had_longest_is_blamed_and_not_the_lowest() -> None:
    made = Driven(SubscriptionType.SHARED, POLICY, durable_end=3)
    made.now(ConsumerAttached(1, 2), Nacked(0))
    made.now(Acknowledged(1, 2))
    assert made.at(1.0, TimerFired()) == [(1, 0, 2)]
    made.now(lost(1))
    assert made.engine.cursor.failed == (FailedRange(0, 1, 1), FailedRange(2, 3, 1))


def test_what_was_never_written_to_the_stream_is_not_blamed() -> None:
    made = Driven(SubscriptionType.SHARED, POLICY, durable_end=3)
    made.now(ConsumerAttached(1, 3))
    made.now(lost(1, Send(1, 1, 3)))
    assert made.engine.cursor.failed == (FailedRange(0, 1, 1),)
    made.now(ConsumerAttached(1, 3), Acknowledged(0, 1))
    made.now(lost(1, Send(1, 1, 2, 1), Send(1, 2, 3, 1)))
    assert made.engine.cursor == Cursor(1)


def test_a_key_waits_for_the_message_that_ends_its_consumers_and_other_keys_go_on() -> None:
    made = Driven(SubscriptionType.KEY_SHARED, POLICY, durable_end=4, keys="aabb")
    made.now(ConsumerAttached(1, 10))
    for _ in range(2):
        made.now(lost(1), ConsumerAttached(1, 10))
    assert made.engine.cursor.failed == (FailedRange(0, 1, 2),)
    assert made.now(Acknowledged(2, 3)) == [(1, 3, 1)]
    assert made.at(1.0, TimerFired()) == [(1, 0, 3)]


@pytest.mark.parametrize("kind", [*ORDERED, SubscriptionType.KEY_SHARED])
def test_what_failed_too_often_before_a_restart_is_not_sent_once_more(kind: SubscriptionType) -> None:
    cursor = Cursor(1, (OffsetRange(2, 3),), (FailedRange(1, 2, 1), FailedRange(4, 5, 3), FailedRange(5, 6, 2)))
    made = Driven(kind, LETTER, cursor=cursor, durable_end=7, keys="a")
    sent = made.now(ConsumerAttached(1, 1))
    for offset in (1, 3):
        assert sent == [(1, offset, 1)]
        sent = made.now(Acknowledged(offset, offset + 1))
    assert [(each.offset, each.attempt, each.reason) for each in made.dead_letters] == [(4, 3, RECALLED_REASON)]
    if kind is not SubscriptionType.KEY_SHARED:
        assert sent == [(1, 5, 1)]


def test_nothing_new_is_sent_behind_what_was_blocked_before_a_restart() -> None:
    made = Driven(SubscriptionType.EXCLUSIVE, POLICY, cursor=Cursor(0, failed=(FailedRange(1, 2, 3),)), durable_end=9)
    assert made.now(ConsumerAttached(1, 10)) == [(1, 0, 1)]
    assert made.engine.blocked == [OffsetRange(1, 2)]


def test_of_a_window_that_a_dead_consumer_had_one_message_is_held_back_and_others_take_the_rest() -> None:
    made = Driven(SubscriptionType.SHARED, POLICY, cursor=Cursor(0, failed=(FailedRange(0, 1, 1),)), durable_end=10)
    made.now(ConsumerAttached(1, 10), lost(1))
    assert made.now(ConsumerAttached(2, 10)) == [(2, offset, 2) for offset in range(1, 10)]


def test_keys_that_are_told_late_do_not_bring_back_what_is_recalled() -> None:
    made = Driven(
        SubscriptionType.KEY_SHARED, DROP, cursor=Cursor(0, failed=(FailedRange(0, 1, 3),)), durable_end=2, keys="a"
    )
    assert made.now(ConsumerAttached(1, 5)) == [(1, 1, 1)]
    made.now(KeysRead((KeyRun(0, 2, "a"),)))
    assert (made.engine.passed_over.dropped, made.engine.cursor) == (1, Cursor(1))

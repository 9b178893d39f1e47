import pytest

from danube.broker.dispatch.non_reliable import NonReliableSelection
from danube.model.errors import UnsupportedError
from danube.model.subscription import SubscriptionType


def selection(subscription_type: SubscriptionType, *consumer_ids: int) -> NonReliableSelection:
    made = NonReliableSelection(subscription_type)
    for consumer_id in consumer_ids:
        made.add(consumer_id)
    return made


def choices(made: NonReliableSelection, count: int) -> list[int | None]:
    return [made.choose() for _ in range(count)]


def test_shared_consumers_take_turns() -> None:
    assert choices(selection(SubscriptionType.SHARED, 7, 8, 9), 7) == [7, 8, 9, 7, 8, 9, 7]


def test_a_shared_consumer_without_room_is_passed_over_until_it_has_room() -> None:
    made = selection(SubscriptionType.SHARED, 7, 8, 9)
    made.pause(8)
    assert choices(made, 4) == [7, 9, 7, 9]
    made.resume(8)
    assert choices(made, 4) == [8, 7, 9, 8]


def test_a_message_is_dropped_when_no_consumer_has_room() -> None:
    made = selection(SubscriptionType.SHARED, 7, 8)
    made.pause(7)
    made.pause(8)
    assert choices(made, 2) == [None, None]


def test_a_message_without_consumers_is_dropped() -> None:
    for subscription_type in (SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED):
        assert choices(selection(subscription_type), 1) == [None]


def test_a_consumer_that_left_gets_nothing() -> None:
    made = selection(SubscriptionType.SHARED, 7, 8)
    made.remove(7)
    made.resume(7)
    assert choices(made, 3) == [8, 8, 8]


def test_an_exclusive_consumer_gets_all() -> None:
    assert choices(selection(SubscriptionType.EXCLUSIVE, 7), 3) == [7, 7, 7]


def test_what_an_exclusive_consumer_has_no_room_for_goes_to_nobody_else() -> None:
    made = selection(SubscriptionType.EXCLUSIVE, 7, 8)
    made.pause(7)
    assert choices(made, 2) == [None, None]
    made.remove(7)
    assert choices(made, 2) == [8, 8]


def test_adding_a_consumer_twice_changes_nothing() -> None:
    made = selection(SubscriptionType.SHARED, 7, 8)
    assert made.choose() == 7
    made.add(7)
    assert choices(made, 2) == [8, 7]


@pytest.mark.parametrize("subscription_type", [SubscriptionType.FAILOVER, SubscriptionType.KEY_SHARED])
def test_types_that_are_not_there_yet_are_refused(subscription_type: SubscriptionType) -> None:
    with pytest.raises(UnsupportedError, match=subscription_type.name):
        NonReliableSelection(subscription_type)

from danube.broker.dispatch.selection.non_reliable import NonReliableSelection
from danube.model.calls.client import OutgoingMessage
from danube.model.subscription import SubscriptionType
from danube.wire.encode import send_message


def keyed(key: str | None, producer_name: str = "p") -> bytes:
    return send_message(
        OutgoingMessage(
            request_id=1,
            producer_id=1,
            topic="/default/t",
            broker_addr="",
            payload=b"",
            publish_time_ms=1,
            producer_name=producer_name,
            routing_key=key,
        )
    )


PLAIN = keyed(None)


def selection(subscription_type: SubscriptionType, *consumer_ids: int) -> NonReliableSelection:
    made = NonReliableSelection(subscription_type)
    for consumer_id in consumer_ids:
        made.add(consumer_id)
    return made


def choices(made: NonReliableSelection, count: int) -> list[int | None]:
    return [made.choose(PLAIN) for _ in range(count)]


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
    assert made.choose(PLAIN) == 7
    made.add(7)
    assert choices(made, 2) == [8, 7]


def test_the_next_failover_consumer_takes_over_when_the_first_leaves() -> None:
    made = selection(SubscriptionType.FAILOVER, 7, 8, 9)
    assert choices(made, 2) == [7, 7]
    made.remove(7)
    assert choices(made, 2) == [8, 8]


def test_a_key_goes_to_one_consumer_and_is_dropped_while_that_has_no_room() -> None:
    made = selection(SubscriptionType.KEY_SHARED, 7, 8, 9)
    owner = made.choose(keyed("a"))
    assert owner is not None
    assert [made.choose(keyed("a")) for _ in range(3)] == [owner] * 3
    assert {made.choose(keyed(str(number))) for number in range(100)} == {7, 8, 9}
    made.pause(owner)
    assert made.choose(keyed("a")) is None


def test_a_message_without_a_key_goes_by_its_producer() -> None:
    made = selection(SubscriptionType.KEY_SHARED)
    made.add(7, ("p-*",))
    made.add(8, ("q-*",))
    assert (made.choose(keyed(None, "p-1")), made.choose(keyed(None, "q-1")), made.choose(keyed("q-2", "p-1"))) == (
        7,
        8,
        8,
    )
    assert made.choose(keyed("else")) is None

from danube.broker.dispatch.attached import AttachedConsumer
from danube.broker.dispatch.selection.selection import FirstSelection, Rotation, SharedSelection


def consumer(consumer_id: int, window: int = 10, quantum: int = 1) -> AttachedConsumer:
    return AttachedConsumer(consumer_id, window, quantum, quantum)


def turns(selection: SharedSelection | FirstSelection, messages: int) -> list[tuple[int, int]]:
    """Send that many messages, as far as there is room: who got how many, turn by turn."""
    taken = []
    while messages and (turn := selection.take(0, messages)) is not None:
        chosen, count = turn
        assert chosen is not None
        chosen.in_flight += count
        messages -= count
        taken.append((chosen.consumer_id, count))
    return taken


def shared(*consumers: AttachedConsumer) -> SharedSelection:
    selection = SharedSelection()
    for each in consumers:
        selection.attach(each)
    return selection


def test_shared_consumers_take_turns_of_one_message() -> None:
    assert turns(shared(consumer(1), consumer(2), consumer(3)), 5) == [(1, 1), (2, 1), (3, 1), (1, 1), (2, 1)]


def test_a_turn_is_a_quantum_and_goes_on_where_it_stopped() -> None:
    selection = shared(consumer(1, quantum=4), consumer(2, quantum=4))
    assert turns(selection, 3) == [(1, 3)]
    assert turns(selection, 6) == [(1, 1), (2, 4), (1, 1)]


def test_a_turn_ends_when_the_window_is_full() -> None:
    first, second = consumer(1, window=3, quantum=4), consumer(2, quantum=4)
    selection = shared(first, second)
    assert turns(selection, 2) == [(1, 2)]
    assert turns(selection, 3) == [(1, 1), (2, 2)]
    first.in_flight = 0
    selection.refresh(first)
    assert turns(selection, 5) == [(2, 2), (1, 3)]


def test_a_consumer_that_is_alone_gets_all_that_its_window_takes() -> None:
    assert turns(shared(consumer(1, window=8)), 20) == [(1, 8)]


def test_what_a_consumer_got_while_it_was_alone_counts_for_its_turn() -> None:
    selection = shared(consumer(1, quantum=4))
    assert turns(selection, 6) == [(1, 6)]
    selection.attach(consumer(2, quantum=4))
    assert turns(selection, 7) == [(1, 2), (2, 4), (1, 1)]


def test_a_full_consumer_is_passed_over() -> None:
    assert turns(shared(consumer(1, window=1), consumer(2), consumer(3)), 5) == [(1, 1), (2, 1), (3, 1), (2, 1), (3, 1)]


def test_a_consumer_that_has_room_again_comes_back_to_its_place() -> None:
    first, second, third = consumer(1, window=1), consumer(2), consumer(3)
    selection = shared(first, second, third)
    assert turns(selection, 2) == [(1, 1), (2, 1)]
    first.in_flight = 0
    selection.refresh(first)
    assert turns(selection, 3) == [(3, 1), (1, 1), (2, 1)]


def test_a_consumer_that_was_paused_for_long_gets_only_one_turn_ahead() -> None:
    first, second = consumer(1), consumer(2)
    selection = shared(first, second)
    first.is_paused = True
    selection.refresh(first)
    assert turns(selection, 4) == [(2, 4)]
    first.is_paused = False
    selection.refresh(first)
    assert turns(selection, 4) == [(1, 1), (2, 1), (1, 1), (2, 1)]


def test_counts_of_ready_consumers_differ_by_at_most_one_whatever_a_slow_one_does() -> None:
    ready, slow = [consumer(1, window=1_000), consumer(2, window=1_000)], consumer(3, window=1)
    selection = shared(*ready, slow)
    for message in range(500):
        turns(selection, 1)
        if message % 7 == 0:
            slow.in_flight = 0
            selection.refresh(slow)
        assert abs(ready[0].in_flight - ready[1].in_flight) <= 1


def test_a_consumer_that_detached_gets_nothing() -> None:
    first, second = consumer(1), consumer(2)
    selection = shared(first, second)
    selection.detach(first)
    assert turns(selection, 2) == [(2, 2)]


def test_an_exclusive_subscription_serves_the_first_consumer_until_it_leaves() -> None:
    selection = FirstSelection()
    first, second = consumer(1, window=3), consumer(2, window=3)
    selection.attach(first)
    selection.attach(second)
    assert turns(selection, 5) == [(1, 3)]
    selection.detach(first)
    assert turns(selection, 2) == [(2, 2)]


def test_pausing_and_resuming_for_ever_does_not_grow_a_rotation() -> None:
    rotation: Rotation[int] = Rotation()
    rotation.add(1)
    for _ in range(1_000):
        rotation.pause(1)
        rotation.resume(1)
    assert len(rotation._heap) < 20
    assert rotation.first() == 1


def test_coming_and_going_for_ever_does_not_grow_a_rotation() -> None:
    rotation: Rotation[int] = Rotation()
    for member in range(1_000):
        rotation.add(member)
        rotation.remove(member)
    assert len(rotation._heap) < 20
    assert rotation.first() is None

"""The queue of a stream's writer: its two bounds, and when it says that there is room again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import DanubeError, OverloadedError
from danube.rpc.carrier import CarrierOptions
from danube.rpc.stream_memory import Outbox, StreamMemory
from danube.testing.simulated.clock import SimClock


class Owner:
    """A stream that has nothing to do."""

    def advance(self) -> None:
        return None

    def fail(self, error: DanubeError) -> None:
        raise error


def outbox_of(bytes_max: int, messages_max: int) -> Outbox:
    options = CarrierOptions(queue_bytes_max=bytes_max, queue_messages_max=messages_max)
    return Outbox(options, StreamMemory(options.stream_memory_bytes_max, SimClock()), Owner())


def test_messages_leave_in_order_and_give_their_room_back() -> None:
    outbox = outbox_of(bytes_max=10, messages_max=10)
    outbox.put(b"abc")
    outbox.put(b"de")
    assert (outbox.head, outbox.room, len(outbox)) == (b"abc", 5, 2)
    outbox.sent()
    assert (outbox.head, outbox.room, len(outbox)) == (b"de", 8, 1)


def test_last_message_may_pass_the_bound_and_the_next_is_refused() -> None:
    outbox = outbox_of(bytes_max=10, messages_max=10)
    outbox.put(bytes(9))
    outbox.put(bytes(100))
    assert outbox.room == -99
    with pytest.raises(OverloadedError, match="on_ready"):
        outbox.put(b"")
    assert len(outbox) == 2


def test_exactly_full_queue_has_no_room() -> None:
    outbox = outbox_of(bytes_max=10, messages_max=10)
    outbox.put(bytes(10))
    with pytest.raises(OverloadedError):
        outbox.put(b"")


def test_empty_messages_are_bounded_by_their_number() -> None:
    outbox = outbox_of(bytes_max=10, messages_max=2)
    outbox.put(b"")
    outbox.put(b"")
    assert outbox.room == 0
    with pytest.raises(OverloadedError):
        outbox.put(b"")


def test_room_is_told_of_once_when_a_full_queue_is_half_empty() -> None:
    outbox = outbox_of(bytes_max=4, messages_max=100)
    for _ in range(4):
        outbox.put(b"x")
    assert [outbox.sent() for _ in range(4)] == [False, True, False, False]


def test_room_is_told_of_when_messages_are_half_gone_too() -> None:
    outbox = outbox_of(bytes_max=1000, messages_max=4)
    for _ in range(4):
        outbox.put(b"x")
    assert [outbox.sent() for _ in range(4)] == [False, True, False, False]


def test_queue_that_was_never_full_tells_nothing() -> None:
    outbox = outbox_of(bytes_max=5, messages_max=100)
    for _ in range(4):
        outbox.put(b"x")
    assert [outbox.sent() for _ in range(4)] == [False] * 4


@given(sizes=st.lists(st.integers(0, 12), max_size=60), bytes_max=st.integers(1, 20), messages_max=st.integers(1, 6))
def test_writer_that_waits_for_room_always_gets_all_through(
    sizes: list[int], bytes_max: int, messages_max: int
) -> None:
    outbox, left, taken = outbox_of(bytes_max, messages_max), list(sizes), list[int]()
    ready = True
    while left or len(outbox):
        while ready and left and outbox.room > 0:
            outbox.put(bytes(left.pop(0)))
        ready = ready and outbox.room > 0
        assert len(outbox) <= messages_max
        taken.append(len(outbox.head))
        ready = outbox.sent() or ready
    assert taken == sizes

import pytest

from danube.broker.dispatch.attached import AttachedConsumer
from danube.broker.dispatch.in_flight import Deliveries, DeliveryState
from danube.model.ranges import OffsetRange


class Setting:
    """Deliveries and one consumer."""

    def __init__(self) -> None:
        self.roomier: list[int] = []
        self.deliveries = Deliveries(lambda consumer: self.roomier.append(consumer.consumer_id))
        self.consumer = AttachedConsumer(1, 100_000, 1, 1)

    def send(self, start: int, end: int, deadline_s: float = 30.0) -> None:
        self.deliveries.send_new(start, end, self.consumer, deadline_s)

    def pass_time(self, now_s: float, *, hold_until_s: float) -> None:
        self.deliveries.come_due(now_s, lambda due: self.deliveries.back_off(due.start, due.end, hold_until_s))

    def expect(self, *, in_flight: int = 0, waiting: int = 0, ready: int = 0) -> None:
        assert list(self.deliveries.problems()) == []
        assert self.consumer.in_flight == in_flight
        states = (DeliveryState.IN_FLIGHT, DeliveryState.WAITING, DeliveryState.READY)
        assert [self.deliveries.messages(state) for state in states] == [in_flight, waiting, ready]


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_range_shrinks_from_its_front(setting: Setting) -> None:
    setting.send(0, 10_000)
    assert setting.deliveries.remove(0, 1_000)
    assert setting.deliveries.spans() == [OffsetRange(1_000, 10_000)]
    setting.expect(in_flight=9_000)
    assert setting.roomier == [1]


def test_a_range_is_split_by_an_acknowledgement_in_its_middle(setting: Setting) -> None:
    setting.send(0, 10)
    assert setting.deliveries.remove(4, 6)
    assert setting.deliveries.spans() == [OffsetRange(0, 4), OffsetRange(6, 10)]
    setting.expect(in_flight=8)


def test_one_acknowledgement_covers_many_ranges_whatever_their_state(setting: Setting) -> None:
    for start in range(0, 40, 10):
        setting.send(start, start + 10)
    setting.deliveries.back_off(12, 14, 5.0)
    setting.deliveries.back_off(25, 26, 1.0)
    setting.pass_time(1.0, hold_until_s=99.0)
    assert setting.deliveries.remove(5, 35)
    assert setting.deliveries.spans() == [OffsetRange(0, 5), OffsetRange(35, 40)]
    setting.expect(in_flight=10)


def test_an_acknowledgement_of_nothing_here_says_so(setting: Setting) -> None:
    setting.send(10, 20)
    assert not setting.deliveries.remove(0, 10)
    assert not setting.deliveries.remove(20, 30)
    assert not setting.deliveries.remove(15, 15)
    assert not setting.deliveries.remove(18, 12)
    setting.expect(in_flight=10)


def test_each_part_of_a_split_range_is_due_at_its_time(setting: Setting) -> None:
    setting.send(0, 10, deadline_s=30.0)
    setting.deliveries.remove(4, 6)
    setting.pass_time(30.0, hold_until_s=31.0)
    setting.expect(waiting=8)
    setting.pass_time(31.0, hold_until_s=99.0)
    setting.expect(ready=8)


def test_a_waiting_range_is_split_by_an_acknowledgement_in_its_middle(setting: Setting) -> None:
    setting.send(0, 10)
    setting.deliveries.back_off(0, 10, 5.0)
    setting.deliveries.remove(4, 6)
    setting.expect(waiting=8)
    setting.deliveries.remove(0, 4)
    setting.expect(waiting=4)


def test_what_a_leaving_consumer_had_becomes_one_ready_range_where_it_can(setting: Setting) -> None:
    for offset in range(1_000):
        setting.send(offset, offset + 1)
    setting.deliveries.remove(500, 501)
    setting.deliveries.release(setting.consumer)
    setting.expect(ready=999)
    assert setting.deliveries.spans() == [OffsetRange(0, 500), OffsetRange(501, 1_000)]


def test_ready_messages_that_were_sent_differently_often_stay_apart(setting: Setting) -> None:
    setting.send(0, 4)
    setting.deliveries.release(setting.consumer)
    assert setting.deliveries.send_again(0, 2, setting.consumer, 30.0) == 2
    setting.deliveries.release(setting.consumer)
    assert setting.deliveries.next_ready(0) == OffsetRange(0, 2)
    assert setting.deliveries.next_ready(1) == OffsetRange(1, 2)
    assert setting.deliveries.next_ready(2) == OffsetRange(2, 4)
    assert setting.deliveries.next_ready(4) is None


def test_the_next_due_time_ignores_what_was_acknowledged(setting: Setting) -> None:
    setting.send(0, 1, deadline_s=10.0)
    setting.send(1, 2, deadline_s=20.0)
    assert setting.deliveries.due_before(99.0) == 10.0
    setting.deliveries.remove(0, 1)
    assert setting.deliveries.due_before(99.0) == 20.0
    assert setting.deliveries.due_before(20.0) is None


def test_what_was_acknowledged_long_ago_is_not_kept_until_its_time(setting: Setting) -> None:
    setting.send(0, 1)
    for offset in range(1, 1_000):
        setting.send(offset, offset + 1)
        setting.deliveries.remove(offset, offset + 1)
    assert len(setting.deliveries._heap) < 100
    setting.expect(in_flight=1)


def test_a_large_window_that_is_acknowledged_leaves_nothing(setting: Setting) -> None:
    for offset in range(10_000):
        setting.send(offset, offset + 1)
    setting.deliveries.remove(0, 10_000)
    assert len(setting.deliveries._heap) < 100
    setting.expect()


def test_parked_messages_are_ready_and_never_sent(setting: Setting) -> None:
    setting.deliveries.park(0, 3)
    setting.deliveries.park(3, 5)
    setting.expect(ready=5)
    assert setting.deliveries.redelivery_ranges == 2
    assert setting.deliveries.send_again(1, 2, setting.consumer, 30.0) == 1
    setting.expect(in_flight=1, ready=4)

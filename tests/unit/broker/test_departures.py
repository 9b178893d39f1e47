"""Clients that left: when their streams end, what they hear when they come with an old id, and that all is bounded."""

import pytest

from danube.broker import departures as module
from danube.broker.departures import Departures
from danube.broker.farewell import Cause, Farewell
from danube.model.calls import ClientKind, HealthStatus
from danube.model.errors import (
    ConsumerNotFoundError,
    DanubeError,
    ProducerNotFoundError,
    ShuttingDownError,
    TopicDeletedError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits import FAREWELL_END_S, FAREWELL_WAIT_S
from danube.rpc.carrier import Caller
from danube.testing.clock import SimClock

CONSUMER, PRODUCER = ClientKind.CONSUMER, ClientKind.PRODUCER
ID = 7


class Stream:
    """A consumer's stream of which only the end counts."""

    caller = Caller(address="memory")
    room = 1

    def __init__(self) -> None:
        self.ends: list[DanubeError | None] = []

    def finish(self) -> None:
        self.ends.append(None)

    def fail(self, error: DanubeError) -> None:
        self.ends.append(error)

    def open(self) -> None:
        raise AssertionError("it is open")

    def write(self, message: bytes) -> None:
        raise AssertionError(f"{message!r} comes after the farewell")

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def departures(clock: SimClock) -> Departures:
    return Departures(clock)


def moved() -> Farewell:
    return Farewell(Cause.MOVED, "topic /default/orders")


def deleted() -> Farewell:
    return Farewell(Cause.DELETED, "topic /default/orders")


def leaving(departures: Departures, farewell: Farewell | None = None, identity: int = ID) -> Stream:
    stream = Stream()
    departures.consumer_leaves(identity, farewell or moved(), stream)
    return stream


def test_a_stream_stays_open_until_its_client_asks_and_ends_with_ok_a_moment_later(
    departures: Departures, clock: SimClock
) -> None:
    stream = leaving(departures)
    clock.advance(FAREWELL_WAIT_S - 1)
    assert stream.ends == []
    assert departures.health(CONSUMER, ID) is HealthStatus.CLOSE
    clock.advance(FAREWELL_END_S - 0.01)
    assert stream.ends == []
    clock.advance(0.02)
    assert (stream.ends, departures.open_streams) == ([None], 0)


def test_a_stream_whose_client_never_asks_ends_with_an_error_in_the_end(
    departures: Departures, clock: SimClock
) -> None:
    stream = leaving(departures)
    clock.advance(FAREWELL_WAIT_S)
    assert [type(end) for end in stream.ends] == [TopicNotServedError]
    assert departures.open_streams == 0


def test_leftover_pollers_are_told_twice_and_then_that_nobody_knows_them(departures: Departures) -> None:
    leaving(departures)
    assert [departures.health(CONSUMER, ID) for _ in range(2)] == [HealthStatus.CLOSE] * 2
    with pytest.raises(ConsumerNotFoundError):
        departures.health(CONSUMER, ID)
    with pytest.raises(ConsumerNotFoundError):
        departures.health(CONSUMER, ID)


def test_a_client_that_comes_back_and_has_to_go_again_is_told_again(departures: Departures, clock: SimClock) -> None:
    for _ in range(3):
        stream = leaving(departures)
        assert departures.health(CONSUMER, ID) is HealthStatus.CLOSE
        clock.advance(FAREWELL_END_S)
        assert stream.ends == [None]
        departures.came_back(CONSUMER, ID)


def test_a_client_that_comes_back_early_has_its_old_stream_ended_once(departures: Departures, clock: SimClock) -> None:
    stream = leaving(departures)
    departures.came_back(CONSUMER, ID)
    clock.advance(2 * FAREWELL_WAIT_S)
    assert (stream.ends, departures.is_leaving(CONSUMER, ID)) == ([None], False)


def test_a_broker_that_goes_down_ends_streams_at_once_but_keeps_its_word_to_who_was_told(
    departures: Departures, clock: SimClock
) -> None:
    told, untold = leaving(departures, identity=1), leaving(departures, identity=2)
    departures.health(CONSUMER, 1)
    departures.close(ShuttingDownError("going down"))
    assert (told.ends, [type(end) for end in untold.ends]) == ([], [ShuttingDownError])
    clock.advance(FAREWELL_END_S)
    assert told.ends == [None]
    late = leaving(departures, Farewell(Cause.GOING_DOWN, "topic /default/orders"), 3)
    assert [type(end) for end in late.ends] == [ShuttingDownError]


def test_a_client_that_has_to_leave_again_before_it_has_left_is_told_before_its_end(
    departures: Departures, clock: SimClock
) -> None:
    stream = leaving(departures)
    departures.consumer_leaves(ID, deleted(), None)
    assert stream.ends == []
    departures.close(ShuttingDownError("going down"))
    assert [type(end) for end in stream.ends] == [ShuttingDownError]
    clock.advance(2 * FAREWELL_WAIT_S)
    assert len(stream.ends) == 1


def test_producers_are_told_and_refused_by_what_became_of_their_topic(departures: Departures) -> None:
    departures.producer_leaves(1, moved())
    departures.producer_leaves(2, deleted())
    refusals = [type(departures.publish_refusal(identity)) for identity in (1, 2, 3)]
    assert refusals == [TopicNotServedError, TopicDeletedError, TopicNotServedError]
    assert departures.health(PRODUCER, 1) is HealthStatus.CLOSE
    with pytest.raises(TopicNotFoundError, match="was deleted"):
        departures.health(PRODUCER, 2)
    departures.came_back(PRODUCER, 2)
    assert isinstance(departures.publish_refusal(2), TopicNotServedError)


def test_a_producer_and_a_consumer_of_one_id_are_two_clients(departures: Departures) -> None:
    for _ in range(2):
        departures.health(PRODUCER, ID)
    with pytest.raises(ProducerNotFoundError):
        departures.health(PRODUCER, ID)
    assert departures.health(CONSUMER, ID) is HealthStatus.CLOSE


def test_who_left_long_ago_is_forgotten_but_its_open_stream_is_not(
    departures: Departures, clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNKNOWN_IDS_MAX", 10)
    stream = leaving(departures)
    for identity in range(100, 120):
        departures.health(CONSUMER, identity)
    assert departures.health(CONSUMER, ID) is HealthStatus.CLOSE
    clock.advance(FAREWELL_END_S)
    assert stream.ends == [None]
    assert isinstance(departures.receive_refusal(ID), ConsumerNotFoundError)


def test_what_a_consumer_hears_that_opens_its_stream_again_depends_on_why_it_left(departures: Departures) -> None:
    departures.consumer_leaves(1, moved(), None)
    departures.consumer_leaves(2, deleted(), None)
    refusals = [type(departures.receive_refusal(identity)) for identity in (1, 2, 3)]
    assert refusals == [TopicNotServedError, ConsumerNotFoundError, ConsumerNotFoundError]

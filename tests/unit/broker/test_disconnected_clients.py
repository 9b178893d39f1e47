"""Clients that left: when their streams end, what they hear when they come with an old id, and that all is bounded."""

import pytest

from danube.broker.topics import drain as module
from danube.broker.topics.drain import Cause, ClientDrain, DisconnectedClients
from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.errors import (
    ConsumerNotFoundError,
    DanubeError,
    ProducerNotFoundError,
    ShuttingDownError,
    TopicDeletedError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits.broker import DRAIN_END_S, DRAIN_WAIT_S
from danube.rpc.carrier import Caller
from danube.testing.simulated.clock import SimClock

CONSUMER, PRODUCER = ClientKind.CONSUMER, ClientKind.PRODUCER
ID = 7


class Stream:
    """A consumer's stream of which only the end counts."""

    caller = Caller(address="memory")
    is_left = False
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
        raise AssertionError(f"{message!r} comes after the drain began")

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def disconnected_clients(clock: SimClock) -> DisconnectedClients:
    return DisconnectedClients(clock)


def moved() -> ClientDrain:
    return ClientDrain(Cause.MOVED, "topic /default/orders")


def deleted() -> ClientDrain:
    return ClientDrain(Cause.DELETED, "topic /default/orders")


def leaving(disconnected_clients: DisconnectedClients, drain: ClientDrain | None = None, identity: int = ID) -> Stream:
    stream = Stream()
    disconnected_clients.drain_consumer(identity, drain or moved(), stream)
    return stream


def test_a_stream_stays_open_until_its_client_asks_and_ends_with_ok_a_moment_later(
    disconnected_clients: DisconnectedClients, clock: SimClock
) -> None:
    stream = leaving(disconnected_clients)
    clock.advance(DRAIN_WAIT_S - 1)
    assert stream.ends == []
    assert disconnected_clients.health(CONSUMER, ID) is HealthStatus.CLOSE
    clock.advance(DRAIN_END_S - 0.01)
    assert stream.ends == []
    clock.advance(0.02)
    assert (stream.ends, disconnected_clients.is_draining(CONSUMER, ID)) == ([None], False)


def test_a_stream_whose_client_never_asks_ends_with_an_error_in_the_end(
    disconnected_clients: DisconnectedClients, clock: SimClock
) -> None:
    stream = leaving(disconnected_clients)
    clock.advance(DRAIN_WAIT_S)
    assert [type(end) for end in stream.ends] == [TopicNotServedError]
    assert not disconnected_clients.is_draining(CONSUMER, ID)


def test_leftover_pollers_are_told_twice_and_then_that_nobody_knows_them(
    disconnected_clients: DisconnectedClients,
) -> None:
    leaving(disconnected_clients)
    assert [disconnected_clients.health(CONSUMER, ID) for _ in range(2)] == [HealthStatus.CLOSE] * 2
    with pytest.raises(ConsumerNotFoundError):
        disconnected_clients.health(CONSUMER, ID)
    with pytest.raises(ConsumerNotFoundError):
        disconnected_clients.health(CONSUMER, ID)


def test_a_client_that_comes_back_and_has_to_go_again_is_told_again(
    disconnected_clients: DisconnectedClients, clock: SimClock
) -> None:
    for _ in range(3):
        stream = leaving(disconnected_clients)
        assert disconnected_clients.health(CONSUMER, ID) is HealthStatus.CLOSE
        clock.advance(DRAIN_END_S)
        assert stream.ends == [None]
        disconnected_clients.reattached(CONSUMER, ID)


def test_a_client_that_comes_back_early_has_its_old_stream_ended_once(
    disconnected_clients: DisconnectedClients, clock: SimClock
) -> None:
    stream = leaving(disconnected_clients)
    disconnected_clients.reattached(CONSUMER, ID)
    clock.advance(2 * DRAIN_WAIT_S)
    assert (stream.ends, disconnected_clients.is_draining(CONSUMER, ID)) == ([None], False)


def test_a_broker_that_goes_down_ends_streams_at_once_but_keeps_its_word_to_who_was_told(
    disconnected_clients: DisconnectedClients, clock: SimClock
) -> None:
    told, untold = leaving(disconnected_clients, identity=1), leaving(disconnected_clients, identity=2)
    disconnected_clients.health(CONSUMER, 1)
    disconnected_clients.close(ShuttingDownError("going down"))
    assert (told.ends, [type(end) for end in untold.ends]) == ([], [ShuttingDownError])
    clock.advance(DRAIN_END_S)
    assert told.ends == [None]
    late = leaving(disconnected_clients, ClientDrain(Cause.GOING_DOWN, "topic /default/orders"), 3)
    assert [type(end) for end in late.ends] == [ShuttingDownError]


def test_a_client_that_has_to_leave_again_before_it_has_left_is_told_before_its_end(
    disconnected_clients: DisconnectedClients, clock: SimClock
) -> None:
    stream = leaving(disconnected_clients)
    disconnected_clients.drain_consumer(ID, deleted(), None)
    assert stream.ends == []
    disconnected_clients.close(ShuttingDownError("going down"))
    assert [type(end) for end in stream.ends] == [ShuttingDownError]
    clock.advance(2 * DRAIN_WAIT_S)
    assert len(stream.ends) == 1


def test_producers_are_told_and_refused_by_what_became_of_their_topic(
    disconnected_clients: DisconnectedClients,
) -> None:
    disconnected_clients.drain_producer(1, moved())
    disconnected_clients.drain_producer(2, deleted())
    refusals = [type(disconnected_clients.publish_refusal(identity)) for identity in (1, 2, 3)]
    assert refusals == [TopicNotServedError, TopicDeletedError, TopicNotServedError]
    assert disconnected_clients.health(PRODUCER, 1) is HealthStatus.CLOSE
    with pytest.raises(TopicNotFoundError, match="was deleted"):
        disconnected_clients.health(PRODUCER, 2)
    disconnected_clients.reattached(PRODUCER, 2)
    assert isinstance(disconnected_clients.publish_refusal(2), TopicNotServedError)


def test_a_producer_and_a_consumer_of_one_id_are_two_clients(disconnected_clients: DisconnectedClients) -> None:
    for _ in range(2):
        disconnected_clients.health(PRODUCER, ID)
    with pytest.raises(ProducerNotFoundError):
        disconnected_clients.health(PRODUCER, ID)
    assert disconnected_clients.health(CONSUMER, ID) is HealthStatus.CLOSE


def test_who_left_long_ago_is_forgotten_but_its_open_stream_is_not(
    disconnected_clients: DisconnectedClients, clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNKNOWN_IDS_MAX", 10)
    stream = leaving(disconnected_clients)
    for identity in range(100, 120):
        disconnected_clients.health(CONSUMER, identity)
    assert disconnected_clients.health(CONSUMER, ID) is HealthStatus.CLOSE
    clock.advance(DRAIN_END_S)
    assert stream.ends == [None]
    assert isinstance(disconnected_clients.receive_refusal(ID), ConsumerNotFoundError)


def test_what_a_consumer_hears_that_opens_its_stream_again_depends_on_why_it_left(
    disconnected_clients: DisconnectedClients,
) -> None:
    disconnected_clients.drain_consumer(1, moved(), None)
    disconnected_clients.drain_consumer(2, deleted(), None)
    refusals = [type(disconnected_clients.receive_refusal(identity)) for identity in (1, 2, 3)]
    assert refusals == [TopicNotServedError, ConsumerNotFoundError, ConsumerNotFoundError]

"""What each client is told when it has to go, by cause and by what it asked."""

import pytest

from danube.broker.farewell import CLOSES_MAX, Cause, Farewell, Goodbye
from danube.model.errors import ShuttingDownError, TopicNotServedError
from danube.model.limits import CLIENT_HEALTH_INTERVAL_S, DRAIN_TIMEOUT_S, FAREWELL_END_S, FAREWELL_WAIT_S
from danube.wire.status import StatusCode, status_of

START_S = 100.0
STAYS = [Cause.MOVED, Cause.DELETED, Cause.DISCONNECTED]


def goodbye(cause: Cause) -> Goodbye:
    return Goodbye(Farewell(cause, "topic /default/orders"), START_S)


@pytest.mark.parametrize("cause", STAYS)
def test_a_stream_ends_with_ok_a_moment_after_its_client_was_told_to_close(cause: Cause) -> None:
    said = goodbye(cause)
    assert said.ask(START_S + 3)
    assert (said.end_s, said.last_word()) == (START_S + 3 + FAREWELL_END_S, None)


@pytest.mark.parametrize("cause", STAYS)
def test_a_second_close_does_not_put_the_end_off(cause: Cause) -> None:
    said = goodbye(cause)
    said.ask(START_S + 3)
    said.ask(START_S + 3.1)
    assert said.end_s == START_S + 3 + FAREWELL_END_S


@pytest.mark.parametrize("cause", list(Cause))
def test_no_stream_ends_with_ok_before_close_was_said(cause: Cause) -> None:
    assert goodbye(cause).last_word() is not None


@pytest.mark.parametrize("cause", STAYS)
def test_a_client_that_never_asks_is_waited_for_until_it_should_have_asked_and_no_longer(cause: Cause) -> None:
    assert goodbye(cause).end_s == START_S + FAREWELL_WAIT_S
    assert CLIENT_HEALTH_INTERVAL_S < FAREWELL_WAIT_S < 2 * CLIENT_HEALTH_INTERVAL_S


def test_close_comes_long_enough_before_the_end_and_ends_a_drain_in_time() -> None:
    assert 0.1 <= FAREWELL_END_S < DRAIN_TIMEOUT_S


def test_a_broker_that_goes_down_waits_for_nobody() -> None:
    said = goodbye(Cause.GOING_DOWN)
    assert said.end_s == START_S
    assert isinstance(said.last_word(), ShuttingDownError)


@pytest.mark.parametrize("cause", [*STAYS, None])
def test_close_is_said_twice_at_most(cause: Cause | None) -> None:
    said = goodbye(cause) if cause is not None else Goodbye(None, START_S)
    assert [said.ask(START_S) for _ in range(CLOSES_MAX + 2)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("cause", "publish", "subscribe", "receive"),
    [
        (Cause.MOVED, StatusCode.UNAVAILABLE, StatusCode.UNAVAILABLE, StatusCode.UNAVAILABLE),
        (Cause.GOING_DOWN, StatusCode.UNAVAILABLE, StatusCode.UNAVAILABLE, StatusCode.UNAVAILABLE),
        (Cause.DISCONNECTED, StatusCode.UNAVAILABLE, StatusCode.UNAVAILABLE, StatusCode.UNAVAILABLE),
        (Cause.DELETED, StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND, StatusCode.NOT_FOUND),
    ],
)
def test_refusals_have_the_status_on_which_clients_do_the_right_thing(
    cause: Cause, publish: StatusCode, subscribe: StatusCode, receive: StatusCode
) -> None:
    farewell = Farewell(cause, "topic /default/orders")
    refusals = farewell.publish_refusal(), farewell.subscribe_refusal(), farewell.receive_refusal()
    assert [status_of(error).code for error in refusals] == [publish, subscribe, receive]


def test_a_refusal_names_what_moved_and_what_to_do() -> None:
    error = Farewell(Cause.MOVED, "topic /default/orders").publish_refusal()
    assert isinstance(error, TopicNotServedError)
    assert str(error) == "topic /default/orders is not served here any more: look it up again"

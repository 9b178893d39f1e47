"""The sequence and the refusals of a client drain, by cause."""

import pytest

from danube.broker.topics.drain import CLOSES_MAX, Cause, ClientDrain, DisconnectReason
from danube.model.errors import ShuttingDownError, TopicNotServedError
from danube.model.limits.broker import CLIENT_HEALTH_INTERVAL_S, DRAIN_END_S, DRAIN_TIMEOUT_S, DRAIN_WAIT_S
from danube.wire.status import StatusCode, status_of

START_S = 100.0
STAYS = [Cause.MOVED, Cause.DELETED, Cause.DISCONNECTED]


def reason_of(cause: Cause) -> DisconnectReason:
    return DisconnectReason(ClientDrain(cause, "topic /default/orders"), START_S)


@pytest.mark.parametrize("cause", STAYS)
def test_a_stream_ends_with_ok_a_moment_after_its_client_was_told_to_close(cause: Cause) -> None:
    reason = reason_of(cause)
    assert reason.may_close(START_S + 3)
    assert (reason.end_s, reason.stream_error()) == (START_S + 3 + DRAIN_END_S, None)


@pytest.mark.parametrize("cause", STAYS)
def test_a_second_close_does_not_put_the_end_off(cause: Cause) -> None:
    reason = reason_of(cause)
    reason.may_close(START_S + 3)
    reason.may_close(START_S + 3.1)
    assert reason.end_s == START_S + 3 + DRAIN_END_S


@pytest.mark.parametrize("cause", list(Cause))
def test_no_stream_ends_with_ok_before_close_was_said(cause: Cause) -> None:
    assert reason_of(cause).stream_error() is not None


@pytest.mark.parametrize("cause", STAYS)
def test_a_client_that_never_asks_is_waited_for_until_it_should_have_asked_and_no_longer(cause: Cause) -> None:
    assert reason_of(cause).end_s == START_S + DRAIN_WAIT_S
    assert CLIENT_HEALTH_INTERVAL_S < DRAIN_WAIT_S < 2 * CLIENT_HEALTH_INTERVAL_S


def test_close_comes_long_enough_before_the_end_and_ends_a_drain_in_time() -> None:
    assert 0.1 <= DRAIN_END_S < DRAIN_TIMEOUT_S


def test_a_broker_that_goes_down_waits_for_nobody() -> None:
    reason = reason_of(Cause.GOING_DOWN)
    assert reason.end_s == START_S
    assert isinstance(reason.stream_error(), ShuttingDownError)


@pytest.mark.parametrize("cause", [*STAYS, None])
def test_close_is_said_twice_at_most(cause: Cause | None) -> None:
    reason = reason_of(cause) if cause is not None else DisconnectReason(None, START_S)
    assert [reason.may_close(START_S) for _ in range(CLOSES_MAX + 2)] == [True, True, False, False]


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
    drain = ClientDrain(cause, "topic /default/orders")
    refusals = drain.publish_refusal(), drain.subscribe_refusal(), drain.receive_refusal()
    assert [status_of(error).code for error in refusals] == [publish, subscribe, receive]


def test_a_refusal_names_what_moved_and_what_to_do() -> None:
    error = ClientDrain(Cause.MOVED, "topic /default/orders").publish_refusal()
    assert isinstance(error, TopicNotServedError)
    assert str(error) == "topic /default/orders is not served here any more: look it up again"

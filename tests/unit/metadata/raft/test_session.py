"""A session takes messages from a peer that has proved itself, and ends with a reason when it is time to."""

import pytest

from danube.metadata.raft.port.handshake import refusal
from danube.metadata.raft.port.refusals import Reason, RefusedError
from danube.metadata.raft.port.session import Authenticated, Received, Refused, Session
from danube.metadata.raft.values.encoding import EncodingError
from danube.model.limits.metadata import (
    RAFT_HANDSHAKE_TIMEOUT_S,
    RAFT_PING_S,
    RAFT_RECEIVE_BYTES,
    RAFT_UNPROVED_RECEIVE_BYTES,
)
from tests.unit.metadata.raft.handshakes import acceptor, carry, dialer, session, sessions

LARGE = {"type": "append_entries", "entries": [(b"x" * 1_000, index, 3) for index in range(100)]}


def reason_of(events: object) -> Reason:
    assert isinstance(events, list)
    assert isinstance(events[-1], Refused)
    return events[-1].error.reason


def test_messages_come_in_order_once_both_have_proved_themselves() -> None:
    one, other = sessions()
    for number in range(3):
        one.send({"number": number}, 0.0)
    assert carry(one, other) == [Received({"number": 0}), Received({"number": 1}), Received({"number": 2})]


def test_messages_that_come_together_with_the_proof_are_taken() -> None:
    one, other = session(dialer()), session(acceptor())
    carry(one, other)
    carry(other, one)
    assert [type(event) for event in carry(one, other)] == [Authenticated]
    other.send(LARGE, 0.0)
    assert [type(event) for event in carry(other, one)] == [Authenticated, Received]


def test_nothing_is_sent_to_a_peer_that_has_not_proved_itself() -> None:
    one = session(dialer())
    with pytest.raises(ValueError, match="has not proved"):
        one.send("secret", 0.0)


def test_little_is_read_at_once_of_a_peer_that_has_not_proved_itself() -> None:
    assert session(dialer()).read_bytes == RAFT_UNPROVED_RECEIVE_BYTES
    assert sessions()[0].read_bytes == RAFT_RECEIVE_BYTES


def test_a_refusal_in_the_handshake_is_told_to_the_other_side() -> None:
    one, other = session(dialer(cluster_id="theirs")), session(acceptor())
    assert reason_of(carry(one, other)) is Reason.CLUSTER
    told = carry(other, one)
    assert reason_of(told) is Reason.CLUSTER
    assert one.take_output() == []


def test_after_a_refusal_nothing_is_taken_or_sent() -> None:
    one, other = sessions()
    other.receive(b"\xff" * 40, 0.0)
    assert other.ended
    one.send("late", 0.0)
    assert carry(one, other) == ()
    other.send("late", 0.0)
    assert other.take_output() == []


def test_who_may_be_taken_for_proved_says_no_refusal() -> None:
    one, other = session(dialer()), session(acceptor())
    carry(one, other)
    carry(other, one)
    one.refuse(RefusedError(Reason.TIMEOUT, "late"))
    assert [type(event) for event in carry(one, other)] == [Authenticated]


def test_a_refusal_within_a_session_is_no_frame() -> None:
    one, _ = sessions()
    assert reason_of(one.receive(refusal(Reason.TIMEOUT) * 10, 0.0)) is Reason.GARBAGE


def test_a_message_that_is_no_plain_data_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = sessions()
    monkeypatch.setattr("danube.metadata.raft.values.encoding.dumps", lambda message: message)
    one.send(b"\xc1", 0.0)
    assert reason_of(carry(one, other)) is Reason.GARBAGE


def test_what_is_no_plain_data_is_not_sent() -> None:
    one, other = sessions()
    with pytest.raises(EncodingError):
        one.send(object(), 0.0)
    one.send("next", 0.0)
    assert carry(one, other) == [Received("next")]


def test_a_peer_that_proves_nothing_in_time_is_refused() -> None:
    other = session(acceptor(), now_s=10.0)
    for late_s in (0.0, 0.1):
        other.receive(b"\x10" if late_s else b"", 14.9)
        assert other.tick(10.0 + RAFT_HANDSHAKE_TIMEOUT_S + late_s) is None
    other.receive(b"\x00", 15.1)
    refused = other.tick(10.2 + RAFT_HANDSHAKE_TIMEOUT_S)
    assert refused is not None
    assert refused.error.reason is Reason.TIMEOUT


def test_an_idle_side_says_that_it_is_there() -> None:
    one, other = sessions()
    assert one.tick(RAFT_PING_S) is None
    assert one.take_output() == []
    one.tick(RAFT_PING_S + 0.1)
    assert carry(one, other, 2.0) == []
    assert silent_until(other) > 5.0


def test_a_silent_peer_is_dropped() -> None:
    _, other = sessions()
    assert 3.0 < silent_until(other) < 4.0


def test_what_came_while_this_side_was_away_is_received_before_it_drops_anybody() -> None:
    one, other = sessions()
    one.send("was there all the time", 1.0)
    assert other.tick(100.0) is None
    carry(one, other, 100.0)
    assert other.tick(100.1) is None


def silent_until(waiting: Session) -> float:
    """When it drops its peer, in seconds."""
    for tenth in range(100):
        if waiting.tick(tenth / 10) is not None:
            return tenth / 10
    raise AssertionError("never")

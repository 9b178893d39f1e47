"""Real ports on loopback: who connects with whom, what arrives, who is refused and what is said about it."""

import logging
import socket
from functools import partial

import pytest

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.core.poller import Poller
from danube.metadata.raft.port.addresses import listen
from danube.metadata.raft.port.dialer import TransportSettings
from danube.metadata.raft.port.inquiry import Invitation, PeerRefusedError, Probe
from danube.metadata.raft.port.refusals import Reason
from danube.metadata.raft.port.transport import RaftTransport
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import LimitReachedError, SettingsError, UnavailableError
from danube.model.limits.broker import MIB
from danube.model.limits.metadata import (
    RAFT_ASKS_MAX,
    RAFT_DIAL_ANYWAY_S,
    RAFT_HANDSHAKE_TIMEOUT_S,
    RAFT_SEND_BUFFER_BYTES_MAX,
    RAFT_SEND_ROOM_BYTES,
    RAFT_SILENCE_S_MAX,
    RAFT_UNPROVED_PER_ADDRESS_MAX,
)
from danube.runtime.clock import SystemClock
from danube.testing.simulated.clock import SimClock
from tests.unit.metadata.raft.ports import CLUSTER, SECRET, know, room

LEARNER, VOTER = MemberRole.LEARNER, MemberRole.VOTER


def test_three_voters_connect_once_each_and_tell_each_other_anything_plain() -> None:
    with room() as here:
        one, two, three = here.group(1, 2, 3)
        here.all_connected()
        message = {"type": "append_entries", "entries": [(b"\x00", 1, 2)], "node": one.node, "more": [None, 1.5]}
        assert one.transport.send(two.node, message)
        assert three.transport.send(two.node, "of three")
        here.until(lambda: len(two.messages()) == 2)
        assert ("message", one.node, message) in two.told
        assert ("message", three.node, "of three") in two.told
        assert sorted(node.node_id for node in two.tells("connected")) == [1, 3]


def has_ipv6() -> bool:
    try:
        listen("[::1]:0").close()
    except SettingsError:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        pytest.param("[::1]", marks=pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")),
        "localhost",
    ],
)
def test_the_port_may_be_on_either_address_family_and_have_a_name(host: str) -> None:
    with room() as here:
        here.group(1, 2, host=host)
        here.all_connected()


def test_without_a_secret_ports_on_loopback_connect() -> None:
    with room() as here:
        one, two = here.group(1, 2, secret=None)
        here.all_connected()
        one.transport.send(two.node, "hello")
        here.until(lambda: two.messages() == ["hello"])


def test_a_large_message_arrives_whole() -> None:
    with room() as here:
        one, two = here.group(1, 2)
        here.all_connected()
        snapshot = bytes(range(256)) * 32_768
        assert one.transport.send(two.node, snapshot)
        here.until(two.messages)
        assert two.messages() == [snapshot]


def test_a_learner_dials_the_voters_and_is_told_as_one() -> None:
    with room() as here:
        voter, learner = here.port(9), here.port(1, role=LEARNER, cluster_id="")
        know(learner, voter)
        here.until(lambda: voter.tells("learner connected"))
        assert voter.transport.send(learner.node, "entries")
        here.until(learner.messages)
        learner.transport.destroy()
        here.ports.remove(learner)
        here.until(lambda: voter.tells("learner disconnected"))
        assert voter.told[:2] == [("learner connected", learner.node), ("learner disconnected", learner.node)]


def test_a_learner_that_is_added_as_a_voter_keeps_its_connection_until_it_comes_back() -> None:
    with room() as here:
        voter, learner = here.port(1), here.port(2, role=LEARNER)
        know(learner, voter)
        here.until(lambda: voter.tells("learner connected"))
        know(voter, learner)
        assert voter.transport.send(learner.node, "you are added")
        here.until(learner.messages)
        learner.transport.become(VOTER)
        know(learner, voter)
        here.until(lambda: voter.tells("connected"))
        assert [told[0] for told in voter.told] == ["learner connected", "learner disconnected", "connected"]


def test_a_lost_connection_is_told_and_made_again() -> None:
    with room() as here:
        one, two = here.group(1, 2)
        here.all_connected()
        address = one.transport.address
        one.transport.destroy()
        here.ports.remove(one)
        here.until(lambda: two.tells("disconnected"))
        assert not two.transport.send(one.node, "lost")
        again = here.port(1, address=address)
        know(again, two)
        here.all_connected()
        assert [told[0] for told in two.told] == ["connected", "disconnected", "connected"]


def test_a_voter_that_connects_again_is_known_by_its_newer_connection() -> None:
    with room() as here:
        one, two = here.group(1, 2)
        here.all_connected()
        link = two.transport._links[one.node]
        older, link.connection = link.connection, None  # as if it had come to its end without a sign to the other
        one.told.clear()
        here.until(lambda: one.tells("connected"))
        assert [told[0] for told in one.told] == ["disconnected", "connected"]
        here.until(lambda: older is not None and not older.is_open)
        assert one.transport.send(two.node, "by the newer one")
        here.until(two.messages)
        assert [told[0] for told in one.told] == ["disconnected", "connected"]


def test_a_dropped_voter_is_told_as_disconnected_and_a_guest_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with room() as here:
        one, two = here.group(1, 2)
        here.all_connected()
        one.transport.dropNode(two.node)
        assert one.tells("disconnected") == [two.node]
        here.until(lambda: one.transport.hears(two.node))
        assert "does not know that it has a vote" in caplog.text
        assert one.transport.connected() == frozenset()
        assert one.tells("connected") == [two.node]


def test_a_voter_that_is_not_known_is_heard_and_told_as_connected_once_it_is_added() -> None:
    with room() as here:
        one, two = here.port(1), here.port(2)
        know(two, one)
        here.until(lambda: one.transport.hears(two.node) and two.transport.connected())
        assert two.transport.send(one.node, "lead")
        here.until(one.messages)
        assert one.transport.send(two.node, "follow")
        here.until(two.messages)
        assert one.told == [("message", two.node, "lead")]
        know(one, two)
        assert one.transport.connected() == {two.node}
        assert one.told[1:] == [("connected", two.node)]
        assert two.transport.send(one.node, "more")
        here.until(lambda: one.messages() == ["lead", "more"])
        assert two.told == [("connected", one.node), ("message", one.node, "follow")]  # over the same connection


def test_a_guest_that_goes_is_forgotten() -> None:
    with room() as here:
        one, two = here.port(1), here.port(2)
        know(two, one)
        here.until(lambda: one.transport.hears(two.node))
        two.transport.dropNode(one.node)
        here.until(lambda: not one.transport.hears(two.node))
        assert one.told == []


def test_a_voter_that_is_to_be_dialed_by_one_that_does_not_know_it_dials_after_a_while() -> None:
    clock = SimClock()
    with room(clock) as here:
        one, two = here.port(1), here.port(2)
        know(one, two)
        here.turns(30)
        assert not two.transport.hears(one.node)
        clock.advance(RAFT_DIAL_ANYWAY_S)
        here.until(lambda: two.transport.hears(one.node))


def test_a_known_voter_at_another_address_is_no_guest() -> None:
    with room() as here:
        one, two, moved = here.port(1), here.port(2), here.port(2)
        know(one, two)
        know(moved, one)
        here.turns(30)
        assert not one.transport.hears(moved.node)


def test_there_are_only_so_many_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danube.metadata.raft.port.transport.RAFT_UNKNOWN_PEERS_MAX", 1)
    with room() as here:
        one, two, three = here.port(1), here.port(2), here.port(3)
        know(two, one)
        here.until(lambda: one.transport.hears(two.node))
        know(three, one)
        here.turns(30)
        assert not one.transport.hears(three.node)


def test_a_voter_that_came_back_without_its_data_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with room() as here:
        old, other = here.group(1, 2)
        here.all_connected()
        address = old.transport.address
        old.transport.destroy()
        here.ports.remove(old)
        fresh = here.port(3, address=address)
        know(fresh, other)
        here.until(lambda: "remove the old member and add the new one" in caplog.text)
        assert other.tells("connected") == [old.node]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({"secret": b"another secret, long enough"}, "it has another secret", id="another secret"),
        pytest.param({"secret": None}, "it has no secret and this member has one", id="no secret"),
        pytest.param({"cluster_id": "theirs"}, "it belongs to the cluster 'theirs'", id="another cluster"),
    ],
)
def test_a_stranger_delivers_nothing_and_costs_one_line(
    settings: dict[str, str], expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    with room() as here:
        member, unknown_peer = here.port(1), here.port(2, **settings)  # type: ignore[arg-type]  # of the one kind each
        know(member, unknown_peer)
        know(unknown_peer, member)
        here.until(lambda: expected in caplog.text)
        here.turns(60)
        assert (member.told, unknown_peer.told) == ([], [])
        lines = [line for line in caplog.messages if f"Raft port {member.transport.address}, 127.0.0.1" in line]
        assert len(lines) == 1
        assert SECRET.decode() not in caplog.text


def test_a_peer_that_takes_nothing_is_disconnected() -> None:
    with room() as here:
        one, two = here.group(1, 2)
        here.all_connected()
        chunk, sent = bytes(4 * MIB), 0
        assert one.transport.has_room(two.node)
        while one.transport.send(two.node, chunk):
            sent += len(chunk)
            assert sent < 2 * RAFT_SEND_BUFFER_BYTES_MAX
            if sent > RAFT_SEND_ROOM_BYTES + 8 * MIB:  # more than any system takes of it
                assert not one.transport.has_room(two.node)
        assert sent >= RAFT_SEND_BUFFER_BYTES_MAX - len(chunk)
        assert one.tells("disconnected") == [two.node]


def test_a_silent_peer_is_dropped_and_an_idle_one_is_not() -> None:
    clock = SimClock()
    with room(clock) as here:
        one, two = here.group(1, 2)
        here.all_connected()
        for _ in range(20):
            clock.advance(0.5)
            here.turns(4)
        assert one.tells("disconnected") == []
        here.ports.remove(two)  # as if it were paused
        for _ in range(10):
            clock.advance(0.5)
            here.turns(2)
        assert one.tells("disconnected") == [two.node]
        two.transport.destroy()


def test_who_only_holds_connections_open_keeps_no_member_out(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimClock()
    with room(clock) as here:
        one, two = here.port(1), here.port(2)
        host, port = one.transport.address.split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(3 * RAFT_UNPROVED_PER_ADDRESS_MAX)]
        here.turns(10)
        know(one, two)
        know(two, one)
        here.until(one.transport.connected)
        assert caplog.text.count("too many connections that have not proved") == 1
        clock.advance(RAFT_HANDSHAKE_TIMEOUT_S + 0.1)
        here.turns(5)
        for each in idle:
            each.settimeout(5)
            while each.recv(100):
                pass
            each.close()
        assert caplog.text.count("it has not proved who it is within 5 s") == 1


def test_a_probe_tells_who_is_there_and_whatever_it_wants_to_say() -> None:
    with room() as here:
        one, two = here.port(1), here.port(2)
        two.transport.on_probe = partial(dict, has_leader=True, members=["1@a:1"])
        got: list[Probe | Exception] = []
        one.transport.probe(two.transport.address, 5.0, got.append)
        assert got == []
        here.until(lambda: got)
        assert got == [
            Probe(
                node_id=2,
                cluster_id=CLUSTER,
                has_leader=True,
                address=two.transport.address,
                role=VOTER,
                more={"members": ["1@a:1"]},
            )
        ]


def test_a_member_that_probes_itself_is_told_so_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with room() as here:
        one = here.port(1)
        got: list[Probe | Exception] = []
        one.transport.probe(one.transport.address, 5.0, got.append)
        here.until(lambda: got)
        assert isinstance(got[0], PeerRefusedError)
        assert got[0].reason is Reason.SELF
        assert caplog.text == ""


def test_an_invitation_is_accepted_by_who_waits_for_one() -> None:
    with room() as here:
        one, waiting = here.port(1), here.port(2, role=LEARNER, cluster_id="")
        invitation = Invitation(cluster_id=CLUSTER, members=(one.node.id,), role=LEARNER)
        seen: list[Invitation] = []

        def accept(invitation: Invitation) -> bool:
            seen.append(invitation)
            return True

        got: list[bool | Exception] = []
        one.transport.invite(waiting.transport.address, invitation, 5.0, got.append)
        here.until(lambda: got)
        waiting.transport.on_invite = accept
        one.transport.invite(waiting.transport.address, invitation, 5.0, got.append)
        here.until(lambda: len(got) == 2)
        assert (got, seen) == ([False, True], [invitation])


def test_a_question_without_an_answer_ends_in_time_with_the_next_step() -> None:
    clock = SimClock()
    silent = socket.create_server(("127.0.0.1", 0))
    with room(clock) as here:
        got: list[object] = []
        one = here.port(1)
        one.transport.probe(f"127.0.0.1:{silent.getsockname()[1]}", 2.0, got.append)
        here.turns(5)
        clock.advance(2.0)
        here.turns(2)
        assert [type(answer) for answer in got] == [UnavailableError]
        assert "has not answered within 2 s: is a broker running there?" in str(got[0])
    silent.close()


@pytest.mark.parametrize(
    ("address", "kind", "told"),
    [
        ("127.0.0.1:1", UnavailableError, "Connection refused"),
        ("no-such-host.invalid:1", UnavailableError, "cannot be asked"),
        ("127.0.0.1", SettingsError, "must look like"),
        ("", SettingsError, "must look like"),
    ],
)
def test_a_question_to_nobody_is_answered_with_what_is_wrong(address: str, kind: type, told: str) -> None:
    with room() as here:
        got: list[Probe | Exception] = []
        here.port(1).transport.probe(address, 5.0, got.append)
        assert got == []
        here.until(lambda: got)
        assert type(got[0]) is kind
        assert told in str(got[0])


def test_a_question_to_another_cluster_is_told_as_that() -> None:
    with room() as here:
        one, theirs = here.port(1), here.port(2, cluster_id="theirs")
        got: list[Probe | Exception] = []
        one.transport.probe(theirs.transport.address, 5.0, got.append)
        here.until(lambda: got)
        assert isinstance(got[0], PeerRefusedError)
        assert got[0].reason is Reason.CLUSTER


def test_questions_under_way_are_bounded() -> None:
    with room() as here:
        one = here.port(1)
        for _ in range(RAFT_ASKS_MAX):
            one.transport.probe("127.0.0.1:1", 5.0, lambda _answer: None)
        with pytest.raises(LimitReachedError):
            one.transport.probe("127.0.0.1:1", 5.0, lambda _answer: None)


@pytest.mark.parametrize(
    ("secret", "bind", "told"),
    [(None, "0.0.0.0:0", "neither a secret nor TLS"), (b"short", "127.0.0.1:0", "less than 16 bytes")],
)
def test_settings_that_would_let_strangers_in_are_refused(secret: bytes | None, bind: str, told: str) -> None:
    poller, listener = Poller(), listen(bind)
    settings = TransportSettings(cluster_id=str, secret=secret)
    with pytest.raises(SettingsError, match=told):
        RaftTransport(settings, RaftNode.of(1, "127.0.0.1:1"), VOTER, poller, SystemClock(), listener)
    assert listener.fileno() == -1
    poller.close()


def test_without_a_secret_no_other_machine_is_dialed() -> None:
    with room() as here:
        got: list[Probe | Exception] = []
        here.port(1, secret=None).transport.probe("192.0.2.1:7650", 5.0, got.append)
        here.until(lambda: got)
        assert "neither a secret nor TLS" in str(got[0])


def test_settings_that_are_shown_do_not_show_the_secret() -> None:
    assert "bytes" not in repr(TransportSettings(cluster_id=str, secret=SECRET))


def test_an_address_in_use_is_told_with_the_next_step() -> None:
    listener = listen("127.0.0.1:0")
    with pytest.raises(SettingsError, match="a port that is free"):
        listen(listener.address)
    listener.close()
    with pytest.raises(SettingsError, match="an address of this machine"):
        listen("no-such-host.invalid:1")


def test_a_destroyed_port_calls_nobody_and_can_be_destroyed_again() -> None:
    with room() as here:
        one, two = here.group(1, 2)
        here.all_connected()
        one.told.clear()
        one.transport.destroy()
        one.transport.destroy()
        here.ports.remove(one)
        here.until(lambda: two.tells("disconnected"))
        assert one.told == []


def test_what_is_no_plain_data_is_not_sent_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with room() as here:
        one, two = here.group(1, 2)
        here.all_connected()
        assert not one.transport.send(two.node, {"type": object()})
        assert "a message cannot be sent: a value of type object is no plain data" in caplog.text
        assert one.transport.send(two.node, "next")
        here.until(lambda: two.messages() == ["next"])


def test_silence_is_given_more_time_than_an_election_takes() -> None:
    assert TransportSettings(cluster_id=str).silence_s_max == RAFT_SILENCE_S_MAX > 2 * 2.0

"""Both sides prove who they are before either takes a message, and nobody in between can help it."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.port.handshake import Handshake, Identity, Peer, Purpose, Side, make_hello, refusal
from danube.metadata.raft.port.refusals import Reason, RefusedError
from danube.metadata.raft.values.node import RaftNode
from danube.model.limits.metadata import RAFT_HELLO_BYTES_MAX, RAFT_UNPROVED_RECEIVE_BYTES
from tests.unit.metadata.raft.handshakes import CLUSTER, SECRET, acceptor, dialer, identity, nonce, shake


def refused(one: Handshake, other: Handshake) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        shake(one, other)
    assert one.peer is None
    return caught.value


def recorded() -> list[bytes]:
    """All that two members said to each other, in order."""
    one, other = dialer(), acceptor()
    said = []
    for sender, receiver in ((one, other), (other, one), (one, other), (other, one)):
        said.append(sender.take_output())
        receiver.receive(said[-1])
    return said


def test_two_members_with_the_same_secret_know_each_other() -> None:
    one, other = dialer(purpose=Purpose.ASK), acceptor()
    shake(one, other)
    assert one.peer == Peer(identity=identity(1), purpose=Purpose.MEMBER)
    assert other.peer == Peer(identity=identity(2), purpose=Purpose.ASK)


def test_each_direction_has_a_key_of_its_own_and_each_session_too() -> None:
    keys = set()
    for _ in range(2):
        one, other = dialer(), acceptor()
        shake(one, other)
        assert one.keys is not None
        assert other.keys is not None
        assert (one.keys.send, one.keys.receive) == (other.keys.receive, other.keys.send)
        keys |= {one.keys.send, one.keys.receive}
    assert len(keys) == 4


def test_without_a_secret_there_are_no_keys() -> None:
    one, other = dialer(secret=None), acceptor(secret=None)
    shake(one, other)
    assert (one.keys, other.keys) == (None, None)
    assert one.peer is not None


def test_another_secret_is_refused() -> None:
    error = refused(dialer(secret=b"another secret, long enough"), acceptor())
    assert (error.reason, error.by_peer) == (Reason.SECRET_WRONG, False)


def test_an_acceptor_shows_no_proof_before_the_dialer_has_proved_itself() -> None:
    one, other = dialer(secret=b"another secret, long enough"), acceptor()
    other.receive(one.take_output())
    one.receive(other.take_output())
    with pytest.raises(RefusedError):
        other.receive(one.take_output())
    assert other.take_output() == b""


@pytest.mark.parametrize(
    ("secrets", "reason"),
    [((None, SECRET), Reason.SECRET_MISSING), ((SECRET, None), Reason.SECRET_UNWANTED)],
    ids=["the dialer has none", "the acceptor has none"],
)
def test_who_has_a_secret_does_not_go_without(secrets: tuple[bytes | None, bytes | None], reason: Reason) -> None:
    assert refused(dialer(secret=secrets[0]), acceptor(secret=secrets[1])).reason is reason


def test_a_dialer_with_a_secret_refuses_an_acceptor_that_says_it_needs_none() -> None:
    one, downgraded = dialer(), acceptor(secret=None)
    with pytest.raises(RefusedError):
        downgraded.receive(one.take_output())
    unknown_peer = dialer(secret=None)
    with pytest.raises(RefusedError) as caught:
        one.receive(unknown_peer.take_output())
    assert caught.value.reason is Reason.SECRET_MISSING
    assert one.take_output() == b""


def test_another_cluster_is_refused_with_both_names() -> None:
    error = refused(dialer(cluster_id="theirs"), acceptor())
    assert error.reason is Reason.CLUSTER
    assert "'theirs'" in str(error)
    assert f"'{CLUSTER}'" in str(error)


def test_a_member_that_knows_no_cluster_yet_may_connect() -> None:
    one, other = dialer(cluster_id=""), acceptor()
    shake(one, other)
    assert one.peer is not None
    assert one.peer.identity.cluster_id == CLUSTER


def test_a_member_knows_its_own_port_by_its_nonces() -> None:
    own = nonce()
    assert refused(dialer(1, nonce=own), acceptor(1, issued={own})).reason is Reason.SELF


def test_another_process_with_the_same_node_id_is_refused() -> None:
    assert refused(dialer(1), acceptor(1)).reason is Reason.COPY


def test_another_member_than_the_one_that_was_dialed_is_refused() -> None:
    for expected in (RaftNode.of(7, "10.0.0.1:7650"), RaftNode.of(1, "10.0.0.9:7650")):
        assert refused(dialer(expected=expected), acceptor()).reason is Reason.IDENTITY


def test_whom_the_acceptor_does_not_admit_gets_no_proof() -> None:
    def admit(peer: Peer) -> None:
        raise RefusedError(Reason.UNKNOWN_MEMBER, f"{peer.identity.node.id} is not known")

    one, other = dialer(), acceptor(admit=admit)
    assert refused(one, other).reason is Reason.UNKNOWN_MEMBER
    assert other.take_output() == b""


def test_nobody_is_asked_to_admit_a_peer_that_proved_nothing() -> None:
    asked: list[Peer] = []
    refused(dialer(secret=b"another secret, long enough"), acceptor(admit=asked.append))
    assert asked == []


def test_a_recorded_dialer_proves_nothing_to_another_handshake() -> None:
    hello, _, proof, _ = recorded()
    other = acceptor()
    other.receive(hello)
    with pytest.raises(RefusedError) as caught:
        other.receive(proof)
    assert caught.value.reason is Reason.SECRET_WRONG


def test_a_recorded_acceptor_proves_nothing_to_another_handshake() -> None:
    _, hello, _, proof = recorded()
    one = dialer()
    one.receive(hello)
    with pytest.raises(RefusedError) as caught:
        one.receive(proof)
    assert caught.value.reason is Reason.SECRET_WRONG


def test_what_a_dialer_said_proves_nothing_when_it_is_sent_back() -> None:
    one = dialer()
    with pytest.raises(RefusedError) as caught:
        one.receive(one.take_output())
    assert caught.value.reason is Reason.SELF


def test_a_dialer_proof_is_no_acceptor_proof() -> None:
    one, other = dialer(), acceptor()
    other.receive(one.take_output())
    one.receive(other.take_output())
    with pytest.raises(RefusedError) as caught:
        one.receive(one.take_output())
    assert caught.value.reason is Reason.SECRET_WRONG


def test_a_member_cannot_be_made_to_prove_for_a_stranger() -> None:
    """The unknown peer stands between one member's handshake with it and its own with another member."""
    victim, target, unknown_peer = dialer(2), acceptor(1), acceptor(3)
    target.receive(dialer(3).take_output())
    unknown_peer.receive(victim.take_output())
    victim.receive(unknown_peer.take_output())
    with pytest.raises(RefusedError):
        target.receive(victim.take_output())


@pytest.mark.parametrize("at", range(4), ids=["dialer hello", "acceptor hello", "dialer proof", "acceptor proof"])
def test_whatever_bit_is_changed_on_the_way_the_handshake_fails(at: int) -> None:
    for place in range(2, len(recorded()[at])):
        for bit in range(8):
            one, other = dialer(), acceptor()
            with pytest.raises(RefusedError):
                shake_changed(one, other, at, place, 1 << bit)
            assert one.peer is None


def shake_changed(one: Handshake, other: Handshake, at: int, place: int, change: int) -> None:
    """A handshake of which somebody in between changes one byte of one message."""
    for number, (sender, receiver) in enumerate([(one, other), (other, one)] * 2):
        said = bytearray(sender.take_output())
        if number == at:
            said[place] ^= change
        receiver.receive(bytes(said))


def test_a_hello_has_the_layout_that_is_drawn() -> None:
    packed = make_hello(identity(7), Purpose.ASK, b"n" * 32, has_secret=True).packed
    start = bytes((1, *b"DnRaft", 1, 1, 1, 0))
    assert packed == start + b"n" * 32 + (7).to_bytes(8, "little") + b"\x09cluster-1" + b"\x0d10.0.0.7:7650"


@given(some.lists(some.integers(1, 5), max_size=8))
def test_messages_may_come_in_any_pieces(sizes: list[int]) -> None:
    one, other = dialer(), acceptor()
    for sender, receiver in ((one, other), (other, one)) * 2:
        said = sender.take_output()
        for size in [*sizes, len(said)]:
            receiver.receive(said[:size])
            said = said[size:]
    assert one.peer is not None
    assert other.peer is not None


def test_what_comes_behind_the_handshake_is_kept() -> None:
    one, other = dialer(), acceptor()
    other.receive(one.take_output())
    one.receive(other.take_output())
    other.receive(one.take_output())
    one.receive(other.take_output() + b"frames")
    assert one.rest == b"frames"


def test_a_length_is_refused_before_anything_of_it_is_kept() -> None:
    for length in (0, RAFT_HELLO_BYTES_MAX + 1, 0xFFFF):
        with pytest.raises(RefusedError, match="protocol of this port"):
            acceptor().receive(length.to_bytes(2, "little"))


def test_what_is_kept_of_an_unproved_peer_is_bounded() -> None:
    other = acceptor()
    with pytest.raises(RefusedError):
        other.receive(b"\xff\x01" + bytes(RAFT_UNPROVED_RECEIVE_BYTES))
    assert len(other.rest) < RAFT_UNPROVED_RECEIVE_BYTES


def test_another_version_is_told_as_such() -> None:
    said = bytearray(dialer().take_output())
    said[9] = 2
    with pytest.raises(RefusedError, match="version 2 of the protocol of this port and this member 1"):
        acceptor().receive(bytes(said))


@pytest.mark.parametrize("reason", Reason)
def test_the_reason_of_the_other_side_is_told_with_the_next_step(reason: Reason) -> None:
    one = dialer()
    with pytest.raises(RefusedError, match="it refused this member: ") as caught:
        one.receive(refusal(reason))
    assert (caught.value.reason, caught.value.by_peer) == (reason, True)


@pytest.mark.parametrize("packed", [b"\x01\x00\x03", b"\x02\x00\x03\xff", b"\x03\x00\x03\x01\x01"])
def test_a_refusal_that_says_nothing_known_is_one(packed: bytes) -> None:
    with pytest.raises(RefusedError, match="without a reason"):
        dialer().receive(packed)


def test_no_error_shows_the_secret() -> None:
    others = (None, CLUSTER), (b"another secret, long enough", CLUSTER), (SECRET, "theirs")
    errors = [refused(dialer(), acceptor(secret=secret, cluster_id=cluster)) for secret, cluster in others]
    assert "secret of" not in repr(errors)
    assert "another secret, long" not in repr(errors)


@pytest.mark.parametrize("cluster_id", ["\x1b[2J", "a\nb", "\u202e"])
def test_names_that_are_not_printable_are_refused(cluster_id: str) -> None:
    packed = cluster_id.encode()
    said = dialer(cluster_id="x" * len(packed)).take_output().replace(b"x" * len(packed), packed)
    with pytest.raises(RefusedError, match="protocol of this port"):
        acceptor().receive(said)


def test_the_largest_identity_fits_the_bound() -> None:
    own = Identity(node=RaftNode.of(2**64 - 1, "h" * 249 + ":65535"), role=MemberRole.LEARNER, cluster_id="c" * 200)
    one = Handshake(Side.DIALER, own, SECRET, nonce=nonce())
    other = acceptor(cluster_id="")
    shake(one, other)
    assert other.peer is not None
    assert other.peer.identity == own

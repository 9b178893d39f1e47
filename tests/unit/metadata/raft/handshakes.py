"""Two sides of a handshake without sockets, and the attacker's hand between them."""

import itertools
from collections.abc import Sequence
from typing import Any

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.port.handshake import Handshake, Identity, Side
from danube.metadata.raft.port.session import Event, Session
from danube.metadata.raft.values.node import RaftNode

SECRET = b"a secret of thirty-two bytes ..."
CLUSTER = "cluster-1"
_numbers = itertools.count(1)


def identity(node_id: int, cluster_id: str = CLUSTER, role: MemberRole = MemberRole.VOTER) -> Identity:
    return Identity(node=RaftNode.of(node_id, f"10.0.0.{node_id % 256}:7650"), role=role, cluster_id=cluster_id)


def nonce() -> bytes:
    """Another one each time, and the same in every run."""
    return next(_numbers).to_bytes(32, "big")


def dialer(node_id: int = 2, secret: bytes | None = SECRET, cluster_id: str = CLUSTER, **more: Any) -> Handshake:
    return Handshake(
        Side.DIALER, identity(node_id, cluster_id), secret, nonce=more.pop("nonce", None) or nonce(), **more
    )


def acceptor(node_id: int = 1, secret: bytes | None = SECRET, cluster_id: str = CLUSTER, **more: Any) -> Handshake:
    return Handshake(Side.ACCEPTOR, identity(node_id, cluster_id), secret, nonce=nonce(), **more)


def shake(one: Handshake, other: Handshake) -> None:
    """Carry all that both have to say to the other. Raises RefusedError of whoever refuses."""
    while (said := one.take_output()) or (answered := other.take_output()):
        if said:
            other.receive(said)
        else:
            one.receive(answered)


def session(handshake: Handshake, now_s: float = 0.0) -> Session:
    return Session(handshake, None, now_s, silence_s_max=3.0)


def carry(sender: Session, receiver: Session, now_s: float = 0.0) -> Sequence[Event]:
    """What is on the way arrives; answers what the receiver makes of it."""
    return receiver.receive(b"".join(sender.take_output()), now_s)


def sessions() -> tuple[Session, Session]:
    """A dialer and an acceptor that have proved themselves to each other."""
    one, other = session(dialer()), session(acceptor())
    for _ in range(2):
        carry(one, other)
        carry(other, one)
    assert one.peer is not None
    assert other.peer is not None
    return one, other

"""Who a member says it is, as bytes: the HELLO of the handshake. Little-endian:

    at  bytes  field
    0   1      1
    1   6      magic "DnRaft"
    7   1      version, 1
    8   1      mode: 0 without, 1 with a secret
    9   1      purpose: 0 member of the group, 1 to ask a question
    10  1      role: 0 voter, 1 learner
    11  32     nonce
    43  8      node id
    51  1 + n  cluster id, empty while it is unknown
    ..  1 + n  address, host:port

Both texts are printable ASCII. The version stands where every version will have it.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.core.node import RaftNode
from danube.metadata.raft.port.refusals import Reason, RefusedError, garbage
from danube.model.errors import InvalidRequestError

KIND = 1
"""The first byte of a HELLO."""
NONCE_BYTES = 32

_MAGIC = b"DnRaft"
_VERSION = 1
_START = struct.Struct("<B6sBBBB32sQ")
_ROLES = (MemberRole.VOTER, MemberRole.LEARNER)


class Purpose(IntEnum):
    """What a connection is for."""

    MEMBER = 0
    """Messages of Raft."""
    ASK = 1
    """One question and its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a member says it is."""

    node: RaftNode
    role: MemberRole
    cluster_id: str
    """Empty while it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other side of a connection."""

    identity: Identity
    purpose: Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What one side says first, and the bytes that it says it in."""

    packed: bytes
    has_secret: bool
    nonce: bytes
    peer: Peer


def make_hello(own: Identity, purpose: Purpose, nonce: bytes, *, has_secret: bool) -> Hello:
    """What this side says."""
    role = _ROLES.index(own.role)
    start = _START.pack(KIND, _MAGIC, _VERSION, has_secret, purpose, role, nonce, own.node.node_id)
    packed = start + b"".join(_pack_text(text) for text in (own.cluster_id, own.node.address))
    return Hello(packed=packed, has_secret=has_secret, nonce=nonce, peer=Peer(identity=own, purpose=purpose))


def read_hello(packed: bytes) -> Hello:
    """What the other side says. Raises RefusedError."""
    if len(packed) < 8 or packed[:7] != bytes((KIND,)) + _MAGIC:
        raise garbage()
    if packed[7] != _VERSION:
        raise RefusedError(
            Reason.VERSION,
            f"it speaks version {packed[7]} of the protocol of this port and this member {_VERSION}: run the same "
            "release on all members",
        )
    try:
        _, _, _, mode, purpose, role, nonce, node_id = _START.unpack_from(packed)
        cluster_id, address = _read_texts(packed[_START.size :])
        identity = Identity(node=RaftNode.of(node_id, address), role=_ROLES[role], cluster_id=cluster_id)
        peer = Peer(identity=identity, purpose=Purpose(purpose))
        return Hello(packed=packed, has_secret=(False, True)[mode], nonce=nonce, peer=peer)
    except (struct.error, ValueError, IndexError, InvalidRequestError) as error:
        raise garbage() from error


def _pack_text(text: str) -> bytes:
    packed = text.encode("ascii")
    return bytes((len(packed),)) + packed


def _read_texts(packed: bytes) -> Sequence[str]:
    """The two texts that `packed` is, and nothing behind them. Raises ValueError, IndexError."""
    first = packed[0] + 1
    if first + packed[first] + 1 != len(packed):
        raise ValueError("no two texts")
    texts = packed[1:first].decode("ascii"), packed[first + 1 :].decode("ascii")
    if not all(text.isprintable() for text in texts):
        raise ValueError("unprintable")
    return texts

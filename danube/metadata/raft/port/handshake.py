"""Handshake of two members: HELLOs, proofs and session keys, before a byte of either is a command. No I/O.

    dialer                                   acceptor
      HELLO  ->
      <-  HELLO
      PROOF  HMAC-SHA256(key of the dialer's proof, transcript)  ->
      <-  PROOF  HMAC-SHA256(key of the acceptor's proof, transcript)

The dialer proves first: an unknown peer gets nothing that was made with the secret. The transcript is the SHA-256 of
both HELLOs, so nothing in them can be changed on the way, and nothing of another connection fits. Keys, one for each
proof and one for each direction of frames, are HKDF-SHA256 (RFC 5869) of the secret, with both nonces as its salt and a
label with the transcript as its info. Without a secret (TLS proves, or all is on loopback) proofs are empty and frames
have no MAC. Either both sides have a secret or none.

Each message is a u16 length, little-endian, and a byte for its kind: 1 HELLO, 2 PROOF with 0 or 32 bytes, 3 a refusal
with a byte for its `Reason`. A refusal is not authenticated and means no more than a lost connection.

HELLO, little-endian, both texts printable ASCII; the version stands where every version will have it:

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
"""

import hashlib
import hmac
import struct
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.port.refusals import Reason, RefusedError, garbage, refused_by_peer, shown
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import RAFT_HELLO_BYTES_MAX

KIND = 1
"""The first byte of a HELLO."""
NONCE_BYTES = 32

_MAGIC = b"DnRaft"
_VERSION = 1
_START = struct.Struct("<B6sBBBB32sQ")
_ROLES = (MemberRole.VOTER, MemberRole.LEARNER)


class Purpose(IntEnum):
    """Purpose of a connection."""

    MEMBER = 0
    """Messages of Raft."""
    ASK = 1
    """One question and its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Claimed identity of a member."""

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
    """HELLO of one side, and its bytes."""

    packed: bytes
    has_secret: bool
    nonce: bytes
    peer: Peer


def make_hello(own: Identity, purpose: Purpose, nonce: bytes, *, has_secret: bool) -> Hello:
    """HELLO of this side."""
    role = _ROLES.index(own.role)
    start = _START.pack(KIND, _MAGIC, _VERSION, has_secret, purpose, role, nonce, own.node.node_id)
    packed = start + b"".join(_pack_text(text) for text in (own.cluster_id, own.node.address))
    return Hello(packed=packed, has_secret=has_secret, nonce=nonce, peer=Peer(identity=own, purpose=purpose))


def read_hello(packed: bytes) -> Hello:
    """HELLO of the other side. Raises RefusedError."""
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


_PROOF, _REFUSAL = 2, 3
_LENGTH = struct.Struct("<H")


class Side(Enum):
    """Side of a connection."""

    DIALER = "dialer"
    ACCEPTOR = "acceptor"

    @property
    def other(self) -> "Side":
        return Side.ACCEPTOR if self is Side.DIALER else Side.DIALER


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Keys of the frames that this side sends and receives."""

    send: bytes
    receive: bytes


class Handshake:
    """One side of one handshake. Bytes go into `receive`, what must be sent comes out of `take_output`.

    `expected` is whom a dialer connects to, None if anybody; `issued` are nonces of this member's own handshakes, by
    which it knows itself; `admit` raises RefusedError for a peer that has proved itself and is not wanted. Once `peer`
    is there both have proved themselves, and `rest` is what came behind the handshake.
    """

    def __init__(
        self,
        side: Side,
        own: Identity,
        secret: bytes | None,
        *,
        nonce: bytes,
        purpose: Purpose = Purpose.MEMBER,
        expected: RaftNode | None = None,
        issued: Container[bytes] = (),
        admit: Callable[[Peer], None] = lambda _peer: None,
    ) -> None:
        self._side = side
        self._secret = secret
        self._expected = expected
        self._issued = issued
        self._admit = admit
        self._own = make_hello(own, purpose, nonce, has_secret=secret is not None)
        self._other: Hello | None = None
        self.is_proof_sent = False
        """True once the other side may have this side's proof: what it gets then should be frames."""
        self._proofs = {Side.DIALER: b"", Side.ACCEPTOR: b""}
        self._received = bytearray()
        self._output: list[bytes] = []
        self.keys: SessionKeys | None = None
        """None without a secret."""
        self.peer: Peer | None = None
        if side is Side.DIALER:
            self._send(self._own.packed)

    def receive(self, data: bytes) -> None:
        """Take in what came. Raises RefusedError."""
        self._received += data
        while self.peer is None and (message := self._next()) is not None:
            if message[0] == _REFUSAL:
                raise refused_by_peer(message[1:])
            if self._other is None:
                self._accept_hello(read_hello(message))
            else:
                self._accept_proof(message, self._other)

    def take_output(self) -> bytes:
        """Bytes to send now."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    @property
    def rest(self) -> bytes:
        """Bytes received behind the handshake."""
        return bytes(self._received)

    def _next(self) -> bytes | None:
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if not 0 < length <= RAFT_HELLO_BYTES_MAX:
            raise garbage()
        if len(self._received) < _LENGTH.size + length:
            return None
        message = bytes(self._received[_LENGTH.size : _LENGTH.size + length])
        del self._received[: _LENGTH.size + length]
        return message

    def _accept_hello(self, other: Hello) -> None:
        self._check_secret(other)
        self._check_identity(other)
        self._other = other
        if self._secret is not None:
            self._derive(self._secret, other)
        if self._side is Side.ACCEPTOR:
            self._send(self._own.packed)
        else:
            self._send_proof()

    def _accept_proof(self, message: bytes, other: Hello) -> None:
        if message[0] != _PROOF:
            raise garbage()
        if not hmac.compare_digest(message[1:], self._proofs[self._side.other]):
            raise RefusedError(
                Reason.SECRET_WRONG, "it has another secret: give all members of the cluster the same one"
            )
        if self._side is Side.ACCEPTOR:
            self._admit(other.peer)
            self._send_proof()
        self.peer = other.peer

    def _check_secret(self, other: Hello) -> None:
        if other.has_secret and self._secret is None:
            raise RefusedError(
                Reason.SECRET_UNWANTED, "it wants a secret and this member has none: give it the same one"
            )
        if self._secret is not None and not other.has_secret:
            raise RefusedError(
                Reason.SECRET_MISSING, "it has no secret and this member has one: give it the same, to prove itself"
            )

    def _check_identity(self, other: Hello) -> None:
        mine, theirs = self._own.peer.identity, other.peer.identity
        if other.nonce in self._issued or other.nonce == self._own.nonce:
            raise RefusedError(Reason.SELF, "it is this member itself")
        if theirs.node.node_id == mine.node.node_id:
            raise RefusedError(
                Reason.COPY, f"it has the node id of this member, {mine.node.node_id}: each needs its own data folder"
            )
        if mine.cluster_id and theirs.cluster_id and theirs.cluster_id != mine.cluster_id:
            raise RefusedError(
                Reason.CLUSTER,
                f"it belongs to the cluster {shown(theirs.cluster_id)} and this member to {shown(mine.cluster_id)}: "
                "check the seeds and the addresses of both",
            )
        if self._expected is not None and theirs.node != self._expected:
            raise RefusedError(
                Reason.IDENTITY,
                f"{self._expected.id} was expected there and {theirs.node.id} answers: if the data folder was lost, "
                "remove the old member and add the new one; if the address changed, give it the old one",
            )

    def _derive(self, secret: bytes, other: Hello) -> None:
        """Work out the proofs and keys, once both have said who they are."""
        dialer, acceptor = (self._own, other) if self._side is Side.DIALER else (other, self._own)
        transcript = hashlib.sha256(_framed(dialer.packed) + _framed(acceptor.packed)).digest()
        extracted = hmac.digest(dialer.nonce + acceptor.nonce, secret, "sha256")  # HKDF-Extract
        frames = {}
        for side in Side:
            frames[side] = _expand(extracted, b"danube raft 1 frames " + side.value.encode() + transcript)
            key = _expand(extracted, b"danube raft 1 proof " + side.value.encode() + transcript)
            self._proofs[side] = hmac.digest(key, transcript, "sha256")
        self.keys = SessionKeys(frames[self._side], frames[self._side.other])

    def _send(self, message: bytes) -> None:
        self._output.append(_framed(message))

    def _send_proof(self) -> None:
        self.is_proof_sent = True
        self._send(bytes((_PROOF,)) + self._proofs[self._side])


def refusal(reason: Reason) -> bytes:
    """Message that tells the other side why the handshake ends."""
    return _framed(bytes((_REFUSAL, reason)))


def _framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


def _expand(key: bytes, info: bytes) -> bytes:
    """HKDF-Expand for one block, which is all that is needed."""
    return hmac.digest(key, info + b"\x01", "sha256")

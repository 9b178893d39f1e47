"""How two members prove to each other who they are, before a byte of either is a command. No I/O: bytes in, bytes out.

    dialer                                   acceptor
      HELLO  see `hello`  ->
      <-  HELLO
      PROOF  HMAC-SHA256(key of the dialer's proof, transcript)  ->
      <-  PROOF  HMAC-SHA256(key of the acceptor's proof, transcript)

The dialer proves first: a stranger who connects gets nothing that was made with the secret. The transcript is the
SHA-256 of both HELLOs, so nothing in them can be changed on the way, and both nonces are in it, so nothing of another
connection fits. The keys, one for each proof and one for each direction of frames, are HKDF-SHA256 (RFC 5869) of the
secret, with both nonces as its salt and a label with the transcript as its info: what one side sent never passes for
what the other should send. Without a secret (TLS proves, or all is on loopback) the proofs are empty and frames have no
MAC. Either both sides have a secret or none: a side that has one never goes without.

Each message is a u16 length, little-endian, and a byte that says which it is: 1 HELLO, 2 PROOF with 0 or 32 bytes, 3 a
side goes no further, and a byte with its `Reason`. The last is not authenticated, and means no more than a lost
connection.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum

from danube.metadata.raft.core.node import RaftNode
from danube.metadata.raft.handshake.hello import Hello, Identity, Peer, Purpose, make_hello, read_hello
from danube.metadata.raft.port.refusals import Reason, RefusedError, garbage, refused_by_peer, shown
from danube.model.limits.metadata import RAFT_HELLO_BYTES_MAX

_PROOF, _REFUSAL = 2, 3
_LENGTH = struct.Struct("<H")


class Side(Enum):
    """Who connected."""

    DIALER = "dialer"
    ACCEPTOR = "acceptor"

    @property
    def other(self) -> "Side":
        """The other one."""
        return Side.ACCEPTOR if self is Side.DIALER else Side.DIALER


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Of the frames that this side sends and receives."""

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
        self._is_proof_said = False
        self._proofs = {Side.DIALER: b"", Side.ACCEPTOR: b""}
        self._received = bytearray()
        self._output: list[bytes] = []
        self.keys: SessionKeys | None = None
        """Of this session; None without a secret."""
        self.peer: Peer | None = None
        if side is Side.DIALER:
            self._say(self._own.packed)

    def receive(self, data: bytes) -> None:
        """Take in what came. Raises RefusedError."""
        self._received += data
        while self.peer is None and (message := self._next()) is not None:
            if message[0] == _REFUSAL:
                raise refused_by_peer(message[1:])
            if self._other is None:
                self._take_hello(read_hello(message))
            else:
                self._take_proof(message, self._other)

    def take_output(self) -> bytes:
        """What must be sent now."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    @property
    def is_proof_said(self) -> bool:
        """Whether the other side may have this side's proof: what it gets then should be frames."""
        return self._is_proof_said

    @property
    def rest(self) -> bytes:
        """What came and is no part of the handshake."""
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

    def _take_hello(self, other: Hello) -> None:
        self._check_secret(other)
        self._check_identity(other)
        self._other = other
        if self._secret is not None:
            self._derive(self._secret, other)
        if self._side is Side.ACCEPTOR:
            self._say(self._own.packed)
        else:
            self._say_proof()

    def _take_proof(self, message: bytes, other: Hello) -> None:
        if message[0] != _PROOF:
            raise garbage()
        if not hmac.compare_digest(message[1:], self._proofs[self._side.other]):
            raise RefusedError(
                Reason.SECRET_WRONG, "it has another secret: give all members of the cluster the same one"
            )
        if self._side is Side.ACCEPTOR:
            self._admit(other.peer)
            self._say_proof()
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

    def _say(self, message: bytes) -> None:
        self._output.append(_framed(message))

    def _say_proof(self) -> None:
        self._is_proof_said = True
        self._say(bytes((_PROOF,)) + self._proofs[self._side])


def refusal(reason: Reason) -> bytes:
    """What tells the other side of the handshake why it ends."""
    return _framed(bytes((_REFUSAL, reason)))


def _framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


def _expand(key: bytes, info: bytes) -> bytes:
    """HKDF-Expand for one block, which is all that is needed."""
    return hmac.digest(key, info + b"\x01", "sha256")

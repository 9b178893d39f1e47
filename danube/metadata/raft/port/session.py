"""Session of two members without its socket: TLS, handshake and frames, one in the other.

    records  <->  TlsPipe, if there is TLS  <->  Handshake, then FrameReader and FrameWriter  <->  plain data

Bytes and times go in, events come out, and `take_output` has what to send. Until the peer has authenticated, its bytes
are read as a handshake only, in a bounded number and a bounded time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from danube.metadata.raft.port.frames import FrameReader, FrameWriter
from danube.metadata.raft.port.handshake import Handshake, Peer, refusal
from danube.metadata.raft.port.refusals import Reason, RefusedError, garbage
from danube.metadata.raft.port.tls import TlsPipe
from danube.metadata.raft.values import encoding
from danube.model.limits.metadata import (
    RAFT_HANDSHAKE_TIMEOUT_S,
    RAFT_PING_S,
    RAFT_RECEIVE_BYTES,
    RAFT_TLS_HANDSHAKE_BYTES_MAX,
    RAFT_UNPROVED_RECEIVE_BYTES,
)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Both sides have proved who they are."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class Received:
    """The peer sent a message."""

    message: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection ends: once what is in `take_output` is sent, nothing more comes or goes."""

    error: RefusedError


Event = Authenticated | Received | Refused


class Session:
    """One side of a connection; `handshake` is fresh, `tls` its way out, if there is TLS."""

    def __init__(self, handshake: Handshake, tls: TlsPipe | None, now_s: float, *, silence_s_max: float) -> None:
        self._handshake = handshake
        self._tls = tls
        self._reader: FrameReader | None = None
        self._writer: FrameWriter | None = None
        self._started_s = self._sent_s = self._received_s = now_s
        self._silence_s_max = silence_s_max
        self._suspected = False
        self._tls_bytes_left = RAFT_TLS_HANDSHAKE_BYTES_MAX
        self._output: list[bytes] = []
        self.ended = False
        self._pass_on(handshake.take_output())

    @property
    def peer(self) -> Peer | None:
        """The other side, once it has authenticated."""
        return self._handshake.peer

    @property
    def read_bytes(self) -> int:
        """Bytes to read from the socket at once."""
        return RAFT_UNPROVED_RECEIVE_BYTES if self.peer is None else RAFT_RECEIVE_BYTES

    def receive(self, data: bytes, now_s: float) -> Sequence[Event]:
        """Take in what came from the socket. After Refused nothing is taken any more."""
        if self.ended:
            return ()
        self._received_s = now_s
        self._suspected = self._suspected and self.peer is None
        events: list[Event] = []
        try:
            self._receive(self._opened(self._tls, data) if self._tls else data, events)
        except RefusedError as error:
            events.append(self.refuse(error.with_traceback(None)))  # which would hold what was received
        self._pass_on(b"")
        return events

    def send(self, message: Any, now_s: float) -> None:  # noqa: ANN401 - plain data
        """Have a message sent; the peer must have proved itself. Raises EncodingError for one that cannot be."""
        self._send_frame(encoding.dumps(message), now_s)

    def tick(self, now_s: float) -> Refused | None:
        """Let time pass: end a connection whose peer is too slow or silent, and say that this side is there.

        Silence is told from this side having been away by asking twice: what came meanwhile is received in between.
        """
        if self.ended:
            return None
        if self._is_late(now_s):
            if self._suspected:
                return self.refuse(RefusedError(Reason.TIMEOUT, self._late_text()))
            self._suspected = True
        elif self._writer is not None and now_s - self._sent_s > RAFT_PING_S:
            self._send_frame(b"", now_s)
        return None

    def refuse(self, error: RefusedError) -> Refused:
        """End the connection, and tell the peer why if it is still in the handshake."""
        if not (error.by_peer or self._handshake.is_proof_sent):
            self._pass_on(refusal(error.reason))
        self.ended = True
        return Refused(error)

    def take_output(self) -> Sequence[bytes]:
        """Chunks to send now, in order."""
        output, self._output = self._output, []
        return output

    def _opened(self, tls: TlsPipe, records: bytes) -> bytes:
        if not tls.is_ready:
            self._tls_bytes_left -= len(records)
            if self._tls_bytes_left < 0:
                raise garbage()
        return tls.receive(records)

    def _receive(self, data: bytes, events: list[Event]) -> None:
        if self._reader is None:
            self._handshake.receive(data)
            self._pass_on(self._handshake.take_output())
            if self._handshake.peer is None:
                return
            keys = self._handshake.keys
            self._reader = FrameReader(keys.receive if keys else None)
            self._writer = FrameWriter(keys.send if keys else None)
            events.append(Authenticated(self._handshake.peer))
            data = self._handshake.rest
        events.extend(Received(_message(payload)) for payload in self._reader.receive(data))

    def _send_frame(self, payload: bytes, now_s: float) -> None:
        if self._writer is None:
            raise ValueError("nothing is sent to a peer that has not proved who it is")
        if self.ended:
            return
        self._sent_s = now_s
        for part in self._writer.frame(payload):
            self._pass_on(part)

    def _pass_on(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.send(data)
            data = self._tls.take_output()
        if data:
            self._output.append(data)

    def _is_late(self, now_s: float) -> bool:
        if self.peer is None:
            return now_s - self._started_s > RAFT_HANDSHAKE_TIMEOUT_S
        return now_s - self._received_s > self._silence_s_max

    def _late_text(self) -> str:
        if self.peer is None:
            return f"it has not proved who it is within {RAFT_HANDSHAKE_TIMEOUT_S:g} s"
        return f"nothing came from it for {self._silence_s_max:g} s"


def _message(payload: bytes) -> Any:  # noqa: ANN401 - plain data
    try:
        return encoding.loads(payload)
    except encoding.EncodingError as error:
        raise RefusedError(Reason.GARBAGE, f"it sent what is no message: {error}") from error

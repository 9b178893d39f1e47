"""Messages of an authenticated connection as frames. No I/O: bytes in, bytes out.

    u32 length, little-endian | payload | MAC, 16 bytes, if the session has keys

The MAC is the first half of HMAC-SHA256, with the key of this direction of this session, over a u64 counter of the
frames so far, the length and the payload: a frame that is changed, left out, repeated, put elsewhere, sent back or
taken from another session does not pass. A frame without payload says that the sender is there.
"""

import hmac
import struct

from danube.metadata.raft.port.refusals import Reason, RefusedError
from danube.model.limits.metadata import RAFT_FRAME_BYTES_MAX

MAC_BYTES = 16

_LENGTH = struct.Struct("<I")
_COUNTED = struct.Struct("<QI")


class FrameWriter:
    """Makes the frames of one direction."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._count = 0

    def frame(self, payload: bytes) -> tuple[bytes, ...]:
        """The parts of the next frame; all must be sent, in order. Raises ValueError when it is too large."""
        if len(payload) > RAFT_FRAME_BYTES_MAX:
            raise ValueError(f"a message of {len(payload)} bytes is too large: {RAFT_FRAME_BYTES_MAX} is the most")
        length = _LENGTH.pack(len(payload))
        if self._key is None:
            return length, payload
        mac = mac_of(self._key, self._count, payload)
        self._count += 1
        return length, payload, mac


class FrameReader:
    """Takes the frames of one direction apart. It never keeps more than one frame that is not whole."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._tail_bytes = 0 if key is None else MAC_BYTES
        self._count = 0
        self._received = bytearray()

    def receive(self, data: bytes) -> list[bytes]:
        """The payloads that are whole now, but for empty ones. Raises RefusedError for what is no frame of it."""
        self._received += data
        payloads, at = [], 0
        while (end := self._end_of(at)) is not None:
            start = at + _LENGTH.size
            payload = bytes(memoryview(self._received)[start : end - self._tail_bytes])
            self._check(payload, self._received[end - self._tail_bytes : end])
            if payload:
                payloads.append(payload)
            at = end
        del self._received[:at]
        return payloads

    def _end_of(self, at: int) -> int | None:
        """End of the frame at `at`, if all of it is there."""
        if len(self._received) - at < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received, at)
        if length > RAFT_FRAME_BYTES_MAX:
            raise RefusedError(
                Reason.GARBAGE, f"it sent a frame of {length} bytes, and {RAFT_FRAME_BYTES_MAX} is the most"
            )
        end: int = at + _LENGTH.size + length + self._tail_bytes
        return end if end <= len(self._received) else None

    def _check(self, payload: bytes, mac: bytearray) -> None:
        if self._key is None:
            return
        if not hmac.compare_digest(mac, mac_of(self._key, self._count, payload)):
            raise RefusedError(
                Reason.GARBAGE,
                "a frame was changed, repeated or left out on the way: use TLS if the network is not yours",
            )
        self._count += 1


def mac_of(key: bytes, count: int, payload: bytes) -> bytes:
    """The MAC of the frame with this payload, `count` frames after the first one."""
    return hmac.digest(key, _COUNTED.pack(count, len(payload)) + payload, "sha256")[:MAC_BYTES]

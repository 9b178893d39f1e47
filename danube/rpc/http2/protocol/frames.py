"""Frames of HTTP/2 as bytes (RFC 9113, sections 4, 6 and 7).

```
length u24 | kind u8 | flags u8 | stream u32 | payload
```
"""

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
FRAME_BYTES_DEFAULT: Final = 16_384
FRAME_BYTES_LIMIT: Final = (1 << 24) - 1
WINDOW_DEFAULT: Final = 65_535
WINDOW_LIMIT: Final = (1 << 31) - 1
STREAM_ID_LIMIT: Final = (1 << 31) - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20


class ErrorCode(IntEnum):
    """Reasons of RST_STREAM and GOAWAY."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Setting(IntEnum):
    """Names of settings."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


_SETTING: Final = struct.Struct(">HI")
_FRAME: Final = struct.Struct(">HBBBI")
unpack_header: Final = _FRAME.unpack_from
"""Length's upper 16 bits and lower 8, kind, flags, stream."""


class ProtocolError(Exception):
    """A fault of the peer that ends the connection."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class StreamError(Exception):
    """A fault of the peer that ends one stream."""

    def __init__(self, stream_id: int, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.stream_id = stream_id
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """One frame."""
    size = len(payload)
    return _FRAME.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def frame_header(size: int, kind: int, flags: int, stream_id: int) -> bytes:
    """The header of a frame whose payload follows."""
    return _FRAME.pack(size >> 8, size & 0xFF, kind, flags, stream_id)


def header_frames(stream_id: int, block: bytes, *, ended: bool) -> bytes:
    """HEADERS, and CONTINUATION frames where the block does not fit into the least that every peer takes."""
    size, flags = FRAME_BYTES_DEFAULT, END_STREAM if ended else 0
    if len(block) <= size:
        return frame(HEADERS, flags | END_HEADERS, stream_id, block)
    parts = [frame(HEADERS, flags, stream_id, block[:size])]
    for start in range(size, len(block), size):
        last = start + size >= len(block)
        parts.append(frame(CONTINUATION, END_HEADERS if last else 0, stream_id, block[start : start + size]))
    return b"".join(parts)


def settings(values: Mapping[Setting, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(name, value) for name, value in values.items()))


def read_settings(payload: bytes) -> Iterator[tuple[int, int]]:
    """Names and values of a SETTINGS frame, in their order."""
    return _SETTING.iter_unpack(payload)


def window_update(stream_id: int, size: int) -> bytes:
    """Credit for so many bytes more."""
    return frame(WINDOW_UPDATE, 0, stream_id, size.to_bytes(4, "big"))


def rst_stream(stream_id: int, code: int) -> bytes:
    """The end of a stream before its time."""
    return frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def goaway(last_stream_id: int, code: int, reason: str = "") -> bytes:
    """The end of a connection: streams above the last one were not processed."""
    text = reason.encode(errors="replace")[:256]
    return frame(GOAWAY, 0, 0, last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big") + text)


def unpadded(flags: int, payload: bytes) -> bytes:
    """The payload of a DATA or HEADERS frame without its padding. Raises ProtocolError."""
    if not flags & PADDED:
        return payload
    if not payload:
        raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "a padded frame has no length of its padding")
    padding = payload[0]
    if padding >= len(payload):
        raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a frame has more padding than payload")
    return payload[1 : len(payload) - padding]

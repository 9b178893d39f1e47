"""Heads of gRPC: the headers of a request, of an answer, and trailers, checked and read once for each block."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from danube.rpc.http2.protocol.header_table import Field, list_bytes

_UPPERCASE: Final = re.compile(rb"[^!#$%&'*+\-.^_`|~0-9a-z]")
_FORBIDDEN_VALUE: Final = re.compile(rb"[\0\r\n]")
_OF_CONNECTIONS: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)
_REQUEST_PSEUDO: Final = frozenset({b":method", b":scheme", b":authority", b":path", b":protocol"})
_RESPONSE_PSEUDO: Final = frozenset({b":status"})
_RESERVED: Final = frozenset({b"content-type", b"te", b"user-agent", b"host", b"content-length"})
_TIMEOUT: Final = re.compile(rb"[0-9]{1,8}[HMSmun]")
_UNIT_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_CONTENT_TYPE: Final = re.compile(rb"application/grpc(?:\+[a-z0-9]+)?(?:\s*;.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """Headers of a request; of a peer's trailers only `malformed` and `has_pseudo` say anything."""

    path: bytes = b""
    method: bytes = b""
    is_grpc: bool = False
    encoding: bytes = b"identity"
    """Name of the compression of its messages."""
    bad_timeout: bool = False
    """True where `grpc-timeout` is no time. One that is comes beside the head: it differs from call to call."""
    user_agent: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    list_bytes: int = 0
    """As HTTP/2 counts them, 32 bytes for each field beside its text; a timeout counts as the longest one."""
    content_bytes: int | None = None
    """Bytes that the peer said it would send."""
    has_pseudo: bool = False
    is_final: bool = True
    malformed: str = ""
    """Rule of HTTP/2 that the fields break; empty if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """Headers or trailers of an answer."""

    http_status: int | None = None
    content_type: bytes = b""
    encoding: bytes = b"identity"
    grpc_status: int | None = None
    message: str = ""
    fields: Mapping[bytes, bytes] = field(default_factory=dict)
    list_bytes: int = 0
    content_bytes: int | None = None
    has_pseudo: bool = False
    is_final: bool = True
    """False for an interim answer (1xx), which another follows."""
    malformed: str = ""


def request_head(fields: list[Field]) -> RequestHead:
    """The head of a request."""
    values = dict(fields)
    has_pseudo, malformed = _check(fields, _REQUEST_PSEUDO)
    path, method = values.get(b":path", b""), values.get(b":method", b"")
    if not malformed and has_pseudo:
        malformed = _missing(values)
    timeout = values.get(b"grpc-timeout")
    content_bytes, bad_length = _content_bytes(values)
    return RequestHead(
        path=path,
        method=method,
        is_grpc=_CONTENT_TYPE.fullmatch(values.get(b"content-type", b"")) is not None,
        encoding=values.get(b"grpc-encoding", b"identity"),
        bad_timeout=timeout is not None and _TIMEOUT.fullmatch(timeout) is None,
        user_agent=values.get(b"user-agent", b"").decode(errors="replace"),
        metadata=_metadata(fields),
        list_bytes=list_bytes(fields),
        content_bytes=content_bytes,
        has_pseudo=has_pseudo,
        malformed=malformed or bad_length,
    )


def response_head(fields: list[Field]) -> ResponseHead:
    """The head of an answer, or its trailers."""
    values = dict(fields)
    has_pseudo, malformed = _check(fields, _RESPONSE_PSEUDO)
    status, http_status = values.get(b"grpc-status"), values.get(b":status")
    if http_status is not None and not (len(http_status) == 3 and http_status.isdigit()):
        malformed = malformed or "the status is no number of three digits"
        http_status = None
    content_bytes, bad_length = _content_bytes(values)
    return ResponseHead(
        http_status=None if http_status is None else int(http_status),
        content_type=values.get(b"content-type", b""),
        encoding=values.get(b"grpc-encoding", b"identity"),
        grpc_status=None if status is None else int(status) if status.isdigit() and len(status) < 4 else 2,
        message=percent_decoded(values.get(b"grpc-message", b"")),
        fields=values,
        list_bytes=list_bytes(fields),
        content_bytes=content_bytes,
        has_pseudo=has_pseudo,
        is_final=http_status is None or not http_status.startswith(b"1"),
        malformed=malformed or bad_length,
    )


def percent_encoded(text: str) -> bytes:
    """A status message as gRPC has it in a header."""
    return b"".join(
        bytes((byte,)) if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte
        for byte in text.encode(errors="replace")
    )


def percent_decoded(value: bytes) -> str:
    """The text of a status message; a wrong escape stands for itself."""
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes((int(found[1], 16),)), value).decode(errors="replace")


def read_timeout_s(timeout: bytes) -> float:
    """The seconds of a timeout as gRPC writes it: digits and a unit."""
    return int(timeout[:-1]) * _UNIT_S[timeout[-1:]]


def timeout_text(timeout_s: float) -> bytes:
    """A timeout as gRPC writes it: at most eight digits, in the finest unit that has room."""
    for unit, per_s in ((b"n", 1e9), (b"u", 1e6), (b"m", 1e3), (b"S", 1.0), (b"M", 1 / 60)):
        count = max(0, round(timeout_s * per_s))
        if count < 100_000_000:
            return b"%d%s" % (count, unit)
    return b"%dH" % min(99_999_999, round(timeout_s / 3600))


def _check(fields: list[Field], pseudo: frozenset[bytes]) -> tuple[bool, str]:
    """Presence of pseudo fields, and the rule of RFC 9113, 8.2 and 8.3, that is broken."""
    seen: set[bytes] = set()
    regular = False
    for name, value in fields:
        if name.startswith(b":"):
            if regular:
                return True, "a pseudo field follows a regular one"
            if name not in pseudo:
                return True, "an unknown pseudo field"
            if name in seen:
                return True, "a pseudo field occurs twice"
            seen.add(name)
        else:
            regular = True
            if not name or _UPPERCASE.search(name):
                return bool(seen), "a field name has characters that are not allowed"
            if name in _OF_CONNECTIONS or (name == b"te" and value.lower() != b"trailers"):
                return bool(seen), "a field of HTTP/1.1 connections"
        if _FORBIDDEN_VALUE.search(value):
            return bool(seen), "a field value has characters that are not allowed"
    return bool(seen), ""


def _missing(values: Mapping[bytes, bytes]) -> str:
    if values.get(b":method") == b"CONNECT":
        return ""
    if not (values.get(b":method") and values.get(b":scheme") and values.get(b":path")):
        return "a request without method, scheme or path"
    return ""


def _content_bytes(values: Mapping[bytes, bytes]) -> tuple[int | None, str]:
    length = values.get(b"content-length")
    if length is None:
        return None, ""
    if not length.isdigit() or len(length) > 15:
        return None, "the content length is no number"
    return int(length), ""


def _metadata(fields: list[Field]) -> dict[str, str]:
    return {
        name.decode("ascii", "replace"): value.decode(errors="replace")
        for name, value in fields
        if not (name.startswith((b":", b"grpc-")) or name.endswith(b"-bin") or name in _RESERVED)
    }

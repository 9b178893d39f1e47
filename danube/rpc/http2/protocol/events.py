"""Events of a connection: frozen, in the order in which the peer caused them."""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

H = TypeVar("H")


@dataclass(frozen=True, slots=True)
class HeadersReceived(Generic[H]):
    """Headers of a stream: a request's or an answer's, or its trailers where the stream had headers before."""

    stream_id: int
    head: H
    ended: bool
    """True if the peer sends nothing more on this stream."""
    timeout: bytes | None = None
    """`grpc-timeout` of a request."""


@dataclass(frozen=True, slots=True)
class DataReceived:
    """Bytes of a stream. They count against its window until `Connection.credit`."""

    stream_id: int
    data: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class StreamReset:
    """A stream ended before its time: the peer said so, or broke a rule on it."""

    stream_id: int
    code: int
    by_peer: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StreamSent:
    """Everything that was given to a stream has left, after some of it had to wait for credit."""

    stream_id: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The peer's settings are known, or have changed."""


@dataclass(frozen=True, slots=True)
class PingAnswered:
    """The peer answered a ping."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class GoingAway:
    """The peer takes no new stream, and never processed those above the last one."""

    last_stream_id: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectionFailed:
    """The peer broke a rule of the connection. The output ends with a GOAWAY; write it and close."""

    code: int
    reason: str


Event: TypeAlias = (
    HeadersReceived[H] | DataReceived | StreamReset | StreamSent | Settled | PingAnswered | GoingAway | ConnectionFailed
)

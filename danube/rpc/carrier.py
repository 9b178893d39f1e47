"""Protocols of call carriers: bytes in, bytes out.

A service is a table of handlers. A handler takes the request's bytes and a call, and answers bytes now (by returning
them) or later (by `call.reply`), from the event loop's thread; there is no coroutine per call. Two carriers implement
this: `http2`, over sockets or, in tests, over memory; and `grpc`, the fallback. One contract suite
(`tests/contracts/test_carrier.py`) holds for all.

Promises of every carrier, to a handler:
- it runs on the event loop's thread, one call at a time per stream, messages in order;
- raising a `DanubeError` (or calling `fail` with one) fails the call with its status; any other exception is logged
  with its traceback and reaches the peer as one opaque internal error;
- a call that ended (answered, failed, cancelled by its peer, past its deadline) ignores further answers silently;
- `on_cancel` callbacks run once, when the peer went away or the deadline passed before the answer, and never after it;
- a stream that its server finished or failed tells its handler nothing more, whatever the peer does.

Backpressure on streams is in bytes and messages both ways: see `ServerStream.room` and `pause_reading`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from danube.model.errors import BrokerUnreachableError, DanubeError
from danube.model.limits import broker as limits

Metadata = Mapping[str, str]
PROXY_LIMITS = "a proxy may limit the body of a request: set no limit there (nginx: client_max_body_size 0)"
"""Cause and next step where a stream or a message is too large for the way to a broker."""


class NotConnectedError(BrokerUnreachableError):
    """No connection could be made: the call was never sent, and may be made at another broker.

    Known at this end alone. From a peer it arrives as what it refines: that call was sent.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CarrierOptions:
    """The bounds of one carrier; a test may lower them."""

    receive_bytes_max: int = limits.RPC_RECEIVE_BYTES_MAX
    """Bound of one message, at either end."""
    metadata_bytes_max: int = limits.RPC_METADATA_BYTES_MAX
    """Bound of one call's metadata; each entry counts 32 bytes beside its key and value, as in HTTP/2."""
    concurrent_calls_max: int = limits.RPC_CONCURRENT_CALLS_MAX
    """Under way at one server."""
    queue_bytes_max: int = limits.STREAM_QUEUE_BYTES_MAX
    """Written to one stream by its server and not yet taken by the transport."""
    queue_messages_max: int = limits.STREAM_QUEUE_MESSAGES_MAX
    """The same, in messages."""
    stream_memory_bytes_max: int = limits.STREAM_MEMORY_BYTES_MAX
    """Written to all streams of a carrier's servers and not yet taken by the transport, with the transport's copies."""
    inbound_bytes_max: int = limits.STREAM_INBOUND_BYTES_MAX
    """Received on one stream and not yet taken by whoever reads it; one message may pass it."""
    inbound_messages_max: int = limits.STREAM_INBOUND_MESSAGES_MAX
    """The same, in messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller, as far as the transport knows it."""

    address: str
    """`host:port` of the peer, or `memory`."""
    user_agent: str = ""
    metadata: Metadata = field(default_factory=dict)
    """The call's text metadata, keys in lower case."""
    certificate_name: str | None = None
    """Common name of the client certificate that the transport verified; None without one."""


class UnaryCall(Protocol):
    """One request that is owed one answer."""

    @property
    def caller(self) -> Caller:
        """The caller."""

    def reply(self, response: bytes) -> None:
        """Answer the call."""

    def fail(self, error: DanubeError) -> None:
        """Fail the call."""

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have `callback` called if the call ends before it is answered; at once if it has."""


class ServerStream(Protocol):
    """The answering end of a stream: a server stream (one request, many answers) or one with messages both ways."""

    @property
    def caller(self) -> Caller:
        """The caller."""

    @property
    def room(self) -> int:
        """Bytes that may still be queued; at or below 0 the writer waits for `on_ready`.

        Also 0 while the queue holds its maximum of messages. Writing without room is allowed once, so that any single
        message passes.
        """

    @property
    def is_left(self) -> bool:
        """True in `on_cancel` if the peer cancelled the stream, and its connection stays. False if that is unknown."""

    def open(self) -> None:
        """Send the response headers now, before any message. Without it they leave with the first message."""

    def write(self, message: bytes) -> None:
        """Queue one message. Raises OverloadedError where there was no room."""

    def finish(self) -> None:
        """End the stream with status OK once what is queued has been sent."""

    def fail(self, error: DanubeError) -> None:
        """End the stream with the error's status, what is queued notwithstanding."""

    def pause_reading(self) -> None:
        """Have no further message delivered to `on_message` until `resume_reading`; a bound number is held back."""

    def resume_reading(self) -> None:
        """Deliver messages again."""


class StreamHandler(Protocol):
    """A service's side of one stream."""

    def on_message(self, message: bytes) -> None:
        """The peer sent a message; the request of a server stream is the first and only one."""

    def on_half_close(self) -> None:
        """The peer will send nothing more; it still reads. On a server stream this follows its request."""

    def on_ready(self) -> None:
        """There is room again after there was none."""

    def on_cancel(self) -> None:
        """The stream ended from the other side, or by its deadline: no further call on either object has effect."""


UnaryHandler = Callable[[bytes, UnaryCall], bytes | None]
"""Answers the response, or None when `reply` or `fail` will be called later."""

StreamFactory = Callable[[ServerStream], StreamHandler]
"""Called when a stream opens, before its first message. Raising a DanubeError refuses the stream."""


@dataclass(frozen=True, slots=True)
class Service:
    """The handlers of one gRPC service; method names as in the proto."""

    name: str
    """With its package, such as `danube.ProducerService`."""
    unary: Mapping[str, UnaryHandler] = field(default_factory=dict)
    server_streams: Mapping[str, StreamFactory] = field(default_factory=dict)
    """One request, many answers."""
    streams: Mapping[str, StreamFactory] = field(default_factory=dict)
    """Messages both ways."""


class CarrierServer(Protocol):
    """A listening carrier."""

    @property
    def address(self) -> str:
        """`host:port` as bound, so a port of 0 in the request is a real one here."""

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, let those under way end for `grace_s` seconds, then cancel them. Idempotent."""


class ClientStream(Protocol):
    """The asking end of a stream."""

    async def send(self, message: bytes) -> None:
        """Send one message; waits while the peer gives no credit. Raises DanubeError when the stream has ended.

        A send that is cancelled while it waits drops the stream: nobody knows how much of the message left.
        """

    async def half_close(self) -> None:
        """Say that no further message will be sent."""

    async def opened(self) -> None:
        """Return once the server's headers are there. Raises the DanubeError with which the server refused."""

    async def receive(self) -> bytes | None:
        """The next message, or None when the server ended with OK. Raises the DanubeError it ended with otherwise.

        Cancelling a receive that waits loses nothing.
        """

    def cancel(self) -> None:
        """Drop the stream; the server sees `on_cancel`. Idempotent."""


class Channel(Protocol):
    """A client's connection to one address; it connects when first used and again after a loss."""

    async def call(
        self, path: str, request: bytes, *, timeout_s: float | None = None, metadata: Sequence[tuple[str, str]] = ()
    ) -> bytes:
        """One unary call; `path` is `/package.Service/Method`.

        Raises:
            DanubeError: by the answer's status, with its stable code where the peer sent one;
                BrokerUnreachableError when there is no connection, DeadlineExceededError past `timeout_s`.
        """

    def stream(
        self, path: str, *, timeout_s: float | None = None, metadata: Sequence[tuple[str, str]] = ()
    ) -> ClientStream:
        """Open a stream with messages both ways (a server stream is one that is sent one message and half-closed)."""

    def server_stream(
        self,
        path: str,
        request: bytes,
        *,
        timeout_s: float | None = None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> ClientStream:
        """Open a server stream: one request, many answers."""

    async def close(self, lost: str | None = None) -> None:
        """Cancel what is under way and disconnect. Idempotent.

        With `lost`, which says why the other end is given up, calls under way raise BrokerUnreachableError.
        """


class Carrier(Protocol):
    """A way to carry calls: listens for servers, connects for clients."""

    async def serve(self, address: str, services: Sequence[Service]) -> CarrierServer:
        """Listen on `host:port` (port 0 picks one). Raises SettingsError when it cannot, saying what to do."""

    def connect(self, address: str) -> Channel:
        """A channel to `host:port`; nothing happens until it is used."""

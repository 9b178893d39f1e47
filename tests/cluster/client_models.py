"""Models of the handshakes of the official clients in Go, Rust and Java, on one connection that is never made again.

TLS as their libraries do it (versions, ALPN, SNI, what they trust), HTTP/2 by the library h2, and the headers of their
calls in their order. What they send after that is in `tests/cluster/http2_peers` and in `danube/testing/peers`.
"""

import asyncio
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import h2.events
from h2.config import H2Configuration
from h2.connection import H2Connection

from danube.model.errors import UnavailableError
from danube.rpc.address import split_address
from danube.rpc.carrier import ClientStream
from danube.wire.status import StatusCode, error_from

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientModel:
    """One official client."""

    name: str
    user_agent: str
    protocols: tuple[str, ...] = ("h2",)
    """ALPN, in its order."""
    lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    exchanges_key: bool = False
    """It has an API key exchanged for its token, before anything else (`withApiKey`)."""
    more_headers: tuple[tuple[str, str], ...] = ()

    def context(self, ca: Path, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
        """TLS that trusts this CA alone, and verifies the host that is dialled. Reads files."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version, context.maximum_version = self.lowest, self.highest
        context.load_verify_locations(ca)
        context.set_alpn_protocols(list(self.protocols))
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        return context


MODELS = (
    ClientModel(name="go", user_agent="grpc-go/1.76.0"),
    ClientModel(name="rust", user_agent="tonic/0.14.2", more_headers=(("accept-encoding", "identity"),)),
    ClientModel(
        name="java",
        user_agent="grpc-java-netty/1.75.0",
        protocols=("h2", "http/1.1"),
        exchanges_key=True,
        more_headers=(("grpc-accept-encoding", "gzip"),),
    ),
    ClientModel(name="java 8", user_agent="grpc-java-netty/1.40.0", highest=ssl.TLSVersion.TLSv1_2, exchanges_key=True),
)


@dataclass(slots=True)
class _Answer:
    done: asyncio.Event = field(default_factory=asyncio.Event)
    body: bytearray = field(default_factory=bytearray)
    headers: dict[str, str] = field(default_factory=dict)


class ModelChannel:
    """One connection. A call after its end fails."""

    def __init__(self, model: ClientModel, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.metadata: Pairs = ()
        """Of every call, such as the token."""
        self._model = model
        self._reader, self._writer = streams
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._http.initiate_connection()
        self._answers: dict[int, _Answer] = {}
        self._host = ":".join(str(part) for part in self._writer.get_extra_info("peername")[:2])
        self._flush()
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def open(cls, model: ClientModel, address: str, context: ssl.SSLContext) -> Self:
        """Connect. Raises ssl.SSLError."""
        streams = await asyncio.open_connection(*split_address(address), ssl=context)
        assert streams[1].get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        return cls(model, streams)

    @property
    def serial_number(self) -> str:
        """Of the server's certificate."""
        return str(self._writer.get_extra_info("ssl_object").getpeercert()["serialNumber"])

    async def call(self, path: str, request: bytes, *, timeout_s: float | None = None, metadata: Pairs = ()) -> bytes:
        """One unary call. Raises DanubeError, and UnavailableError once the connection has ended."""
        if self._reading.done():
            raise UnavailableError("the connection has ended")
        stream_id = self._http.get_next_available_stream_id()
        answer = self._answers[stream_id] = _Answer()
        self._http.send_headers(stream_id, self._headers(path, [*self.metadata, *metadata]))
        self._http.send_data(stream_id, struct.pack(">BI", 0, len(request)) + request, end_stream=True)
        self._flush()
        async with asyncio.timeout(timeout_s):
            await answer.done.wait()
        if "grpc-status" not in answer.headers:
            raise UnavailableError("the connection has ended")
        status = StatusCode(int(answer.headers["grpc-status"]))
        if status is not StatusCode.OK:
            raise error_from(status, answer.headers.get("grpc-message", ""))
        return bytes(answer.body[5:])

    def stream(self, path: str, *, timeout_s: float | None = None, metadata: Pairs = ()) -> ClientStream:
        raise NotImplementedError

    def server_stream(
        self, path: str, request: bytes, *, timeout_s: float | None = None, metadata: Pairs = ()
    ) -> ClientStream:
        raise NotImplementedError

    async def close(self, lost: str | None = None) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _headers(self, path: str, metadata: Pairs) -> list[tuple[str, str]]:
        return [
            (":method", "POST"),
            (":scheme", "https"),
            (":path", path),
            (":authority", self._host),
            ("content-type", "application/grpc"),
            ("user-agent", self._model.user_agent),
            ("te", "trailers"),
            *self._model.more_headers,
            *metadata,
        ]

    def _flush(self) -> None:
        self._writer.write(self._http.data_to_send())

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(65_536):
                for event in self._http.receive_data(data):
                    self._take(event)
                self._flush()
        except OSError:
            pass
        finally:
            for answer in self._answers.values():
                answer.done.set()

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            self._answers[event.stream_id].headers.update(dict(event.headers))  # type: ignore[arg-type]
        elif isinstance(event, h2.events.DataReceived):
            self._answers[event.stream_id].body += event.data
            self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
            self._answers.pop(event.stream_id).done.set()

"""What the gRPC carrier adds to the contract: its ports, other implementations' peers, and what is on the wire."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import cast

import grpc
import pytest
from grpc import aio

from danube.model import errors
from danube.model.limits.broker import MIB, RPC_REQUESTS_ARRIVING_MAX, STREAM_INBOUND_BYTES_MAX
from danube.rpc.carrier import CarrierServer, ServerStream, Service, StreamHandler, UnaryCall
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.wire.status import ERROR_CODE_KEY

CARRIER = GrpcCarrier(SystemClock())
PATH = "/test.Things/Do"
HEADERS_FRAME = 1
RST_STREAM_FRAME = 3
SETTINGS_FRAME = 4
PING_FRAME = 6
WINDOW_UPDATE_FRAME = 8
END_STREAM = 1


class Idle:
    """A stream that does nothing; with `opened` it sends its headers at once."""

    def __init__(self, stream: ServerStream, *, opened: bool) -> None:
        if opened:
            stream.open()

    def on_message(self, message: bytes) -> None:
        return None

    def on_half_close(self) -> None:
        return None

    def on_ready(self) -> None:
        return None

    def on_cancel(self) -> None:
        return None


def refuse(request: bytes, call: UnaryCall) -> bytes:
    raise errors.TopicNotServedError("look the topic up again")


def refuse_stream(stream: ServerStream) -> StreamHandler:
    raise errors.ConsumerNotFoundError("no such consumer")


SERVICE = Service(
    "test.Things",
    unary={"Do": lambda request, _: request, "Refuse": refuse},
    server_streams={
        "RefuseStream": refuse_stream,
        "Open": lambda stream: Idle(stream, opened=True),
    },
)


@pytest.fixture
async def server() -> AsyncIterator[CarrierServer]:
    server = await CARRIER.serve("127.0.0.1:0", [SERVICE])
    yield server
    await server.stop(0)


# Addresses


async def test_port_of_another_process_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(errors.SettingsError, match=f"{address} is in use by another process; stop it or choose"):
            await CARRIER.serve(address, [])


async def test_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(errors.SettingsError, match=r"host no-such-host\.invalid has no address"):
        await CARRIER.serve("no-such-host.invalid:0", [])


async def test_address_of_another_machine_is_named() -> None:
    with pytest.raises(errors.SettingsError, match=r"this machine does not have that address"):
        await CARRIER.serve("192.0.2.1:0", [])


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0"])
async def test_host_stays_as_given_and_port_0_becomes_a_real_one(host: str) -> None:
    server = await CARRIER.serve(f"{host}:0", [SERVICE])
    named, _, port = server.address.rpartition(":")
    channel = CARRIER.connect(f"127.0.0.1:{port}")
    assert (named, await channel.call(PATH, b"a")) == (host, b"a")
    await channel.close()
    await server.stop(0)


async def test_unknown_host_is_unreachable_for_a_client() -> None:
    channel = CARRIER.connect("no-such-host.invalid:1")
    with pytest.raises(errors.BrokerUnreachableError, match=r"no-such-host\.invalid:1"):
        await channel.call(PATH, b"")
    await channel.close()


# Peers of other make


async def test_stock_client_sees_the_status_and_the_stable_code(server: CarrierServer) -> None:
    async with aio.insecure_channel(server.address) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await channel.unary_unary("/test.Things/Refuse", None, None)(b"")
    error, trailers = caught.value, cast("Iterable[tuple[str, str]]", caught.value.trailing_metadata())
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "look the topic up again")
    assert (ERROR_CODE_KEY, "TOPIC_NOT_SERVED") in list(trailers)


async def test_binary_metadata_of_a_stock_client_is_left_out(server: CarrierServer) -> None:
    async with aio.insecure_channel(server.address) as channel:
        method = channel.unary_unary(PATH, None, None)
        assert await method(b"a", metadata=(("x-bin", b"\xff"), ("x-text", "fine"))) == b"a"


@pytest.mark.parametrize(
    ("code", "headers", "kind"),
    [
        (grpc.StatusCode.NOT_FOUND, (), errors.NotFoundError),
        (grpc.StatusCode.UNAVAILABLE, (("server", "tonic"),), errors.UnavailableError),
        (grpc.StatusCode.OUT_OF_RANGE, (), errors.MessageTooLargeError),
        (grpc.StatusCode.UNKNOWN, (), errors.InternalError),
    ],
)
async def test_status_of_a_stock_server_becomes_the_class_of_its_code(
    code: grpc.StatusCode, headers: Sequence[tuple[str, str]], kind: type[errors.DanubeError]
) -> None:
    async def fail(request: bytes, context: "aio.ServicerContext[bytes, bytes]") -> bytes:
        await context.abort(code, "as it is", tuple(headers))

    port, stock = await start_stock_server(fail)
    channel = CARRIER.connect(f"127.0.0.1:{port}")
    with pytest.raises(errors.DanubeError, match="as it is") as caught:
        await channel.call(PATH, b"")
    assert type(caught.value) is kind
    await channel.close()
    await stock.stop(None)


async def start_stock_server(behaviour: object) -> tuple[int, aio.Server]:
    methods = {"Do": grpc.unary_unary_rpc_method_handler(behaviour)}  # type: ignore[arg-type]
    stock = aio.server(handlers=[grpc.method_handlers_generic_handler("test.Things", methods)])
    port = stock.add_insecure_port("127.0.0.1:0")
    await stock.start()
    return port, stock


async def test_connection_cut_in_the_middle_of_a_call_is_unreachable() -> None:
    async def cut(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(4, 0, 0, b""))
        await _reader.readuntil(b"application/grpc")
        writer.close()

    listener = await asyncio.start_server(cut, "127.0.0.1", 0)
    channel = CARRIER.connect(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    with pytest.raises(errors.BrokerUnreachableError):
        await asyncio.wait_for(channel.call(PATH, b""), PATIENCE_S)
    await channel.close()
    listener.close()
    await listener.wait_closed()


async def test_call_that_a_stopping_peer_cancels_is_unreachable() -> None:
    async def cancel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(SETTINGS_FRAME, 0, 0, b""))
        await reader.readuntil(b"application/grpc")
        writer.write(frame(RST_STREAM_FRAME, 0, 1, (8).to_bytes(4, "big")))
        await told.wait()  # grpcio keeps the connection of a channel that is closed for a minute
        writer.close()
        ended.set()

    told, ended = asyncio.Event(), asyncio.Event()
    listener = await asyncio.start_server(cancel, "127.0.0.1", 0)
    channel = CARRIER.connect(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    with pytest.raises(errors.BrokerUnreachableError):
        await asyncio.wait_for(channel.call(PATH, b""), PATIENCE_S)
    told.set()
    await channel.close()
    await asyncio.wait_for(ended.wait(), PATIENCE_S)
    listener.close()
    await listener.wait_closed()


# The wire


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def request_bytes(path: str) -> bytes:
    """An HTTP/2 connection that asks one method with an empty message."""
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(4, 0, 0, b"")
        + frame(HEADERS_FRAME, 4, 1, headers(path))
        + frame(0, END_STREAM, 1, prefix(0))
    )


def prefix(size: int) -> bytes:
    """What gRPC puts before a message of so many bytes."""
    return b"\0" + size.to_bytes(4, "big")


def headers(path: str) -> bytes:
    """In literal HPACK."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "test", "te": "trailers"}
    fields["content-type"] = "application/grpc"
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(text)]) + text.encode() for name, text in fields.items()
    )


class Unfinished:
    """A peer that opens calls and sends no message to its end; it knows what it may send on which stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.credit: defaultdict[int, int] = defaultdict(int)
        self.window = 0
        self.answered: set[int] = set()

    def open(self, stream: int, path: str, size: int) -> None:
        self.writer.write(frame(HEADERS_FRAME, 4, stream, headers(path)) + frame(0, 0, stream, prefix(size)))

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not reached():
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                self._take(head[3], head[4], int.from_bytes(head[5:9], "big"), payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE_FRAME:
            self.credit[stream] += int.from_bytes(payload, "big")
        elif kind == SETTINGS_FRAME and not flags:
            numbers = [payload[at : at + 6] for at in range(0, len(payload), 6)]
            self.window = next(int.from_bytes(each[2:], "big") for each in numbers if each[:2] == b"\0\4")
            self.writer.write(frame(SETTINGS_FRAME, 1, 0, b""))
        elif kind == PING_FRAME and not flags:
            self.writer.write(frame(PING_FRAME, 1, 0, payload))
        elif kind == HEADERS_FRAME:
            self.answered.add(stream)


async def test_of_unfinished_messages_few_of_a_connection_and_method_arrive_and_others_wait_their_turn(
    server: CarrierServer,
) -> None:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    peer, large = Unfinished(reader, writer), 8 * MIB
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    streams = [1 + 2 * number for number in range(2 * RPC_REQUESTS_ARRIVING_MAX)]
    for stream in streams:
        peer.open(stream, PATH, large)
    try:
        await peer.until(lambda: sum(peer.credit[stream] >= MIB for stream in streams) == RPC_REQUESTS_ARRIVING_MAX)
        peer.open(streams[-1] + 2, "/test.Things/Open", 0)  # another method waits for none of them
        await peer.until(lambda: bool(peer.answered))
        assert [stream for stream in streams if peer.credit[stream]] == streams[:RPC_REQUESTS_ARRIVING_MAX]
        assert peer.window == STREAM_INBOUND_BYTES_MAX
        writer.write(frame(RST_STREAM_FRAME, 0, streams[0], (8).to_bytes(4, "big")))
        await peer.until(lambda: peer.credit[streams[RPC_REQUESTS_ARRIVING_MAX]] >= MIB)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_call_without_a_message_is_refused(server: CarrierServer) -> None:
    async with aio.insecure_channel(server.address) as channel:
        call = channel.stream_unary(PATH, None, None)(iter(()))
        with pytest.raises(aio.AioRpcError) as caught:
            await call
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def first_headers_flags(server: CarrierServer, path: str) -> int:
    """The flags of the first HEADERS frame that the server answers."""
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(request_bytes(path))
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == HEADERS_FRAME:
                    return head[4]
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("method", ["Refuse", "RefuseStream", "Unknown"])
async def test_failure_before_the_first_message_is_trailers_only(server: CarrierServer, method: str) -> None:
    assert await first_headers_flags(server, f"/test.Things/{method}") & END_STREAM


async def test_open_sends_headers_while_the_stream_goes_on(server: CarrierServer) -> None:
    assert not await first_headers_flags(server, "/test.Things/Open") & END_STREAM

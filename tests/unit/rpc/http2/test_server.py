"""A server's connections on a transport of the test: writes of one turn, slow peers, silence, refusals, room."""

import asyncio
from typing import Any

import hpack
import pytest

from danube.model.limits import broker as broker_limits
from danube.model.limits import http2 as limits
from danube.rpc.carrier import CarrierOptions, ServerStream, Service, StreamHandler, UnaryCall
from danube.rpc.http2.protocol import frames
from danube.rpc.http2.protocol.frames import ErrorCode
from danube.rpc.http2.server.connection import ServerConnection
from danube.rpc.http2.server.end import ServerSide
from danube.rpc.http2.server.methods import methods_of
from danube.rpc.stream_memory import StreamMemory
from danube.testing.simulated.clock import SimClock
from tests.unit.rpc.http2.peer import END_STREAM, OPEN, REQUEST, data, headers, read_frames

KIB = 1024


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and is full when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1234) if name == "peername" else default

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Filling:
    """A stream that writes messages of 1 KiB as long as there is room."""

    def __init__(self, stream: ServerStream) -> None:
        self.stream = stream
        self.cancelled = False

    def on_message(self, message: bytes) -> None:
        self.on_ready()

    def on_half_close(self) -> None:
        return None

    def on_ready(self) -> None:
        while self.stream.room > 0:
            self.stream.write(bytes(KIB))

    def on_cancel(self) -> None:
        self.cancelled = True


class Served:
    """One server and its connections."""

    def __init__(self, options: CarrierOptions | None = None) -> None:
        self.clock = SimClock()
        self.calls: list[UnaryCall] = []
        self.requests: list[bytes] = []
        self.streams: list[Filling] = []
        service = Service(
            "test.Things",
            unary={"Do": self._do, "Later": self._later},
            server_streams={"Fill": self._fill},
            streams={"Talk": self._fill},
        )
        options = options or CarrierOptions()
        memory = StreamMemory(options.stream_memory_bytes_max, self.clock)
        self.side = ServerSide(self.clock, options, memory, methods_of([service]))

    def connect(self, start: bytes = OPEN) -> "tuple[ServerConnection, Wire]":
        connection, wire = ServerConnection(self.side), Wire()
        connection.connection_made(wire)
        wire.writes.clear()
        if start:
            connection.data_received(start)
            wire.writes.clear()
        return connection, wire

    def _do(self, request: bytes, call: UnaryCall) -> bytes:
        self.requests.append(request)
        return request

    def _later(self, request: bytes, call: UnaryCall) -> None:
        self.calls.append(call)

    def _fill(self, stream: ServerStream) -> StreamHandler:
        self.streams.append(Filling(stream))
        return self.streams[-1]


def call(stream_id: int, message: bytes = b"x", path: str = "/test.Things/Do", agent: str = "test") -> bytes:
    return start(stream_id, path, agent) + data(stream_id, framed(message), ended=True)


def start(stream_id: int, path: str, agent: str = "test", *more: tuple[str, str]) -> bytes:
    fields = [(name, path if name == ":path" else value) for name, value in REQUEST]
    return headers(stream_id, *fields, ("user-agent", agent), *more)


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def statuses(wire: Wire) -> list[tuple[int, str, str]]:
    """Stream, status and message of each stream that ended."""
    decoder = hpack.Decoder()
    found = []
    for kind, flags, stream_id, payload in read_frames(b"".join(wire.writes)):
        if kind == frames.HEADERS:
            fields = {str(name): str(value) for name, value in decoder.decode(payload)}
            if flags & END_STREAM:
                found.append((stream_id, fields["grpc-status"], fields.get("grpc-message", "")))
    return found


def kinds(wire: Wire) -> list[int]:
    return [kind for kind, *_ in read_frames(b"".join(wire.writes))]


async def test_answers_of_one_read_leave_in_one_write() -> None:
    connection, wire = Served().connect()
    connection.data_received(b"".join(call(2 * number + 1) for number in range(50)))
    assert len(wire.writes) == 1
    assert [status for _, status, _ in statuses(wire)] == ["0"] * 50


async def test_answers_of_one_turn_leave_in_one_write() -> None:
    served = Served()
    connection, wire = served.connect()
    connection.data_received(b"".join(call(2 * number + 1, path="/test.Things/Later") for number in range(50)))
    assert wire.writes == []
    for each in served.calls:
        each.reply(b"")
    await asyncio.sleep(0)
    assert (len(wire.writes), len(statuses(wire))) == (1, 50)


@pytest.mark.parametrize(("agent", "writes"), [("grpc-python/1.80", 64), ("grpc-c/1", 64), ("grpc-go/1", 1)])
async def test_messages_leave_one_by_one_for_peers_that_read_them_faster_so(agent: str, writes: int) -> None:
    served = Served()
    connection, wire = served.connect()
    connection.data_received(call(1, path="/test.Things/Fill", agent=agent))
    assert len([each for each in wire.writes if frames.DATA in [kind for kind, *_ in read_frames(each)]]) == writes


async def test_request_in_parts_is_one_request_and_is_given_credit_for_its_rest() -> None:
    served = Served()
    connection, wire = served.connect()
    message = framed(bytes(200_000))
    connection.data_received(start(1, "/test.Things/Do") + data(1, message[:10_000]))
    ((kind, _, stream_id, payload),) = read_frames(b"".join(wire.writes))
    assert (kind, stream_id, int.from_bytes(payload, "big")) == (frames.WINDOW_UPDATE, 1, 200_005 - 65_535)
    assert served.side.partial.bytes == 10_000
    for begin in range(10_000, len(message), 16_384):
        part = message[begin : begin + 16_384]
        connection.data_received(data(1, part, ended=begin + 16_384 >= len(message)))
    assert ([len(request) for request in served.requests], served.side.partial.bytes) == ([200_000], 0)


async def test_few_large_requests_of_a_connection_arrive_at_a_time() -> None:
    served = Served()
    connection, wire = served.connect()
    message = framed(bytes(200_000))
    for number in range(broker_limits.RPC_REQUESTS_ARRIVING_MAX + 1):
        connection.data_received(start(2 * number + 1, "/test.Things/Do") + data(2 * number + 1, message[:10_000]))
    last = 2 * broker_limits.RPC_REQUESTS_ARRIVING_MAX + 1
    credited = [stream_id for kind, _, stream_id, _ in read_frames(b"".join(wire.writes)) if kind == 8]
    assert last not in credited
    connection.data_received(frames.rst_stream(1, 8))
    credited = [stream_id for kind, _, stream_id, _ in read_frames(b"".join(wire.writes)) if kind == 8]
    assert last in credited


async def test_requests_in_parts_are_bounded_for_the_whole_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danube.rpc.http2.server.arrivals.HTTP2_REQUESTS_BYTES_MAX", 15_000)
    served = Served()
    (first, _), (second, wire) = served.connect(), served.connect()
    message = framed(bytes(200_000))
    first.data_received(start(1, "/test.Things/Do") + data(1, message[:10_000]))
    second.data_received(start(1, "/test.Things/Do") + data(1, message[:10_000]))
    assert statuses(wire)[0][:2] == (1, "8")
    assert served.side.partial.bytes == 10_000


REFUSALS: dict[str, tuple[bytes, str, str]] = {
    "unknown method": (call(1, path="/test.Things/Undo"), "12", "does not serve /test.Things/Undo"),
    "compression": (start(1, "/test.Things/Do", "x", ("grpc-encoding", "gzip")), "12", "grpc-encoding 'gzip'"),
    "compressed message": (
        start(1, "/test.Things/Do") + data(1, b"\1" + framed(b"x")[1:], ended=True),
        "12",
        "without compression",
    ),
    "no message": (start(1, "/test.Things/Do") + data(1, b"", ended=True), "3", "send one"),
    "two messages": (start(1, "/test.Things/Do") + data(1, framed(b"a") * 2, ended=True), "3", "more than one"),
    "end inside a message": (start(1, "/test.Things/Do") + data(1, framed(b"abc")[:6], ended=True), "3", "inside"),
    "timeout": (start(1, "/test.Things/Do", "x", ("grpc-timeout", "soon")), "3", "grpc-timeout"),
    "metadata": (start(1, "/test.Things/Do", "x", ("x", "y" * 17_000)), "8", "metadata is larger"),
    "stream without a message": (start(1, "/test.Things/Fill") + data(1, b"", ended=True), "3", "send one"),
    "giant message": (start(1, "/test.Things/Do") + data(1, b"\0\xff\xff\xff\xff"), "8", "larger"),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_call_that_cannot_be_served_is_refused_with_its_reason(name: str) -> None:
    sent, status, reason = REFUSALS[name]
    served = Served()
    connection, wire = served.connect()
    connection.data_received(sent)
    ((stream_id, found, message),) = statuses(wire)
    assert (stream_id, found) == (1, status)
    assert reason in message.replace("%20", " ").replace("%27", "'")
    assert (served.side.active, connection.connection.streams) == (0, {})


async def test_path_that_is_no_text_is_refused_readably() -> None:
    connection, wire = Served().connect()
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/\xff\xfe"),
        (b"content-type", b"application/grpc"),
    ]
    connection.data_received(frames.frame(frames.HEADERS, 5, 1, hpack.Encoder().encode(fields)))
    assert statuses(wire) == [(1, "12", "this port does not serve /\\xff\\xfe")]


async def test_browser_is_told_that_the_port_speaks_grpc() -> None:
    connection, wire = Served().connect(b"")
    connection.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (wire.writes[0].startswith(b"HTTP/1.1 505"), b"gRPC" in wire.writes[0], wire.closed) == (True, True, True)


async def test_call_that_is_not_grpc_is_answered_in_http() -> None:
    connection, wire = Served().connect()
    fields = [(name, value) for name, value in REQUEST if name != "content-type"]
    connection.data_received(headers(1, *fields, ended=True))
    assert kinds(wire) == [frames.HEADERS, frames.DATA]
    assert b"gRPC" in b"".join(wire.writes)


async def test_call_reset_in_the_bytes_that_opened_it_never_reaches_its_handler() -> None:
    served = Served()
    connection, _ = served.connect()
    connection.data_received(call(1) + frames.rst_stream(1, 8))
    assert (served.requests, served.side.active) == ([], 0)


async def test_peer_that_does_not_read_is_read_no_further_and_its_streams_wait() -> None:
    served = Served()
    connection, wire = served.connect()
    connection.data_received(
        frames.window_update(0, 1 << 30) + frames.settings({frames.Setting.INITIAL_WINDOW_SIZE: 1 << 30})
    )
    connection.pause_writing()
    wire.writes.clear()
    connection.data_received(call(1, path="/test.Things/Fill"))
    assert (wire.reading, frames.DATA in kinds(wire), served.streams[0].stream.room <= 0) == (False, False, True)
    connection.resume_writing()
    await asyncio.sleep(0)
    assert (wire.reading, frames.DATA in kinds(wire)) == (True, True)


async def test_answers_without_credit_are_bounded_and_dropped_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP2_BLOCKED_REPLIES_BYTES_MAX", 10_000)
    served = Served()
    connection, wire = served.connect(frames.PREFACE + frames.settings({frames.Setting.INITIAL_WINDOW_SIZE: 0}))
    for number in range(12):
        connection.data_received(call(2 * number + 1, bytes(1_000)))
    refused = [status for _, status, _ in statuses(wire)]
    assert (refused, served.side.active) == (["8", "8"], 10)
    served.clock.advance(limits.HTTP2_BLOCKED_REPLY_S)
    connection.tick(served.clock.monotonic_s())
    assert (served.side.active, connection.connection.sender.pending_bytes) == (0, 0)


async def test_answer_that_waits_for_credit_leaves_with_it() -> None:
    served = Served()
    connection, wire = served.connect(frames.PREFACE + frames.settings({frames.Setting.INITIAL_WINDOW_SIZE: 0}))
    connection.data_received(call(1, b"abc"))
    assert statuses(wire) == []
    connection.data_received(frames.window_update(1, 100))
    assert (statuses(wire), served.side.active, connection.connection.streams) == ([(1, "0", "")], 0, {})


async def test_connection_that_does_not_say_what_it_speaks_is_closed() -> None:
    served = Served()
    silent = [served.connect(b"") for _ in range(2_000)]
    working, wire = served.connect()
    served.clock.advance(limits.HTTP2_PREFACE_TIMEOUT_S)
    for connection in tuple(served.side.connections):
        connection.tick(served.clock.monotonic_s())
    assert ([each.closed for _, each in silent], wire.closed) == ([True] * 2_000, False)
    working.data_received(call(1))
    assert statuses(wire) == [(1, "0", "")]


async def test_silent_peer_is_pinged_and_then_given_up() -> None:
    served = Served()
    connection, wire = served.connect()
    connection.data_received(call(1, path="/test.Things/Fill"))
    wire.writes.clear()

    def tick(seconds: float) -> list[int]:
        served.clock.advance(seconds)
        connection.tick(served.clock.monotonic_s())
        return kinds(wire)

    assert tick(broker_limits.RPC_KEEPALIVE_S - 1) == []
    assert tick(1.0) == [frames.PING]
    connection.data_received(frames.frame(frames.PING, frames.ACK, 0, bytes(8)))
    tick(broker_limits.RPC_KEEPALIVE_S)
    tick(broker_limits.RPC_KEEPALIVE_TIMEOUT_S - 1)
    assert wire.closed is False
    tick(1.0)
    connection.connection_lost(None)
    assert (wire.closed, served.streams[0].cancelled, served.side.active, served.side.memory.used_bytes) == (
        True,
        True,
        0,
        0,
    )


async def test_deadline_ends_a_call_by_the_clock() -> None:
    served = Served()
    connection, wire = served.connect()
    told: list[str] = []
    timeout = ("grpc-timeout", "5S")
    connection.data_received(start(1, "/test.Things/Later", "x", timeout) + data(1, framed(b""), ended=True))
    served.calls[0].on_cancel(lambda: told.append("late"))
    served.clock.advance(4.9)
    assert told == []
    served.clock.advance(0.1)
    await asyncio.sleep(0)
    assert (told, statuses(wire)[0][:2]) == (["late"], (1, "4"))


async def test_room_for_one_more_connection_is_made_by_the_oldest_idle_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP2_CONNECTIONS_MAX", 2)
    served = Served()
    busy, busy_wire = served.connect()
    busy.data_received(start(1, "/test.Things/Talk"))
    _, idle_wire = served.connect()
    _, new_wire = served.connect()
    assert (busy_wire.closed, idle_wire.closed, new_wire.closed) == (False, True, False)


async def test_goaway_says_which_calls_were_taken_and_refuses_others() -> None:
    served = Served()
    connection, wire = served.connect()
    connection.data_received(call(1, path="/test.Things/Later"))
    connection.go_away()
    connection.data_received(call(3))
    found = list(read_frames(b"".join(wire.writes)))
    assert (frames.GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4)) in found
    assert (frames.RST_STREAM, 0, 3, ErrorCode.REFUSED_STREAM.to_bytes(4, "big")) in found
    served.calls[0].reply(b"")
    await asyncio.sleep(0)
    assert statuses(wire) == [(1, "0", "")]


async def test_paused_conversation_gives_no_credit() -> None:
    served = Served()
    connection, wire = served.connect()
    connection.data_received(start(1, "/test.Things/Talk"))
    served.streams[0].stream.pause_reading()
    wire.writes.clear()
    for _ in range(60):
        connection.data_received(data(1, framed(bytes(16_000))))
    assert [kind for kind, _, stream_id, _ in read_frames(b"".join(wire.writes)) if (kind, stream_id) == (8, 1)] == []
    served.streams[0].stream.resume_reading()
    await asyncio.sleep(0)
    assert [kind for kind, _, stream_id, _ in read_frames(b"".join(wire.writes)) if (kind, stream_id) == (8, 1)] != []

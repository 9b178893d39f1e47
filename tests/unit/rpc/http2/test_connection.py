"""The state machine of a connection: streams, windows, and the rules of RFC 9113 by frames that break them."""

import hpack
import pytest

from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol import frames
from danube.rpc.http2.protocol.connection import Connection
from danube.rpc.http2.protocol.events import (
    ConnectionFailed,
    DataReceived,
    GoingAway,
    HeadersReceived,
    PingAnswered,
    StreamReset,
    StreamSent,
)
from danube.rpc.http2.protocol.frames import ErrorCode, Setting
from danube.rpc.http2.protocol.heads import RequestHead
from tests.unit.rpc.http2.peer import (
    END_HEADERS,
    END_STREAM,
    OPEN,
    REQUEST,
    client,
    data,
    headers,
    kinds,
    opened_server,
    read_frames,
    sent,
    server,
)

CLOSED_STREAM = headers(1, ended=True)


def answered(connection: Connection[RequestHead]) -> None:
    """Have stream 1 closed at both ends."""
    connection.receive(CLOSED_STREAM, 0.0)
    connection.sender.reply(connection.streams[1], b"")
    connection.close(connection.streams[1])


def test_call_in_one_piece_is_headers_and_data() -> None:
    connection = server()
    events = connection.receive(OPEN + headers(1) + data(1, b"\0\0\0\0\1a", ended=True), 0.0)
    assert kinds(events) == ["Settled", "HeadersReceived", "DataReceived"]
    (_, head, body) = events
    assert isinstance(head, HeadersReceived)
    assert isinstance(body, DataReceived)
    assert (head.head.path, head.head.is_grpc, head.ended, body.data) == (
        b"/test.Things/Do",
        True,
        False,
        b"\0\0\0\0\1a",
    )


def test_the_same_bytes_one_by_one_mean_the_same() -> None:
    stream = (
        OPEN
        + headers(1)
        + data(1, bytes(300))
        + data(1, b"end", ended=True)
        + frames.frame(frames.PING, 0, 0, bytes(8))
    )
    whole, pieces = server(), server()
    expected = whole.receive(stream, 0.0)
    assert [event for byte in stream for event in pieces.receive(bytes([byte]), 0.0)] == expected
    assert pieces.take_output() == whole.take_output()


def test_two_ends_understand_each_other() -> None:
    asking, answering = client(), server()
    stream = asking.open_stream(hpack.Encoder().encode(REQUEST))
    asking.sender.message(stream, b"question", ended=True)
    *_, body = answering.receive(asking.take_output(), 0.0)
    assert isinstance(body, DataReceived)
    assert (body.data[5:], body.ended) == (b"question", True)
    answering.sender.reply(answering.streams[1], b"answer")
    answering.close(answering.streams[1])
    events = asking.receive(answering.take_output(), 0.0)
    assert kinds(events) == ["Settled", "HeadersReceived", "DataReceived", "HeadersReceived"]  # type: ignore[arg-type]
    asking.close(stream)
    assert (asking.streams, answering.streams) == ({}, {})


def test_reply_beyond_the_windows_waits_and_leaves_with_credit() -> None:
    connection = server()
    connection.receive(frames.PREFACE + frames.settings({Setting.INITIAL_WINDOW_SIZE: 10}), 0.0)
    connection.receive(headers(1, ended=True), 0.0)
    connection.take_output()
    assert not connection.sender.reply(connection.streams[1], bytes(20))
    assert [(kind, len(payload)) for kind, _, _, payload in sent(connection)][1:] == [(frames.DATA, 10)]
    assert connection.sender.pending_bytes == 15
    assert connection.receive(frames.window_update(1, 10), 0.0) == []
    assert connection.receive(frames.window_update(1, 10), 0.0) == [StreamSent(1)]
    assert [(kind, flags) for kind, flags, _, _ in sent(connection)][-1] == (frames.HEADERS, END_HEADERS | END_STREAM)
    assert (connection.streams, connection.sender.pending_bytes) == ({}, 0)


def test_window_of_the_connection_is_shared_in_turns() -> None:
    connection = server()
    settings = frames.settings({Setting.INITIAL_WINDOW_SIZE: 1 << 20})
    connection.receive(frames.PREFACE + settings + headers(1, ended=True) + headers(3, ended=True), 0.0)
    connection.sender.message(connection.streams[1], bytes(100_000))
    connection.sender.message(connection.streams[3], bytes(10))
    assert connection.sender.window == 0
    events = connection.receive(frames.window_update(0, 100_000), 0.0)
    assert events == [StreamSent(1), StreamSent(3)]


def test_smaller_initial_window_makes_one_that_is_used_negative() -> None:
    connection = opened_server()
    connection.receive(headers(1, ended=True), 0.0)
    connection.sender.message(connection.streams[1], bytes(1_000))
    connection.receive(frames.settings({Setting.INITIAL_WINDOW_SIZE: 100}), 0.0)
    assert connection.streams[1].send_window == 100 - 1_005


def test_credit_is_given_back_in_halves_of_the_window() -> None:
    connection = opened_server()
    connection.receive(headers(1) + data(1, bytes(16_000)) + data(1, bytes(16_000)), 0.0)
    stream = connection.streams[1]
    connection.credit(stream, 16_000)
    assert sent(connection) == []
    connection.receive(data(1, bytes(16_000)), 0.0)
    connection.credit(stream, 32_000)
    assert sent(connection) == [(frames.WINDOW_UPDATE, 0, 1, (48_000).to_bytes(4, "big"))]
    assert stream.receive_window == 65_535


def test_more_data_than_the_window_resets_the_stream() -> None:
    connection = opened_server()
    events = connection.receive(headers(1) + b"".join(data(1, bytes(16_000)) for _ in range(5)), 0.0)
    last = events[-1]
    assert isinstance(last, StreamReset)
    assert (last.code, last.by_peer) == (ErrorCode.FLOW_CONTROL_ERROR, False)


def test_padding_is_dropped_and_credited() -> None:
    connection = opened_server()
    padded = frames.frame(frames.DATA, frames.PADDED, 1, b"\x03abc\0\0\0")
    _, body = connection.receive(headers(1) + padded, 0.0)
    assert body == DataReceived(1, b"abc", ended=False)
    assert connection.streams[1].receive_due == 4


def test_headers_come_in_parts() -> None:
    connection = opened_server()
    block = hpack.Encoder().encode(REQUEST)
    parts = frames.frame(frames.HEADERS, END_STREAM, 1, block[:5])
    parts += frames.frame(frames.CONTINUATION, 0, 1, block[5:9]) + frames.frame(frames.CONTINUATION, 4, 1, block[9:])
    (event,) = connection.receive(parts, 0.0)
    assert isinstance(event, HeadersReceived)
    assert (event.head.path, event.ended) == (b"/test.Things/Do", True)


def test_long_headers_leave_in_parts() -> None:
    connection = client()
    connection.open_stream(bytes(40_000))
    kinds_sent = [(kind, flags) for kind, flags, *_ in read_frames(connection.take_output()[len(frames.PREFACE) :])]
    assert kinds_sent[-3:] == [(frames.HEADERS, 0), (frames.CONTINUATION, 0), (frames.CONTINUATION, END_HEADERS)]


def test_priority_is_ignored() -> None:
    connection = opened_server()
    block = (0).to_bytes(4, "big") + b"\x10" + hpack.Encoder().encode(REQUEST)
    with_priority = frames.frame(frames.HEADERS, END_HEADERS | frames.WITH_PRIORITY, 1, block)
    events = connection.receive(with_priority + frames.frame(frames.PRIORITY, 0, 3, bytes(4) + b"\x10"), 0.0)
    assert kinds(events) == ["HeadersReceived"]


def test_ping_is_answered_and_an_answer_is_told() -> None:
    connection = opened_server()
    connection.receive(frames.frame(frames.PING, 0, 0, b"12345678"), 0.0)
    assert sent(connection) == [(frames.PING, frames.ACK, 0, b"12345678")]
    assert connection.receive(frames.frame(frames.PING, frames.ACK, 0, b"12345678"), 0.0) == [PingAnswered(b"12345678")]


def test_stream_answered_before_its_request_ended_is_reset_and_late_frames_are_ignored() -> None:
    connection = opened_server()
    connection.receive(headers(1) + data(1, b"\0"), 0.0)
    connection.sender.headers(connection.streams[1], b"\x88", ended=True)
    connection.close(connection.streams[1])
    assert sent(connection)[-1] == (frames.RST_STREAM, 0, 1, bytes(4))
    assert connection.receive(data(1, bytes(100)) + data(1, b"", ended=True), 0.0) == []
    assert sent(connection) == []


def test_streams_beyond_the_limit_and_after_a_goaway_are_refused() -> None:
    connection = opened_server(streams_max=1)
    refused = (frames.RST_STREAM, 0, 3, ErrorCode.REFUSED_STREAM.to_bytes(4, "big"))
    connection.receive(headers(1), 0.0)
    connection.receive(headers(3), 0.0)
    assert sent(connection) == [refused]
    connection.go_away()
    assert sent(connection) == [(frames.GOAWAY, 0, 0, (3).to_bytes(4, "big") + bytes(4))]
    connection.receive(frames.rst_stream(1, 8) + headers(5), 0.0)
    assert sent(connection)[-1][:3] == (frames.RST_STREAM, 0, 5)


def test_goaway_of_the_peer_is_told() -> None:
    connection = client()
    events = connection.receive(frames.settings({}) + frames.goaway(7, ErrorCode.NO_ERROR, "moving"), 0.0)
    assert events[-1] == GoingAway(7, 0, "moving")


def test_interim_answer_is_followed_by_the_answer() -> None:
    connection = client()
    connection.open_stream(b"", ended=True)
    connection.receive(frames.settings({}) + headers(1, (":status", "103")), 0.0)
    events = connection.receive(headers(1, (":status", "200")), 0.0)
    assert kinds(events) == ["HeadersReceived"]  # type: ignore[arg-type]


def test_failed_connection_reads_nothing_more() -> None:
    connection = opened_server()
    connection.receive(data(0, b"x"), 0.0)
    assert connection.receive(headers(1), 0.0) == []


WITHOUT = {name: tuple(field for field in REQUEST if field[0] != name) for name in (":method", ":scheme", ":path")}
STREAM_FAULTS = {
    "headers after the end": (CLOSED_STREAM + headers(1, ended=True), ErrorCode.STREAM_CLOSED),
    "data after the end": (CLOSED_STREAM + data(1, b"x"), ErrorCode.STREAM_CLOSED),
    "credit of nothing": (headers(1) + frames.window_update(1, 0), ErrorCode.PROTOCOL_ERROR),
    "window too large": (headers(1) + frames.window_update(1, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    "depends on itself": (
        frames.frame(frames.PRIORITY, 0, 1, (1).to_bytes(4, "big") + b"\0"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "short priority": (frames.frame(frames.PRIORITY, 0, 1, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
    "trailers without end": (headers(1) + headers(1, ("x", "y")), ErrorCode.PROTOCOL_ERROR),
    "pseudo fields in trailers": (headers(1) + headers(1, (":path", "/"), ended=True), ErrorCode.PROTOCOL_ERROR),
    "upper case": (headers(1, *REQUEST, ("X-Upper", "1")), ErrorCode.PROTOCOL_ERROR),
    "unknown pseudo field": (headers(1, *REQUEST[:3], (":other", "1")), ErrorCode.PROTOCOL_ERROR),
    "answer's pseudo field": (headers(1, *REQUEST[:3], (":status", "200")), ErrorCode.PROTOCOL_ERROR),
    "pseudo field late": (headers(1, *REQUEST, (":authority", "b")), ErrorCode.PROTOCOL_ERROR),
    "pseudo field twice": (headers(1, (":path", "/"), *REQUEST), ErrorCode.PROTOCOL_ERROR),
    "connection field": (headers(1, *REQUEST, ("connection", "close")), ErrorCode.PROTOCOL_ERROR),
    "te of HTTP/1.1": (headers(1, *REQUEST[:5], ("te", "gzip")), ErrorCode.PROTOCOL_ERROR),
    "line break in a value": (headers(1, *REQUEST, ("x", "a\nb")), ErrorCode.PROTOCOL_ERROR),
    "no method": (headers(1, *WITHOUT[":method"]), ErrorCode.PROTOCOL_ERROR),
    "no scheme": (headers(1, *WITHOUT[":scheme"]), ErrorCode.PROTOCOL_ERROR),
    "no path": (headers(1, *WITHOUT[":path"]), ErrorCode.PROTOCOL_ERROR),
    "less than its length": (
        headers(1, *REQUEST, ("content-length", "3")) + data(1, b"ab", ended=True),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "more than its length": (headers(1, *REQUEST, ("content-length", "1")) + data(1, b"ab"), ErrorCode.PROTOCOL_ERROR),
}


@pytest.mark.parametrize("name", STREAM_FAULTS)
def test_fault_on_a_stream_resets_it_alone(name: str) -> None:
    connection = opened_server()
    stream, code = STREAM_FAULTS[name]
    events = connection.receive(stream + headers(3, ended=True), 0.0)
    assert (frames.RST_STREAM, 0, 1, code.to_bytes(4, "big")) in sent(connection)
    assert isinstance(events[-1], HeadersReceived)
    assert 1 not in connection.streams


PING = frames.frame(frames.PING, 0, 0, bytes(8))
CONNECTION_FAULTS = {
    "data on no stream": (data(0, b"x"), ErrorCode.PROTOCOL_ERROR),
    "data on an idle stream": (data(1, b"x"), ErrorCode.PROTOCOL_ERROR),
    "headers on no stream": (headers(0), ErrorCode.PROTOCOL_ERROR),
    "headers on an even stream": (headers(2), ErrorCode.PROTOCOL_ERROR),
    "credit on an idle stream": (frames.window_update(1, 1), ErrorCode.PROTOCOL_ERROR),
    "reset of an idle stream": (frames.rst_stream(1, 8), ErrorCode.PROTOCOL_ERROR),
    "reset of no stream": (frames.rst_stream(0, 8), ErrorCode.PROTOCOL_ERROR),
    "short reset": (headers(1) + frames.frame(frames.RST_STREAM, 0, 1, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
    "priority of no stream": (frames.frame(frames.PRIORITY, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
    "settings of a stream": (frames.frame(frames.SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
    "settings of odd size": (frames.frame(frames.SETTINGS, 0, 0, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
    "settings acknowledged with more": (frames.frame(frames.SETTINGS, 1, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
    "push neither on nor off": (frames.settings({Setting.ENABLE_PUSH: 2}), ErrorCode.PROTOCOL_ERROR),
    "window setting too large": (
        frames.settings({Setting.INITIAL_WINDOW_SIZE: 1 << 31}),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "frame setting too small": (frames.settings({Setting.MAX_FRAME_SIZE: 100}), ErrorCode.PROTOCOL_ERROR),
    "frame setting too large": (frames.settings({Setting.MAX_FRAME_SIZE: 1 << 24}), ErrorCode.PROTOCOL_ERROR),
    "push promise": (headers(1) + frames.frame(frames.PUSH_PROMISE, 4, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    "ping of a stream": (frames.frame(frames.PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "short ping": (frames.frame(frames.PING, 0, 0, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
    "goaway of a stream": (frames.frame(frames.GOAWAY, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "short goaway": (frames.frame(frames.GOAWAY, 0, 0, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
    "credit of nothing": (frames.window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
    "short credit": (frames.frame(frames.WINDOW_UPDATE, 0, 0, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
    "window too large": (frames.window_update(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    "giant frame": (frames.frame_header((1 << 24) - 1, 0, 0, 1), ErrorCode.FRAME_SIZE_ERROR),
    "padding beyond the payload": (
        headers(1) + frames.frame(frames.DATA, frames.PADDED, 1, b"\x05abc"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a lone continuation": (frames.frame(frames.CONTINUATION, 4, 1, b""), ErrorCode.PROTOCOL_ERROR),
    "interrupted headers": (frames.frame(frames.HEADERS, 0, 1, b"\x83") + PING, ErrorCode.PROTOCOL_ERROR),
    "another stream's continuation": (
        frames.frame(frames.HEADERS, 0, 1, b"\x83") + frames.frame(frames.CONTINUATION, 4, 3, b""),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "headers that cannot be decoded": (
        frames.frame(frames.HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
        ErrorCode.COMPRESSION_ERROR,
    ),
    "a stream number that was passed": (headers(5) + headers(3), ErrorCode.STREAM_CLOSED),
}


@pytest.mark.parametrize("name", CONNECTION_FAULTS)
def test_fault_of_a_connection_ends_it(name: str) -> None:
    connection = opened_server()
    stream, code = CONNECTION_FAULTS[name]
    last = connection.receive(stream, 0.0)[-1]
    assert isinstance(last, ConnectionFailed)
    assert last.code == code
    kind, _, _, payload = sent(connection)[-1]
    assert (kind, payload[4:8]) == (frames.GOAWAY, code.to_bytes(4, "big"))


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00", frames.PREFACE + PING, frames.PREFACE[:-1] + b"!"]
)
def test_peer_that_does_not_begin_as_a_client_is_refused(start: bytes) -> None:
    assert isinstance(server().receive(start, 0.0)[-1], ConnectionFailed)


def test_frames_of_unknown_kinds_are_ignored() -> None:
    connection = opened_server()
    assert connection.receive(frames.frame(200, 0xFF, 7, b"abc"), 0.0) == []
    assert not connection.failed


def test_frame_on_a_stream_long_closed_hurts_nobody_but_its_sender() -> None:
    connection = opened_server()
    answered(connection)
    connection.receive(frames.window_update(1, 5) + frames.rst_stream(1, 8), 0.0)
    assert not connection.failed
    connection.receive(CLOSED_STREAM, 0.0)
    assert connection.failed


def test_credit_of_the_connection_comes_back_by_itself() -> None:
    connection = opened_server()
    connection.receive(headers(1), 0.0)
    connection.widen(connection.streams[1], 1 << 30)
    connection.take_output()
    frame = data(1, bytes(16_384))
    for _ in range(limits.HTTP2_CONNECTION_WINDOW_BYTES // 16_384):
        connection.receive(frame, 0.0)
    assert [kind for kind, _, stream_id, _ in sent(connection) if stream_id == 0] == [frames.WINDOW_UPDATE] * 4

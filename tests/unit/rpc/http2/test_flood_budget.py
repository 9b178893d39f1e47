"""Floods: frames that cost the broker work and the peer nothing end their connection, and normal use does not."""

from collections.abc import Callable

import hpack
import pytest

from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol import frames
from danube.rpc.http2.protocol.events import ConnectionFailed
from danube.rpc.http2.protocol.flood_budget import Bucket
from danube.rpc.http2.protocol.frames import ErrorCode, ProtocolError
from danube.rpc.http2.protocol.header_blocks import encode
from tests.unit.rpc.http2.peer import REQUEST, data, headers, opened_server

BLOCK = encode([(name.encode(), value.encode()) for name, value in REQUEST])


def opened(number: int) -> bytes:
    return frames.frame(frames.HEADERS, frames.END_HEADERS, 2 * number + 3, BLOCK)


PING = frames.frame(frames.PING, 0, 0, bytes(8))
FLOODS: dict[str, tuple[Callable[[int], bytes], int]] = {
    "pings": (lambda _: PING, limits.HTTP2_CONTROL_FRAMES_BURST),
    "settings": (lambda _: frames.settings({}), limits.HTTP2_CONTROL_FRAMES_BURST),
    "rapid reset": (
        lambda number: opened(number) + frames.rst_stream(2 * number + 3, 8),
        limits.HTTP2_RESETS_BURST,
    ),
    "resets that the peer provokes": (
        lambda number: opened(number) + frames.window_update(2 * number + 3, 0),
        limits.HTTP2_RESETS_BURST,
    ),
    "empty data": (lambda _: data(1, b""), limits.HTTP2_IDLE_FRAMES_BURST),
    "padding alone": (lambda _: frames.frame(frames.DATA, frames.PADDED, 1, b"\0"), limits.HTTP2_IDLE_FRAMES_BURST),
    "priority": (lambda _: frames.frame(frames.PRIORITY, 0, 1, bytes(5)), limits.HTTP2_IDLE_FRAMES_BURST),
    "credit by single bytes": (lambda _: frames.window_update(1, 1), limits.HTTP2_IDLE_FRAMES_BURST),
    "unknown kinds": (lambda _: frames.frame(99, 0, 0), limits.HTTP2_IDLE_FRAMES_BURST),
}


@pytest.mark.parametrize("name", FLOODS)
def test_flood_ends_its_connection(name: str) -> None:
    connection = opened_server()
    connection.receive(headers(1), 0.0)
    make, burst = FLOODS[name]
    for number in range(burst - 1):
        connection.receive(make(number), 0.0)
        connection.sender.output.clear()
    assert not connection.failed
    (*_, last) = connection.receive(make(burst - 1) + make(burst), 0.0)
    assert isinstance(last, ConnectionFailed)
    assert last.code == ErrorCode.ENHANCE_YOUR_CALM


def test_continuation_flood_ends_its_connection() -> None:
    connection = opened_server()
    empty = frames.frame(frames.CONTINUATION, 0, 1)
    events = connection.receive(frames.frame(frames.HEADERS, 0, 1, BLOCK) + empty * limits.HTTP2_HEADER_FRAMES_MAX, 0.0)
    assert events == [ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "a header block has more than this end takes")]


def test_header_bomb_ends_its_connection() -> None:
    connection = opened_server()
    encoder = hpack.Encoder()
    bomb = encoder.encode([*REQUEST, ("x", "y" * 4_000)]) + b"\xbe" * 10_000
    (*_, last) = connection.receive(frames.frame(frames.HEADERS, 4, 1, bomb), 0.0)
    assert isinstance(last, ConnectionFailed)
    assert last.code == ErrorCode.ENHANCE_YOUR_CALM


def test_settings_of_many_entries_end_their_connection() -> None:
    connection = opened_server()
    many = frames.frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\0\1" * (limits.HTTP2_SETTINGS_ENTRIES_MAX + 1))
    assert isinstance(connection.receive(many, 0.0)[-1], ConnectionFailed)


def test_client_that_measures_by_pings_while_it_receives_is_no_flood() -> None:
    connection = opened_server()
    connection.receive(headers(1) + frames.window_update(0, 1 << 30) + frames.window_update(1, 1 << 30), 0.0)
    for _ in range(3 * limits.HTTP2_CONTROL_FRAMES_BURST):
        connection.sender.message(connection.streams[1], b"x")
        connection.receive(PING + frames.window_update(1, 6) + frames.window_update(0, 6), 0.0)
        connection.sender.output.clear()
    assert not connection.failed


def test_bucket_fills_with_time() -> None:
    bucket = Bucket("things", 10, 2.0)
    for _ in range(10):
        bucket.spend(100.0)
    with pytest.raises(ProtocolError, match="too many things"):
        bucket.spend(100.4)
    bucket.spend(101.0)
    with pytest.raises(ProtocolError):
        for _ in range(12):
            bucket.spend(1_000.0)


def test_peer_that_sends_byte_by_byte_costs_no_more_than_its_bytes() -> None:
    connection = opened_server()
    connection.receive(headers(1), 0.0)
    connection.widen(connection.streams[1], 1 << 20)
    frame = data(1, bytes(limits.HTTP2_FRAME_BYTES_MAX))
    events = [event for start in range(0, len(frame), 7) for event in connection.receive(frame[start : start + 7], 0.0)]
    assert len(events) == 1

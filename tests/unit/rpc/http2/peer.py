"""The other end of a connection under test: frames by hand, header blocks by `hpack`."""

from collections.abc import Iterator

import hpack

from danube.rpc.http2.protocol import frames
from danube.rpc.http2.protocol.connection import Connection, ConnectionOptions
from danube.rpc.http2.protocol.events import Event
from danube.rpc.http2.protocol.heads import RequestHead, ResponseHead, request_head, response_head

REQUEST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/test.Things/Do"),
    (":authority", "127.0.0.1:1"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)
OPEN = frames.PREFACE + frames.settings({})
END_HEADERS, END_STREAM = frames.END_HEADERS, frames.END_STREAM
Frame = tuple[int, int, int, bytes]


def server(streams_max: int = 100, metadata_bytes_max: int = 16_384) -> Connection[RequestHead]:
    options = ConnectionOptions(
        is_server=True, streams_max=streams_max, stream_window_bytes=65_535, metadata_bytes_max=metadata_bytes_max
    )
    return Connection(options, request_head)


def client() -> Connection[ResponseHead]:
    options = ConnectionOptions(is_server=False, streams_max=0, stream_window_bytes=65_535, metadata_bytes_max=16_384)
    return Connection(options, response_head)


def opened_server(streams_max: int = 100) -> Connection[RequestHead]:
    connection = server(streams_max)
    connection.receive(OPEN, 0.0)
    connection.take_output()
    return connection


def headers(
    stream_id: int, *fields: tuple[str, str], ended: bool = False, encoder: hpack.Encoder | None = None
) -> bytes:
    block = (encoder or hpack.Encoder()).encode(fields or REQUEST)
    return frames.frame(frames.HEADERS, END_HEADERS | (END_STREAM if ended else 0), stream_id, block)


def data(stream_id: int, payload: bytes, *, ended: bool = False) -> bytes:
    return frames.frame(frames.DATA, END_STREAM if ended else 0, stream_id, payload)


def read_frames(output: bytes) -> Iterator[Frame]:
    position = 0
    while position < len(output):
        upper, lower, kind, flags, stream_id = frames.unpack_header(output, position)
        start = position + frames.HEADER_BYTES
        position = start + (upper << 8 | lower)
        yield kind, flags, stream_id, output[start:position]


def sent(connection: Connection[RequestHead] | Connection[ResponseHead]) -> list[Frame]:
    return list(read_frames(connection.take_output()))


def kinds(events: list[Event[RequestHead]]) -> list[str]:
    return [type(event).__name__ for event in events]

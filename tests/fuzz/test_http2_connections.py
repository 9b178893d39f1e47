"""The HTTP/2 state machine against random connections: frames of a real call, changed, cut, repeated and mixed.

Nothing it is sent raises; what it keeps stays bounded. `DANUBE_HTTP2_FUZZ=20000` tries more of them.
"""

import os
import random
from collections.abc import Iterator

import hpack
import pytest

from danube.rpc.http2.protocol import frames
from danube.rpc.http2.protocol.connection import Connection
from danube.rpc.http2.protocol.events import DataReceived, Event, HeadersReceived
from danube.rpc.http2.protocol.heads import RequestHead
from tests.unit.rpc.http2.peer import REQUEST, opened_server

CONNECTIONS = int(os.environ.get("DANUBE_HTTP2_FUZZ", "1000"))
FRAMES = 40
NUMBERS = (0, 1, 1, 3, 3, 5, 7, 2, 2**31 - 1)


def hostile(chance: random.Random) -> Iterator[bytes]:
    """Frames, most of them valid on their own, in an order that need not be."""
    encoder = hpack.Encoder()
    for _ in range(FRAMES):
        kind = chance.choice((0, 0, 1, 1, 1, 2, 3, 4, 6, 7, 8, 8, 9, 9, chance.randrange(256)))
        flags = chance.choice((0, 1, 4, 5, 8, 0x20, chance.randrange(256)))
        payload = payload_of(kind, chance, encoder)
        if chance.random() < 0.1:
            payload = bytes(byte ^ (1 << chance.randrange(8)) if chance.random() < 0.2 else byte for byte in payload)
        whole = frames.frame(kind, flags, chance.choice(NUMBERS), payload)
        yield whole[: chance.randrange(len(whole))] if chance.random() < 0.02 else whole


def payload_of(kind: int, chance: random.Random, encoder: hpack.Encoder) -> bytes:
    match kind:
        case frames.DATA:
            return b"\0" + chance.randrange(40).to_bytes(4, "big") + chance.randbytes(chance.randrange(40))
        case frames.HEADERS | frames.CONTINUATION:
            fields = [field for field in REQUEST if chance.random() < 0.97]
            return encoder.encode([*fields, ("x", chance.choice("abc"))], huffman=chance.random() < 0.5)
        case frames.SETTINGS:
            return b"".join(chance.randrange(8).to_bytes(2, "big") + chance.randbytes(4) for _ in range(2))
        case frames.PING | frames.GOAWAY:
            return chance.randbytes(8)
        case frames.RST_STREAM | frames.WINDOW_UPDATE:
            return chance.choice((0, 1, 100, 70_000, 2**31 - 1)).to_bytes(4, "big")
        case _:
            return chance.randbytes(chance.randrange(12))


def answer(connection: Connection[RequestHead], events: list[Event[RequestHead]], chance: random.Random) -> None:
    """Do with each request what a server may."""
    for event in events:
        if not isinstance(event, HeadersReceived | DataReceived):
            continue
        stream = connection.streams.get(event.stream_id)
        if stream is None or stream.local_closed or stream.pending is not None:
            continue
        match chance.randrange(5):
            case 0:
                connection.sender.reply(stream, chance.randbytes(chance.randrange(100_000)))
                connection.close(stream)
            case 1:
                connection.sender.message(stream, chance.randbytes(chance.randrange(1_000)))
            case 2:
                connection.reset(stream, frames.ErrorCode.CANCEL)
            case 3:
                connection.widen(stream, 1 << 20)
            case _:
                connection.credit(stream, 10)


@pytest.mark.timeout(600)
def test_random_connections_raise_nothing_and_keep_little() -> None:
    for number in range(CONNECTIONS):
        chance = random.Random(f"connection {number}")
        connection = opened_server()
        stream = b"".join(hostile(chance))
        while stream:
            size = chance.choice((1, 9, 100, 10_000))
            try:
                answer(connection, connection.receive(stream[:size], 0.0), chance)
            except Exception as error:
                error.add_note(f"connection {number}")
                raise
            connection.take_output()
            stream = stream[size:]
        held = connection.sender.pending_bytes + len(connection._rest)
        assert (len(connection.streams) <= 5, held < 600_000) == (True, True), number


def test_random_bytes_end_a_connection_or_wait_for_more() -> None:
    for number in range(CONNECTIONS):
        chance = random.Random(f"bytes {number}")
        connection = opened_server()
        connection.receive(chance.randbytes(chance.randrange(200)), 0.0)
        assert len(connection._rest) < 200

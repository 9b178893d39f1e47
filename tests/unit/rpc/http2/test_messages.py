"""gRPC messages cut out of a stream's data."""

import pytest

from danube.model.errors import DanubeError, InvalidRequestError, LimitReachedError, UnsupportedError
from danube.rpc.http2.protocol.messages import MessageReader


def framed(message: bytes, compressed: int = 0) -> bytes:
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100, 10_000])
def test_messages_are_the_same_however_the_stream_is_cut(size: int) -> None:
    messages = [b"", b"a", bytes(10), b"b" * 1_000, b""]
    stream = b"".join(map(framed, messages))
    reader = MessageReader(1_000)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [message for piece in pieces for message in reader.feed(piece)] == messages
    assert (reader.held_bytes, reader.missing_bytes) == (0, 0)


def test_reader_knows_what_is_missing() -> None:
    reader = MessageReader(1_000)
    assert reader.feed(framed(bytes(100))[:3]) == []
    assert (reader.held_bytes, reader.missing_bytes) == (3, 0)
    assert reader.feed(framed(bytes(100))[3:25]) == []
    assert (reader.held_bytes, reader.missing_bytes) == (25, 80)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (framed(bytes(1_001)), LimitReachedError),
        (framed(b"", compressed=1), UnsupportedError),
        (framed(b"", compressed=2), InvalidRequestError),
    ],
)
@pytest.mark.parametrize("cut", [1, 5, 6])
def test_message_that_is_not_taken_is_refused_by_its_prefix(data: bytes, kind: type[DanubeError], cut: int) -> None:
    reader = MessageReader(1_000)
    with pytest.raises(kind):
        for piece in (data[:cut], data[cut:6], data[6:]):
            reader.feed(piece)

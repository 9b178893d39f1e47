"""Frames come as they were sent, in order, or the connection ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from danube.metadata.raft.port.frames import MAC_BYTES, FrameReader, FrameWriter
from danube.metadata.raft.port.refusals import RefusedError
from danube.model.limits.metadata import RAFT_FRAME_BYTES_MAX

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


def framed(*payloads: bytes, key: bytes | None = KEY) -> list[bytes]:
    writer = FrameWriter(key)
    return [b"".join(writer.frame(payload)) for payload in payloads]


@pytest.mark.parametrize("key", [KEY, None], ids=["with a key", "without"])
@given(payloads=some.lists(some.binary(min_size=1, max_size=40), max_size=5), size=some.integers(1, 70))
def test_frames_come_as_they_were_sent_whatever_the_pieces(key: bytes | None, payloads: list[bytes], size: int) -> None:
    reader, sent = FrameReader(key), b"".join(framed(*payloads, key=key))
    got = [payload for at in range(0, len(sent), size) for payload in reader.receive(sent[at : at + size])]
    assert got == payloads


def test_a_frame_without_payload_is_no_message_and_counts() -> None:
    assert FrameReader(KEY).receive(b"".join(framed(b"a", b"", b"b"))) == [b"a", b"b"]


@given(some.data())
def test_a_changed_bit_ends_the_connection_or_waits_for_more(data: some.DataObject) -> None:
    sent = bytearray(b"".join(framed(b"first", b"second")))
    at = data.draw(some.integers(0, len(sent) - 1))
    sent[at] ^= 1 << data.draw(some.integers(0, 7))
    try:
        got = FrameReader(KEY).receive(bytes(sent))
    except RefusedError:
        return
    assert got in ([], [b"first"])


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(["one", "one"], id="repeated"),
        pytest.param(["two"], id="the first one left out"),
        pytest.param(["one", "three"], id="one left out"),
        pytest.param(["two", "one"], id="swapped"),
        pytest.param(["one", "second of another session"], id="of another session"),
        pytest.param(["one without a MAC"], id="without a MAC"),
    ],
)
def test_frames_that_are_not_as_they_were_sent_end_the_connection(order: list[str]) -> None:
    frames = dict(zip(("one", "two", "three"), framed(b"one", b"two", b"three"), strict=True))
    frames["second of another session"] = framed(b"x", b"y", key=OTHER_KEY)[1]
    frames["one without a MAC"] = frames["one"][:-MAC_BYTES] + bytes(MAC_BYTES)
    with pytest.raises(RefusedError, match="changed, repeated or left out"):
        FrameReader(KEY).receive(b"".join(frames[name] for name in order))


def test_a_length_is_refused_before_anything_of_it_is_kept() -> None:
    with pytest.raises(RefusedError, match="is the most"):
        FrameReader(KEY).receive((RAFT_FRAME_BYTES_MAX + 1).to_bytes(4, "little"))


def test_a_message_that_is_too_large_is_not_framed() -> None:
    with pytest.raises(ValueError, match="too large"):
        FrameWriter(KEY).frame(bytes(RAFT_FRAME_BYTES_MAX + 1))

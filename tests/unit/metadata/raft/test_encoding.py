"""What members send each other is plain data: all of it comes back as it was, and nothing else is read or written."""

import pickle
import sys
from decimal import Decimal
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as some

from danube.metadata.raft.values import encoding
from danube.metadata.raft.values.node import RaftNode
from danube.model.limits.metadata import ENCODING_CONTAINERS_MAX, ENCODING_DEPTH_MAX, RAFT_FRAME_BYTES_MAX

NUMBERS = some.integers(-(2**63), 2**64 - 1)
NODES = some.builds(
    RaftNode.of, some.integers(1, 2**63), some.sampled_from(["10.0.0.1:7650", "[::1]:1", "broker-3:65535"])
)
SCALARS = some.none() | some.booleans() | NUMBERS | some.floats(allow_nan=False) | some.text() | some.binary() | NODES
VALUES = some.recursive(
    SCALARS,
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.lists(inner, max_size=4).map(tuple)
        | some.dictionaries(some.text() | some.binary(), inner, max_size=4)
    ),
    max_leaves=12,
)
FOREIGN = [
    object(),
    RaftNode,
    {1, 2},
    bytearray(b"x"),
    memoryview(b"x"),
    2**64,
    -(2**63) - 1,
    1j,
    Decimal(1),
    "\ud800",
    {1: "a key that is a number"},
    {(): "a key that is a tuple"},
    [lambda: None],
    msgpack.ExtType(1, b"\x90"),
    msgpack.Timestamp(1),
    type("Text", (str,), {})("a text of another class"),
]
HOSTILE = {
    "nothing": b"",
    "a pickle": pickle.dumps(["add", "x"], 2),
    "a byte that means nothing": b"\xc1",
    "two values": b"\x01\x02",
    "a value cut short": b"\x92\x01",
    "an array of four thousand million": b"\xdd\xff\xff\xff\xff",
    "a text that is no UTF-8": b"\xa2\xff\xfe",
    "a key that is a number": b"\x81\x01\x02",
    "MessagePack's timestamp": b"\xd6\xff\x00\x00\x00\x00",
    "an unknown extension": b"\xd4\x09\x00",
    "a list that is a number": b"\xd4\x01\x07",
    "a list cut short": b"\xd4\x01\x93",
    "a node without an address": b"\xd5\x02\x31\x40",
    "arrays that never end": b"\x91" * 5_000,
    "arrays too deep": b"\x91" * ENCODING_DEPTH_MAX + b"\x90",
    "too many arrays": b"\xdd"
    + (ENCODING_CONTAINERS_MAX + 1).to_bytes(4, "big")
    + b"\x90" * (ENCODING_CONTAINERS_MAX + 1),
}


def same(value: Any) -> Any:
    """The value with the types of everything in it, so that a list is no tuple and True no 1."""
    if isinstance(value, dict):
        return dict, [(same(key), same(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [same(each) for each in value]
    return type(value), value


@given(VALUES)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    assert same(encoding.loads(encoding.dumps(value))) == same(value)


@given(some.binary(max_size=200))
def test_any_bytes_are_plain_data_or_refused(packed: bytes) -> None:
    try:
        value = encoding.loads(packed)
    except encoding.EncodingError:
        return
    assert repr(encoding.loads(encoding.dumps(value))) == repr(value)


@given(VALUES, some.data())
def test_a_message_with_a_changed_byte_is_plain_data_or_refused(value: Any, data: some.DataObject) -> None:
    packed = bytearray(encoding.dumps(value))
    packed[data.draw(some.integers(0, len(packed) - 1))] = data.draw(some.integers(0, 255))
    try:
        encoding.loads(bytes(packed))
    except encoding.EncodingError as error:
        assert str(error)


@pytest.mark.parametrize("value", FOREIGN, ids=lambda value: type(value).__name__)
def test_what_is_no_plain_data_is_not_written(value: Any) -> None:
    for wrapped in (value, [value], (1, value), {"a": value}):
        with pytest.raises(encoding.EncodingError):
            encoding.dumps(wrapped)


@pytest.mark.parametrize("packed", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_plain_data_is_not_read(packed: bytes) -> None:
    with pytest.raises(encoding.EncodingError):
        encoding.loads(packed)


def test_lists_in_each_other_are_counted_before_they_are_read() -> None:
    packed = b"\x90"
    for _ in range(1_000):
        packed = b"\xc9" + len(packed).to_bytes(4, "big") + b"\x01" + packed
    limit = sys.getrecursionlimit()
    with pytest.raises(encoding.EncodingError, match="depth 16"):
        encoding.loads(packed)
    assert sys.getrecursionlimit() == limit


def test_as_deep_as_it_may_be_is_read_and_one_deeper_is_not_written() -> None:
    for wrap in (lambda inner: [inner], lambda inner: (inner,), lambda inner: {"a": inner}):
        value: Any = 1
        for _ in range(ENCODING_DEPTH_MAX):
            value = wrap(value)
        assert encoding.loads(encoding.dumps(value)) == value
        with pytest.raises(encoding.EncodingError, match="deep"):
            encoding.dumps(wrap(value))


def test_a_message_that_is_too_large_is_neither_written_nor_read() -> None:
    with pytest.raises(encoding.EncodingError, match="too many"):
        encoding.dumps(b"x" * RAFT_FRAME_BYTES_MAX)
    with pytest.raises(encoding.EncodingError, match="too many"):
        encoding.loads(b"\x90" * (RAFT_FRAME_BYTES_MAX + 1))


def test_a_full_batch_of_small_entries_fits() -> None:
    entries = [(b"x" * 16, index, 7) for index in range(200_000)]
    assert encoding.loads(encoding.dumps({"entries": entries}))["entries"] == entries


def test_reading_a_pickle_that_would_run_something_runs_nothing() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return sys.exit, ("run",)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(encoding.EncodingError):
            encoding.loads(pickle.dumps(Bomb(), protocol))


def test_texts_become_bytes_as_pysyncobj_wants_it() -> None:
    assert (encoding.to_bytes("é"), encoding.to_bytes(b"\xff")) == ("é".encode(), b"\xff")

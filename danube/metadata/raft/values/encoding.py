"""Plain data as bytes: what members send each other, and what stands in Raft's log. It takes the place of pickle.

None, bool, int, float, str, bytes, list, tuple, dict and RaftNode, of exactly these types, as MessagePack
(https://github.com/msgpack/msgpack/blob/master/spec.md). An array is a tuple, since entries of the log are tuples and
most of what is sent; two extension types stand for the rest:

    1   a list: its items, as a MessagePack array
    2   a RaftNode: its id, in UTF-8

Keys of dicts are str or bytes. Nothing that is read can name a class or a function, so nothing runs because of what
came over the wire. Size, depth and the count of containers are bounded.
"""

from collections.abc import Sequence
from typing import Any

import msgpack

from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import ENCODING_CONTAINERS_MAX, ENCODING_DEPTH_MAX, RAFT_FRAME_BYTES_MAX

_LIST = 1
_NODE = 2
_SCALARS = frozenset((type(None), bool, int, float, str, bytes))
_KEYS = frozenset((str, bytes))
_CONTAINERS = frozenset((list, tuple, dict))


class EncodingError(ValueError):
    """A value is no plain data, or too large."""


def dumps(value: Any) -> bytes:  # noqa: ANN401 - plain data
    """The value as bytes. Raises EncodingError for what is no plain data, and for what `loads` would not take."""
    try:
        packed: bytes = msgpack.packb(_Writer().prepared(value, 0))
    except (ValueError, TypeError, OverflowError) as error:
        raise _refused(error) from error
    _check_size(packed)
    return packed


def loads(packed: bytes) -> Any:  # noqa: ANN401 - plain data
    """The value that `dumps` was given. Raises EncodingError for anything else."""
    _check_size(packed)
    try:
        value = _Reader().read(packed)
        _check_depth(value, 0)
    except (msgpack.UnpackException, ValueError, TypeError, InvalidRequestError) as error:
        raise _refused(error) from error
    return value


def to_bytes(data: bytes | str) -> bytes:
    """The data, a text in UTF-8: what pysyncobj has beside its pickle."""
    return data if isinstance(data, bytes) else data.encode()


def _check_size(packed: bytes) -> None:
    if len(packed) > RAFT_FRAME_BYTES_MAX:
        raise EncodingError(f"{len(packed)} bytes of plain data are too many: {RAFT_FRAME_BYTES_MAX} is the most")


def _refused(error: Exception) -> EncodingError:
    return (
        error
        if isinstance(error, EncodingError)
        else EncodingError(f"no plain data: {str(error)[:200] or type(error).__name__}")
    )


class _Counted:
    """Counts the containers of one message."""

    def __init__(self) -> None:
        self._containers = 0

    def counted(self, container: Any) -> Any:  # noqa: ANN401 - plain data
        self._containers += 1
        if self._containers > ENCODING_CONTAINERS_MAX:
            raise EncodingError(f"more than {ENCODING_CONTAINERS_MAX} lists, tuples and dicts in one message")
        return container


class _Writer(_Counted):
    """Makes of one message what MessagePack has: tuples of scalars, which most entries are, stay as they are."""

    def prepared(self, value: Any, depth: int) -> Any:  # noqa: ANN401 - anything
        kind = type(value)
        if kind in _SCALARS:
            return value
        if kind is RaftNode:
            return msgpack.ExtType(_NODE, str(value.id).encode())
        if depth >= ENCODING_DEPTH_MAX:
            raise EncodingError(f"lists, tuples and dicts more than {ENCODING_DEPTH_MAX} deep")
        self.counted(value)
        if kind is tuple:
            return self._items(value, depth)
        if kind is list:
            return msgpack.ExtType(_LIST, msgpack.packb(self._items(value, depth)))
        if kind is dict and all(type(key) in _KEYS for key in value):
            return dict(zip(value, self._items(tuple(value.values()), depth), strict=True))
        raise EncodingError(f"a value of type {kind.__name__} is no plain data, or has keys that are none")

    def _items(self, items: Sequence[Any], depth: int) -> Sequence[Any]:
        for item in items:
            if type(item) not in _SCALARS:
                return [self.prepared(each, depth + 1) for each in items]
        return items


class _Reader(_Counted):
    """Reads one message. A list is read where its bytes stand, so lists in each other are counted on the way down."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def read(self, packed: bytes) -> Any:  # noqa: ANN401 - plain data
        return msgpack.unpackb(
            packed,
            raw=False,
            use_list=False,
            strict_map_key=True,
            ext_hook=self._extension,
            list_hook=self.counted,
            object_hook=self.counted,
        )

    def _extension(self, code: int, data: bytes) -> Any:  # noqa: ANN401 - plain data
        if code == _NODE:
            return RaftNode(data.decode())
        if code != _LIST or self._depth >= ENCODING_DEPTH_MAX:
            raise EncodingError(f"extension type {code} at depth {self._depth}")
        self._depth += 1
        items = self.read(data)
        self._depth -= 1
        if type(items) is not tuple:
            raise EncodingError("a list that has no items")
        return list(items)


def _check_depth(value: Any, depth: int) -> None:  # noqa: ANN401 - plain data
    kind = type(value)
    if kind in _SCALARS or kind is RaftNode:
        return
    if kind not in _CONTAINERS:  # MessagePack's own timestamps
        raise EncodingError(f"a value of type {kind.__name__} is no plain data")
    if depth >= ENCODING_DEPTH_MAX:
        raise EncodingError(f"lists, tuples and dicts more than {ENCODING_DEPTH_MAX} deep")
    for item in value.values() if kind is dict else value:
        if type(item) not in _SCALARS:
            _check_depth(item, depth + 1)

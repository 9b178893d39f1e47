"""Payloads of Avro, walked without decoding: the one place that decides whether bytes follow a definition.

fastavro decodes by recursion in C, trusts counts of items that occupy no byte, and takes -1 for the last symbol of an
enum. So hostile bytes never reach it: each type becomes a function that steps over one value, and knows its bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from danube.model.errors import PayloadInvalidError
from danube.model.limits.schema import SCHEMA_BINARY_DEPTH_MAX, SCHEMA_EMPTY_ITEMS_MAX
from danube.schema.avro.types import Array, AvroType, Enumeration, Fixed, Mapping, Primitive, Record, Union, size_of

Step = Callable[[bytes, int, int], int]
"""Position behind the value that begins at a position, at a depth."""
Items = Callable[[bytes, int, int, int], int]
"""The same for so many values, one after the other."""


@dataclass(slots=True, eq=False)
class _FaultError(Exception):
    """A value that does not follow its type, and the fields that lead to it, the innermost first."""

    reason: str
    places: list[str] = field(default_factory=list)


def scanner(root: AvroType) -> tuple[Callable[[bytes], None], int]:
    """Function that raises PayloadInvalidError unless a payload is one value of the type, and nothing more.

    With it the most values that it may step over for one byte.
    """
    compiler = _Compiler()
    step = compiler.step(root)

    def scan(payload: bytes) -> None:
        try:
            end = step(payload, 0, 0)
        except _FaultError as fault:
            raise PayloadInvalidError(fault.reason, "".join(reversed(fault.places)) or "/") from None
        except IndexError:
            raise PayloadInvalidError("the payload ends before the last value does", "/") from None
        if end != len(payload):
            where = (
                "ends before the last value does" if end > len(payload) else f"goes on after the value, at byte {end}"
            )
            raise PayloadInvalidError(f"the payload {where}", "/")

    return scan, 1 + compiler.empty_max


class _Compiler:
    """Steps for the types of one definition, each made once."""

    def __init__(self) -> None:
        self._records: dict[int, list[Step]] = {}
        self.empty_max = 0

    def step(self, avro_type: AvroType) -> Step:
        match avro_type:
            case Primitive(word):
                return _PRIMITIVES[word]
            case Fixed(size=size):
                return _over(size)
            case Enumeration(symbols=symbols):
                return _symbol(len(symbols))
            case Array(items):
                return _blocks(self.step(items), size_of(items))
            case Mapping(values):
                inner = self.step(values)
                return _blocks(lambda payload, at, depth: inner(payload, _text(payload, at, depth), depth), None)
            case Union(branches):
                return _branch([self.step(branch) for branch in branches])
            case Record(size=size):
                return self._record(avro_type) if size is None else _over(size)

    def _record(self, record: Record) -> Step:
        known = self._records.get(id(record))
        parts: list[Step] = [] if known is None else known
        names = [field.name for field in record.fields]
        if known is None:
            self._records[id(record)] = parts
            self.empty_max = max(self.empty_max, record.empty)
            parts.extend(self.step(field.type) for field in record.fields)

        def step(payload: bytes, at: int, depth: int) -> int:
            if depth > SCHEMA_BINARY_DEPTH_MAX:
                raise _FaultError(f"it has more than {SCHEMA_BINARY_DEPTH_MAX} levels")
            place = 0
            try:
                for part in parts:
                    at = part(payload, at, depth + 1)
                    place += 1
            except _FaultError as fault:
                fault.places.append(f"/{names[place]}")
                raise
            return at

        return step


def _blocks(item: Step, size: int | None) -> Step:
    """Blocks of items; those of one size, which have no value that could be wrong, are stepped over at once."""
    items = _one_by_one(item) if size is None else _at_once(size)

    def step(payload: bytes, at: int, depth: int) -> int:
        if depth > SCHEMA_BINARY_DEPTH_MAX:
            raise _FaultError(f"it has more than {SCHEMA_BINARY_DEPTH_MAX} levels")
        while True:
            count, at = _number(payload, at)
            if count == 0:
                return at
            if count > 0:
                at = items(payload, at, count, depth)
                continue
            length, at = _number(payload, at)
            end = at + length
            at = items(payload, at, -count, depth)
            if at != end:
                raise _FaultError("a block of items has another length than it says")

    return step


def _at_once(size: int) -> Items:
    def items(payload: bytes, at: int, count: int, depth: int) -> int:  # noqa: ARG001 - as the type says
        if size == 0 and count > SCHEMA_EMPTY_ITEMS_MAX:
            raise _FaultError(f"an array has {count} items without a byte, and {SCHEMA_EMPTY_ITEMS_MAX} are the most")
        at += count * size
        if at > len(payload):
            raise IndexError
        return at

    return items


def _one_by_one(item: Step) -> Items:
    def items(payload: bytes, at: int, count: int, depth: int) -> int:
        end, index = len(payload), 0
        try:
            while index < count:
                at = item(payload, at, depth + 1)
                if at > end:
                    raise IndexError
                index += 1
        except _FaultError as fault:
            fault.places.append(f"/{index}")
            raise
        return at

    return items


def _branch(branches: list[Step]) -> Step:
    def step(payload: bytes, at: int, depth: int) -> int:
        if depth > SCHEMA_BINARY_DEPTH_MAX:
            raise _FaultError(f"it has more than {SCHEMA_BINARY_DEPTH_MAX} levels")
        index, at = _number(payload, at)
        if not 0 <= index < len(branches):
            raise _FaultError(f"the union has {len(branches)} branches, and none with the index {index}")
        return branches[index](payload, at, depth + 1)

    return step


def _symbol(symbols: int) -> Step:
    def step(payload: bytes, at: int, depth: int) -> int:  # noqa: ARG001 - as the type says
        index, at = _number(payload, at)
        if not 0 <= index < symbols:
            raise _FaultError(f"the enum has {symbols} symbols, and none with the index {index}")
        return at

    return step


def _over(size: int) -> Step:
    return lambda payload, at, depth: at + size  # noqa: ARG005 - as the type says


def _number(payload: bytes, at: int) -> tuple[int, int]:
    """A zig-zag number of at most 64 bits, and the position behind it."""
    byte = payload[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    found, shift = byte & 127, 7
    while True:
        byte = payload[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise _FaultError("a number has more than 64 bits")
    if found >= 1 << 64:
        raise _FaultError("a number has more than 64 bits")
    return (found >> 1) ^ -(found & 1), at


def _int(payload: bytes, at: int, depth: int) -> int:  # noqa: ARG001 - as the type says
    if payload[at] < 128:
        return at + 1
    found, at = _number(payload, at)
    if not -(2**31) <= found < 2**31:
        raise _FaultError(f"{found} is no int of 32 bits")
    return at


def _long(payload: bytes, at: int, depth: int) -> int:  # noqa: ARG001 - as the type says
    return at + 1 if payload[at] < 128 else _number(payload, at)[1]


def _bytes(payload: bytes, at: int, depth: int) -> int:  # noqa: ARG001 - as the type says
    length, at = _number(payload, at)
    if length < 0:
        raise _FaultError(f"a length is negative: {length}")
    return at + length


def _text(payload: bytes, at: int, depth: int) -> int:  # noqa: ARG001 - as the type says
    length, at = _number(payload, at)
    if length < 0:
        raise _FaultError(f"a length is negative: {length}")
    try:
        str(payload[at : at + length], "utf-8")
    except UnicodeDecodeError as error:
        if at + length > len(payload):
            raise IndexError from None
        raise _FaultError(f"byte {at + error.start} of a string is no UTF-8") from None
    return at + length


def _boolean(payload: bytes, at: int, depth: int) -> int:  # noqa: ARG001 - as the type says
    if payload[at] > 1:
        raise _FaultError(f"a boolean is 0 or 1, not {payload[at]}")
    return at + 1


_PRIMITIVES: dict[str, Step] = {
    "null": _over(0),
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _over(4),
    "double": _over(8),
    "bytes": _bytes,
    "string": _text,
}

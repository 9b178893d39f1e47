"""Avro types as a graph: a recursive record is a node that is reached from itself."""

from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(slots=True, eq=False)
class Primitive:
    """A type without parts."""

    word: str
    logical: dict[str, Any] = field(default_factory=dict)
    """Logical type, with precision and scale; empty without one."""


@dataclass(slots=True, eq=False)
class Fixed:
    """So many bytes."""

    name: str
    size: int
    aliases: tuple[str, ...] = ()
    logical: dict[str, Any] = field(default_factory=dict)
    word: str = "fixed"


@dataclass(slots=True, eq=False)
class Enumeration:
    """One of some symbols."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    """Symbol that stands for those which a reader does not know."""
    aliases: tuple[str, ...] = ()
    word: str = "enum"


@dataclass(slots=True, eq=False)
class Array:
    """A list."""

    items: "AvroType"
    word: str = "array"


@dataclass(slots=True, eq=False)
class Mapping:
    """Values by their names."""

    values: "AvroType"
    word: str = "map"


@dataclass(slots=True, eq=False)
class Union:
    """One of some types."""

    branches: tuple["AvroType", ...]
    word: str = "union"


@dataclass(slots=True, eq=False)
class Field:
    """Part of a record."""

    name: str
    type: "AvroType"
    has_default: bool = False
    default: Any = None
    aliases: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Record:
    """Named parts, in order. The parts are set once they are read: they may refer to the record."""

    name: str
    aliases: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    word: str = "record"
    size: int | None = None
    """Bytes of each value, if they are always as many, and none of them could be wrong."""
    parts: int = 1
    """Least number of values in one of its values: types that double each other ask for millions in no byte."""

    empty: int = 1
    """Values in one of its values that occupy no byte, itself included."""

    def complete(self, fields: tuple[Field, ...]) -> None:
        """Set the parts, which are complete themselves but for this record."""
        sizes = [size_of(field.type) for field in fields]
        self.fields = fields
        self.size = None if None in sizes else sum(size or 0 for size in sizes)
        self.empty = 1 + sum(
            field.type.empty if isinstance(field.type, Record) else size == 0
            for field, size in zip(fields, sizes, strict=True)
        )
        self.parts = 1 + sum(field.type.parts if isinstance(field.type, Record) else 1 for field in fields)


AvroType = Primitive | Fixed | Enumeration | Array | Mapping | Union | Record
Named = Fixed | Enumeration | Record


@dataclass(frozen=True, slots=True, eq=False)
class AvroDocument:
    """One definition with what it refers to."""

    root: AvroType
    plain: Any
    """Definition for decoding, references included, as JSON."""


def size_of(avro_type: AvroType) -> int | None:
    """Bytes of each value of a type, if they are always as many, and none of them could be wrong."""
    match avro_type:
        case Primitive(word):
            return {"null": 0, "float": 4, "double": 8}.get(word)
        case Fixed(size=size) | Record(size=size):
            return size
    return None


def unqualified(name: str) -> str:
    """Name without its namespace."""
    return name.rpartition(".")[2]


def described(avro_type: AvroType) -> str:
    """Type in a message."""
    match avro_type:
        case Primitive(word, logical):
            return f"{word} ({logical['logicalType']})" if logical else word
        case Array(items):
            return f"array of {items.word}"
        case Mapping(values):
            return f"map of {values.word}"
        case Union(branches):
            return f"union of {', '.join(each.word for each in branches)}"
        case _:
            return f"{avro_type.word} {avro_type.name}"

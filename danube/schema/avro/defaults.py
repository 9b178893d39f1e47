"""Defaults of Avro fields, checked against their types."""

from typing import Any, Final

from danube.schema.avro.types import Array, AvroType, Enumeration, Fixed, Mapping, Primitive, Record, Union
from danube.schema.parsed import shown

_RANGES: Final = {"int": (-(2**31), 2**31), "long": (-(2**63), 2**63)}


def default_fault(avro_type: AvroType, value: Any) -> str | None:  # noqa: ANN401, PLR0911 - JSON; one for each type
    """Fault of a default; None if the type has this value. A recursion ends where the default does."""
    match avro_type:
        case Union(branches):
            # since 1.12 a default may be of any branch; before, of the first
            faults = [default_fault(branch, value) for branch in branches]
            return None if None in faults else f"{shown(value)} is of none of the union's branches"
        case Array(items):
            return _list_fault(items, value)
        case Mapping(values):
            if not isinstance(value, dict):
                return f"{shown(value)} is no object, as a map needs"
            return next((fault for each in value.values() if (fault := default_fault(values, each))), None)
        case Record():
            return _record_fault(avro_type, value)
        case Enumeration(_, symbols):
            return None if value in symbols else f"{shown(value)} is none of the symbols"
        case Fixed(_, size):
            fine = _is_bytes(value) and len(value) == size
            return None if fine else f"{shown(value)} has not the {size} bytes of the fixed"
        case Primitive(word):
            return None if _is(word, value) else f"{shown(value)} is no {word}"


def _list_fault(items: AvroType, value: Any) -> str | None:  # noqa: ANN401 - of JSON
    if not isinstance(value, list):
        return f"{shown(value)} is no list, as an array needs"
    return next((fault for each in value if (fault := default_fault(items, each))), None)


def _record_fault(record: Record, value: Any) -> str | None:  # noqa: ANN401 - of JSON
    if not isinstance(value, dict):
        return f"{shown(value)} is no object, as a record needs"
    for field in record.fields:
        if field.name not in value:
            if not field.has_default:
                return f"it lacks the field {field.name}"
        elif fault := default_fault(field.type, value[field.name]):
            return fault
    return None


def _is(word: str, value: Any) -> bool:  # noqa: ANN401 - of JSON
    match word:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            low, high = _RANGES[word]
            return isinstance(value, int) and not isinstance(value, bool) and low <= value < high
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "bytes":
            return _is_bytes(value)
        case _:
            return isinstance(value, str)


def _is_bytes(value: object) -> bool:
    """Bytes are text whose code points are below 256."""
    return isinstance(value, str) and all(ord(char) < 256 for char in value)

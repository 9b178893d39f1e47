"""Values of metadata as compact JSON with the version of their format, driven by a record's dataclass.

A field of the dataclass is a field of the JSON object, by its annotation: bool, int, float, str, TopicName, an enum (by
the name of its member), a JSON object as it is, another dataclass, a tuple of these, and None where that is allowed.

A field that has a default is left out while it has it, and may be missing. A class that is named `complete` is written
whole, and of its fields only those that may be None may be missing. Fields that are not known are passed over, so a
version gains fields with a default; a record of another version is refused.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from danube.metadata.store import Entry
from danube.model.errors import MetadataError, NewerRecordError
from danube.model.topic import TopicName
from danube.model.untrusted_json import decode_json
from danube.runtime.checksum import told_version

RECORD_VERSION = 1
_VERSION = "version"

R = TypeVar("R")


def record_codec(
    kind: type[R],
    in_key: tuple[str, ...] = (),
    parse_key: Callable[[Entry], tuple[Any, ...]] = lambda _entry: (),
    *,
    complete: Collection[type] = (),
    written: Collection[str] = (),
    optional: Collection[str] = (),
    names: Mapping[str, str] | None = None,
    check: Callable[[R], None] = lambda _record: None,
) -> tuple[Callable[[R], bytes], Callable[[Entry], R]]:
    """The function that encodes records of this dataclass as values, and the one that decodes entries.

    The fields `in_key` are what `parse_key` answers of the entry, and no part of the value. Of fields with a default
    `written` are written even while they have it, and `optional` may be missing in a complete class. `names` are other
    names in JSON. `check` raises ValueError for a record that cannot be. Decoding raises MetadataError.
    """
    rules = _Rules(frozenset(in_key), frozenset(complete), frozenset(written), frozenset(optional), dict(names or {}))
    shape = _shape_of(kind, rules)
    if any(field.json_name == _VERSION for field in shape):
        raise ValueError(f"{kind.__name__} has a field {_VERSION!r}, which is the format's: give it another name")

    def encode(record: R) -> bytes:
        check(record)
        return encode_fields(**_encode_shape(shape, record))

    def decode(entry: Entry) -> R:
        values = decode_fields(entry)
        found = dict(zip(in_key, parse_key(entry), strict=True))
        try:
            record = kind(**found, **_decode_shape(shape, values))
            check(record)
        except ValueError as error:
            raise damaged(entry, str(error)) from error
        return record

    return encode, decode


def encode_fields(**values: object) -> bytes:
    """A value of these fields, which JSON has already."""
    return json.dumps({"version": RECORD_VERSION, **values}, ensure_ascii=False, separators=(",", ":")).encode()


def decode_fields(entry: Entry) -> Mapping[str, Any]:
    """The fields of a value as JSON has them. Raises MetadataError."""
    try:
        parsed = decode_json(entry.value)
    except ValueError as error:
        raise damaged(entry, "no JSON") from error
    values = parsed if isinstance(parsed, dict) else {}
    version = values.get("version")
    if not isinstance(version, int):
        raise damaged(entry, "no number 'version'")
    if version != RECORD_VERSION:
        raise NewerRecordError(told_version(f"metadata key {entry.key}", version, RECORD_VERSION))
    return values


def damaged(entry: Entry, what: str) -> MetadataError:
    """The error for an entry that has another value than its key asks for."""
    return MetadataError(
        f"metadata key {entry.key} does not hold what it should ({what}): restore the metadata from a backup"
    )


@dataclass(frozen=True, slots=True)
class _Rules:
    in_key: frozenset[str]
    complete: frozenset[type]
    written: frozenset[str]
    optional: frozenset[str]
    names: dict[str, str]


_PLAIN: Mapping[type, str] = {bool: "boolean", int: "number", float: "number", str: "text"}
"""Types that JSON has itself, and their words in errors."""


class _Coder(NamedTuple):
    """One type of values: its word in errors, and how JSON has it."""

    word: str
    accepts: Callable[[Any], bool]
    encode: Callable[[Any], object]
    decode: Callable[[Any], Any]
    """Decodes an accepted value."""


class _Field(NamedTuple):
    name: str
    json_name: str
    coder: _Coder
    default: Any
    """Value of a missing field; MISSING where it must be there."""
    left_out: Any
    """While it has this value; MISSING where it is always written."""


def _same(value: Any) -> Any:  # noqa: ANN401 - JSON
    return value


def _shape_of(kind: type, rules: _Rules) -> list[_Field]:
    types = get_type_hints(kind)
    return [_field_of(kind, each, types[each.name], rules) for each in fields(kind) if each.name not in rules.in_key]


def _field_of(kind: type, field: Any, annotation: Any, rules: _Rules) -> _Field:  # noqa: ANN401 - of dataclasses
    is_complete = kind in rules.complete
    is_nullable = isinstance(annotation, UnionType)
    if is_nullable:
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    may_be_missing = not is_complete or field.name in rules.optional
    default = field.default if field.default is not MISSING and may_be_missing else MISSING
    if is_nullable and default is MISSING:
        default = None
    is_written = is_complete or field.name in rules.written
    json_name = rules.names.get(field.name, field.name)
    return _Field(
        field.name, json_name, _coder_of(annotation, rules), default, MISSING if is_written else field.default
    )


def _coder_of(annotation: Any, rules: _Rules) -> _Coder:  # noqa: ANN401 - a type
    if get_origin(annotation) is tuple:
        each = _coder_of(get_args(annotation)[0], rules)
        return _Coder(
            f"{each.word}s",
            lambda value: isinstance(value, list) and all(map(each.accepts, value)),
            lambda values: [each.encode(value) for value in values],
            lambda values: tuple(map(each.decode, values)),
        )
    if get_origin(annotation) is Mapping:
        return _Coder("object", lambda value: isinstance(value, dict), _same, _same)
    if annotation in _PLAIN:
        kinds = (int, float) if annotation is float else annotation
        return _Coder(_PLAIN[annotation], lambda value: isinstance(value, kinds), _same, _same)
    if annotation is TopicName:
        parse = TopicName.parse
        return _Coder("text", lambda value: isinstance(value, str), str, lambda text: parse(text) if text else None)
    if is_dataclass(annotation):
        return _nested(annotation, rules)  # type: ignore[arg-type]  # a class, not one of its objects
    assert issubclass(annotation, Enum)  # noqa: S101 - no record has anything else
    members = annotation.__members__
    return _Coder(
        annotation.__name__,
        lambda value: isinstance(value, str) and value in members,
        lambda member: member.name,
        members.__getitem__,
    )


def _nested(kind: type, rules: _Rules) -> _Coder:
    shape = _shape_of(kind, replace(rules, in_key=frozenset()))  # its fields are none of the key
    return _Coder(
        "object",
        lambda value: isinstance(value, dict),
        lambda record: _encode_shape(shape, record),
        lambda values: kind(**_decode_shape(shape, values)),
    )


def _encode_shape(shape: list[_Field], record: object) -> dict[str, object]:
    encoded: dict[str, object] = {}
    for field in shape:
        value = getattr(record, field.name)
        if field.left_out is MISSING or value != field.left_out:
            encoded[field.json_name] = None if value is None else field.coder.encode(value)
    return encoded


def _decode_shape(shape: list[_Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ValueError for what is missing, or of another type."""
    decoded = {}
    for field in shape:
        value = values.get(field.json_name)
        if value is None and field.default is not MISSING:
            decoded[field.name] = field.default
        elif field.coder.accepts(value):
            decoded[field.name] = field.coder.decode(value)
        else:
            raise ValueError(f"no {field.coder.word} {field.json_name!r}")
    return decoded

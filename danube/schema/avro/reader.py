"""Avro definitions, read from JSON. What the specification forbids is refused, with its place."""

import re
from collections.abc import Mapping as Given
from typing import Any, Final, TypeVar

from danube.model.errors import SchemaInvalidError
from danube.model.limits.schema import SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX
from danube.model.untrusted_json import UntrustedJsonError, decode_json
from danube.schema.avro.defaults import default_fault
from danube.schema.avro.types import (
    PRIMITIVES,
    Array,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    Mapping,
    Named,
    Primitive,
    Record,
    Union,
)
from danube.schema.parsed import shown

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_FIXED_BYTES_MAX: Final = 1 << 20
Definition = TypeVar("Definition", Fixed, Enumeration, Record)


class AvroReader:
    """Reads one definition and those that it refers to by full names."""

    def __init__(self, given: Given[str, str]) -> None:
        self._given = given
        self._named: dict[str, Named] = {}
        self._fields: list[tuple[Field, str]] = []
        self._nodes = 0
        self._brought: set[str] = set()

    def read(self, text: str) -> AvroType:
        """Type that the text defines. Raises SchemaInvalidError."""
        root = self._type(_decoded(text), "", "", 0)
        for field, path in self._fields:
            if field.has_default and (fault := default_fault(field.type, field.default)):
                raise SchemaInvalidError(f"the default of {field.name} is wrong: {fault}", f"{path}/default")
        return root

    def _type(self, value: Any, space: str, path: str, depth: int) -> AvroType:  # noqa: ANN401, PLR0911 - JSON; one for each type
        self._nodes += 1
        if self._nodes > SCHEMA_NODES_MAX or depth > SCHEMA_DEPTH_MAX:
            bounds = f"{SCHEMA_NODES_MAX} parts or {SCHEMA_DEPTH_MAX} levels"
            raise SchemaInvalidError(f"it has more than {bounds}: split it, and refer to its parts by name", path)
        if isinstance(value, str):
            return self._by_name(value, space, path, depth)
        if isinstance(value, list):
            return self._union(value, space, path, depth)
        if not isinstance(value, dict) or "type" not in value:
            raise SchemaInvalidError(f"{shown(value)} is no type: name one, or give an object with `type`", path or "/")
        word = value["type"]
        match word:
            case "record" | "error":
                return self._record(value, space, path, depth)
            case "enum":
                return self._enumeration(value, space, path)
            case "fixed":
                return self._fixed(value, space, path)
            case "array" | "map":
                return self._container(value, space, path, depth)
            case str() if word in PRIMITIVES:
                return Primitive(word, _logical(value, word))
            case _:
                return self._type(word, space, f"{path}/type", depth + 1)

    def _by_name(self, name: str, space: str, path: str, depth: int) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not space else f"{space}.{name}"
        for candidate in (full, name):
            if candidate not in self._named and candidate in self._given and candidate not in self._brought:
                self._brought.add(candidate)
                self._type(_decoded(self._given[candidate]), "", f"reference {candidate}", depth + 1)
            if candidate in self._named:
                return self._named[candidate]
        raise SchemaInvalidError(
            f"{shown(full)} is neither a type of Avro, nor defined before this place, nor in a reference: define it",
            path,
        )

    def _union(self, branches: list[Any], space: str, path: str, depth: int) -> Union:
        if not branches:
            raise SchemaInvalidError("a union without branches accepts nothing: name its types", path)
        found = tuple(self._type(each, space, f"{path}/{index}", depth + 1) for index, each in enumerate(branches))
        seen: set[str] = set()
        for index, branch in enumerate(found):
            if isinstance(branch, Union):
                raise SchemaInvalidError("a union holds no union itself: list its branches here", f"{path}/{index}")
            key = branch_key(branch)
            if key in seen:
                raise SchemaInvalidError(f"the union has {key} twice: leave one out", f"{path}/{index}")
            seen.add(key)
        return Union(found)

    def _container(self, value: dict[str, Any], space: str, path: str, depth: int) -> Array | Mapping:
        key = "items" if value["type"] == "array" else "values"
        if key not in value:
            raise SchemaInvalidError(
                f"{'an array' if key == 'items' else 'a map'} needs `{key}`: name their type", path
            )
        inner = self._type(value[key], space, f"{path}/{key}", depth + 1)
        return Array(inner) if key == "items" else Mapping(inner)

    def _fixed(self, value: dict[str, Any], space: str, path: str) -> Fixed:
        name, _, aliases = self._name(value, space, path)
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= _FIXED_BYTES_MAX:
            raise SchemaInvalidError(
                f"the size of a fixed is 1 to {_FIXED_BYTES_MAX}, not {shown(size)}", f"{path}/size"
            )
        return self._define(Fixed(name, size, aliases, _logical(value, "fixed")), path)

    def _enumeration(self, value: dict[str, Any], space: str, path: str) -> Enumeration:
        name, _, aliases = self._name(value, space, path)
        symbols = value.get("symbols")
        if not isinstance(symbols, list) or not symbols:
            raise SchemaInvalidError("an enum needs at least one symbol: list them in `symbols`", f"{path}/symbols")
        for index, symbol in enumerate(symbols):
            if not isinstance(symbol, str) or not _NAME.fullmatch(symbol):
                raise SchemaInvalidError(
                    f"{shown(symbol)} is no symbol: use letters, digits and _", f"{path}/symbols/{index}"
                )
        if len({*symbols}) < len(symbols):
            raise SchemaInvalidError("a symbol is listed twice: leave one out", f"{path}/symbols")
        default = value.get("default")
        if default is not None and default not in symbols:
            raise SchemaInvalidError(f"the default {shown(default)} is none of the symbols", f"{path}/default")
        return self._define(Enumeration(name, tuple(symbols), default, aliases), path)

    def _record(self, value: dict[str, Any], space: str, path: str, depth: int) -> Record:
        name, own, aliases = self._name(value, space, path)
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise SchemaInvalidError("a record needs `fields`: list them, even if there are none", path)
        record = self._define(Record(name, aliases), path)
        found = [self._field(each, own, f"{path}/fields/{index}", depth) for index, each in enumerate(fields)]
        seen: set[str] = set()
        for index, field in enumerate(found):
            if field.name in seen:
                raise SchemaInvalidError(
                    f"the field {field.name} is defined twice: rename one", f"{path}/fields/{index}"
                )
            seen.add(field.name)
        record.complete(tuple(found))
        if record.parts > SCHEMA_NODES_MAX:
            raise SchemaInvalidError(f"each value of {name} has more than {SCHEMA_NODES_MAX} parts: split it", path)
        return record

    def _field(self, value: Any, space: str, path: str, depth: int) -> Field:  # noqa: ANN401 - of JSON
        if not isinstance(value, dict) or not isinstance(value.get("name"), str) or "type" not in value:
            raise SchemaInvalidError("a field is an object with `name` and `type`", path)
        if not _NAME.fullmatch(value["name"]):
            raise SchemaInvalidError(f"{shown(value['name'])} is no name: use letters, digits and _", f"{path}/name")
        aliases = _texts(value, "aliases", path)
        inner = self._type(value["type"], space, f"{path}/type", depth + 1)
        field = Field(value["name"], inner, "default" in value, value.get("default"), aliases)
        self._fields.append((field, path))
        return field

    def _name(self, value: dict[str, Any], space: str, path: str) -> tuple[str, str, tuple[str, ...]]:
        """Full name, its namespace, and full names of the aliases."""
        name = value.get("name")
        if not isinstance(name, str) or not _FULL_NAME.fullmatch(name):
            raise SchemaInvalidError(f"{shown(name)} is no name: use letters, digits, _ and dots", f"{path}/name")
        own = value.get("namespace", space)
        if not isinstance(own, str) or not (own == "" or _FULL_NAME.fullmatch(own)):
            raise SchemaInvalidError(f"{shown(own)} is no namespace: use names with dots", f"{path}/namespace")
        full = name if "." in name or not own else f"{own}.{name}"
        own = full.rpartition(".")[0]
        aliases = _texts(value, "aliases", path)
        return full, own, tuple(alias if "." in alias or not own else f"{own}.{alias}" for alias in aliases)

    def _define(self, node: Definition, path: str) -> Definition:
        if node.name in PRIMITIVES:
            raise SchemaInvalidError(f"{node.name} is a type of Avro: use another name", f"{path}/name")
        if node.name in self._named:
            raise SchemaInvalidError(f"{node.name} is defined twice: define it once, and refer to it", path)
        self._named[node.name] = node
        return node


def branch_key(branch: AvroType) -> str:
    """Key of a branch that a union has once."""
    return branch.name if isinstance(branch, Fixed | Enumeration | Record) else branch.word


def _decoded(text: str) -> Any:  # noqa: ANN401 - of JSON
    try:
        return decode_json(text, depth_max=4 * SCHEMA_DEPTH_MAX)
    except UntrustedJsonError as error:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaInvalidError(f"it is no JSON that can be read: {error}", "/") from None


def _texts(value: dict[str, Any], key: str, path: str) -> tuple[str, ...]:
    found = value.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) and _FULL_NAME.fullmatch(each) for each in found):
        raise SchemaInvalidError(f"`{key}` is a list of names", f"{path}/{key}")
    return tuple(found)


def _logical(value: dict[str, Any], word: str) -> dict[str, Any]:
    """Logical type, if it is a valid one of this type; others are ignored, as the specification says."""
    name = value.get("logicalType")
    if not isinstance(name, str):
        return {}
    if name != "decimal":
        return {"logicalType": name}
    if word not in ("bytes", "fixed"):
        return {}
    precision: Any = value.get("precision")
    scale: Any = value.get("scale", 0)
    whole = type(precision) is int and type(scale) is int
    if not whole or precision <= 0 or not 0 <= scale <= precision:
        return {}
    return {"logicalType": name, "precision": precision, "scale": scale}

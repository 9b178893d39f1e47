"""Avro definitions with their canonical form and fingerprint."""

import hashlib
import json
from collections.abc import Mapping as Given
from typing import Any

from danube.model.schema import SchemaType
from danube.schema.avro.reader import AvroReader
from danube.schema.avro.types import (
    Array,
    AvroDocument,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    Mapping,
    Primitive,
    Record,
    Union,
)
from danube.schema.parsed import ParsedSchema


def parse_avro(text: str, given: Given[str, str]) -> ParsedSchema:
    """Read a definition. Raises SchemaInvalidError."""
    root = AvroReader(given).read(text)
    canonical = _encoded(_written(root, {}, resolving=True))
    names: dict[str, None] = {}
    _written(root, names, resolving=False)
    digest = hashlib.sha256(canonical).hexdigest()
    document = AvroDocument(root, _written(root, {}, resolving=True))
    return ParsedSchema(SchemaType.AVRO, text, canonical, f"sha256:{digest}", tuple(names), document)


def parsing_canonical_form(document: AvroDocument) -> str:
    """Parsing Canonical Form of the specification: all that decides about the bytes, and nothing else."""
    return _encoded(_written(document.root, {}, resolving=False)).decode()


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _written(avro_type: AvroType, names: dict[str, None], *, resolving: bool) -> Any:  # noqa: ANN401 - JSON
    """Definition as JSON, each named type where it occurs first.

    With `resolving` the attributes that decide how data is read are kept beside those of the canonical form: two
    definitions that differ in a default are two versions.
    """

    def written(inner: AvroType) -> Any:  # noqa: ANN401 - JSON
        return _written(inner, names, resolving=resolving)

    match avro_type:
        case Primitive(word, logical):
            return {"type": word, **logical} if resolving and logical else word
        case Array(items):
            return {"type": "array", "items": written(items)}
        case Mapping(values):
            return {"type": "map", "values": written(values)}
        case Union(branches):
            return [written(branch) for branch in branches]
    if avro_type.name in names:
        return avro_type.name
    names[avro_type.name] = None
    found: dict[str, Any] = {"name": avro_type.name, "type": avro_type.word}
    match avro_type:
        case Fixed(size=size, logical=logical):
            found |= {"size": size, **(logical if resolving else {})}
        case Enumeration(symbols=symbols, default=default):
            found |= {"symbols": [*symbols], **({"default": default} if resolving and default is not None else {})}
        case Record(fields=fields):
            found["fields"] = [_field(field, written(field.type), resolving=resolving) for field in fields]
    if resolving and avro_type.aliases:
        found["aliases"] = sorted(avro_type.aliases)
    return found


def _field(field: Field, written: Any, *, resolving: bool) -> dict[str, Any]:  # noqa: ANN401 - JSON
    part = {"name": field.name, "type": written}
    if resolving and field.has_default:
        part["default"] = field.default
    if resolving and field.aliases:
        part["aliases"] = sorted(field.aliases)
    return part

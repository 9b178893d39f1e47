"""Values from JSON for Avro: JSON has no bytes, so texts in Base64 stand for them, as `danube consume` shows them."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

_BYTES = {"bytes", "fixed"}
_TEXTS = {"string", "enum"}


def from_json(schema: Any, value: Any, named: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of any schema
    """The value with bytes where the schema has them; whatever does not fit stays, and is refused by the encoder.

    `schema` is parsed by fastavro, with its named types in `named`.
    """
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        return _of_union(schema, value, named)
    kind = _kind(schema)
    if kind in _BYTES and isinstance(value, str):
        return _decoded(value)
    if kind == "record" and isinstance(value, dict):
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        return {name: from_json(fields.get(name), each, named) for name, each in value.items()}
    if kind == "array" and isinstance(value, list):
        return [from_json(schema["items"], each, named) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {name: from_json(schema["values"], each, named) for name, each in value.items()}
    return value


def _of_union(branches: list[Any], value: Any, named: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of any schema
    """By the first branch that the value may be of; a text is one where there is a branch for texts."""
    kinds = {_kind(named.get(each, each) if isinstance(each, str) else each): each for each in reversed(branches)}
    wanted: tuple[str, ...] = ("array",)
    if isinstance(value, str):
        wanted = () if _TEXTS & kinds.keys() else ("bytes", "fixed")
    elif isinstance(value, dict):
        wanted = ("record", "map")
    found = next((kinds[kind] for kind in wanted if kind in kinds), None)
    return value if found is None else from_json(found, value, named)


def _kind(schema: Any) -> str:  # noqa: ANN401 - of any schema
    kind = schema.get("type") if isinstance(schema, dict) else schema
    return "record" if kind == "error" else str(kind)


def _decoded(text: str) -> str | bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text

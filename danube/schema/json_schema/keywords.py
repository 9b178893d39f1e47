"""Keywords of JSON Schema that hold further schemas, and those that assert nothing."""

from collections.abc import Iterator
from typing import Any, Final

Schema = bool | dict[str, Any]

DIALECT_7: Final = "draft-07"
DIALECT_2019: Final = "2019-09"
DIALECT_2020: Final = "2020-12"
DIALECTS: Final = {
    "http://json-schema.org/draft-07/schema": DIALECT_7,
    "https://json-schema.org/draft-07/schema": DIALECT_7,
    "https://json-schema.org/draft/2019-09/schema": DIALECT_2019,
    "https://json-schema.org/draft/2020-12/schema": DIALECT_2020,
}
DYNAMIC: Final = ("$dynamicRef", "$recursiveRef")
ANNOTATIONS: Final = frozenset(
    [
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$id",
        "$recursiveAnchor",
        "$schema",
        "$vocabulary",
        "default",
        "definitions",
        "deprecated",
        "description",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    ]
)
"""Keywords that no document is refused for."""
IN_PLACE_ONE: Final = ("not", "if", "then", "else")
IN_PLACE_MANY: Final = ("allOf", "anyOf", "oneOf")
IN_PLACE_NAMED: Final = ("dependentSchemas", "dependencies")
_BELOW_ONE: Final = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_BELOW_MANY: Final = ("items", "prefixItems")
_BELOW_NAMED: Final = ("properties", "patternProperties")
_DEFINITIONS: Final = ("$defs", "definitions")


def in_place(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Schemas that are applied to the same value, with their places."""
    yield from _held(schema, IN_PLACE_ONE, IN_PLACE_MANY, IN_PLACE_NAMED)


def below(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Schemas that are applied to parts of the value, with their places."""
    yield from _held(schema, _BELOW_ONE, _BELOW_MANY, _BELOW_NAMED)


def definitions(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Schemas that are kept for references, with their places."""
    yield from _held(schema, (), (), _DEFINITIONS)


def escaped(part: str) -> str:
    """Part of a JSON pointer."""
    return part.replace("~", "~0").replace("/", "~1")


def _held(
    schema: Schema, one: tuple[str, ...], many: tuple[str, ...], named: tuple[str, ...]
) -> Iterator[tuple[str, Schema]]:
    if not isinstance(schema, dict):
        return
    for key in one:
        if isinstance(one_held := schema.get(key), bool | dict):
            yield key, one_held
    for key in many:
        if isinstance(held := schema.get(key), list):
            yield from ((f"{key}/{index}", each) for index, each in enumerate(held) if isinstance(each, bool | dict))
    for key in named:
        if isinstance(held := schema.get(key), dict):
            yield from (
                (f"{key}/{escaped(name)}", each) for name, each in held.items() if isinstance(each, bool | dict)
            )

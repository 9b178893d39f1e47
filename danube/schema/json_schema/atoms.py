"""JSON Schemas in the form in which they are compared: conjunctions of atoms.

An atom is a schema without `$ref`, `allOf` and annotations. A schema is the conjunction of its own keywords, its parts
of `allOf`, and the target of its `$ref`; parts that do not interfere are merged into one atom, as in inheritance.
"""

import json
import math
from fractions import Fraction
from typing import Any, Final

from danube.model.untrusted_json import decode_json
from danube.schema.json_schema.document import JsonDocument
from danube.schema.json_schema.keywords import ANNOTATIONS, DIALECT_7, DIALECT_2019, DIALECT_2020, Schema

Atom = dict[str, Any]
Conjunction = tuple[Schema, ...]
NOTHING: Final[Atom] = {"not": True}
"""Atom that accepts no value."""

JSON_TYPES: Final = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
"""Types of values; `number` is both integers and fractions."""
_UNKNOWN: Final = {
    DIALECT_7: frozenset(
        [
            "prefixItems",
            "unevaluatedItems",
            "unevaluatedProperties",
            "dependentRequired",
            "dependentSchemas",
            "minContains",
            "maxContains",
            "$dynamicRef",
            "$recursiveRef",
        ]
    ),
    DIALECT_2019: frozenset(["prefixItems", "$dynamicRef", "contentEncoding", "contentMediaType", "contentSchema"]),
    DIALECT_2020: frozenset(
        ["additionalItems", "$recursiveRef", "contentEncoding", "contentMediaType", "contentSchema"]
    ),
}
"""Keywords that assert nothing in a draft."""
_GROUPS: Final = (
    frozenset({"items", "prefixItems", "additionalItems"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"if", "then", "else"}),
)
_HIGHEST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWEST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def atoms(document: JsonDocument, conjunction: Conjunction) -> list[Atom]:
    """Atoms of a conjunction; none if it accepts everything, NOTHING alone if it accepts nothing."""
    found: list[Atom] = []
    todo = list(reversed(conjunction))
    while todo:
        schema = todo.pop()
        if schema is False:
            return [NOTHING]
        if not isinstance(schema, dict):
            continue
        target = document.references.target(schema)
        if target is not None and "$ref" in schema:
            todo.append(target)
            if document.dialect == DIALECT_7:
                continue
        todo.extend(reversed(schema.get("allOf", [])))
        own = _own(document, schema)
        if _accepts_nothing(own):
            return [NOTHING]
        if own:
            _add(found, own)
    return found


def conjoined(one: Atom, others: list[Atom]) -> list[Atom]:
    """Atoms of `one` and all the others at once."""
    found = [one] if one else []
    if NOTHING in others:
        return [NOTHING]
    for other in others:
        _add(found, other)
    return found


def _own(document: JsonDocument, schema: dict[str, Any]) -> Atom:
    left_out = {"$ref", "allOf"} | ANNOTATIONS | _UNKNOWN[document.dialect]
    own = {key: value for key, value in schema.items() if key not in left_out}
    for key in ("additionalProperties", "additionalItems", "items"):
        if own.get(key) in (True, {}):
            del own[key]
    _split_dependencies(own)
    if document.dialect != DIALECT_7 and not _combines(schema):
        for key, plain in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
            if key in own and plain not in own and not isinstance(schema.get("items"), list) and "contains" not in own:
                own[plain] = own.pop(key)
    _place_items(own)
    if "if" not in own:
        own.pop("then", None), own.pop("else", None)
    if "contains" not in own:
        own.pop("minContains", None), own.pop("maxContains", None)
    return own


def _split_dependencies(own: Atom) -> None:
    for name, value in own.pop("dependencies", {}).items():
        key = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
        own[key] = {**own.get(key, {}), name: value}


def _place_items(own: Atom) -> None:
    """Write the older form, `items` with a list, as `prefixItems` and `items`."""
    if isinstance(own.get("items"), list):
        own["prefixItems"] = own.pop("items")
        if "additionalItems" in own:
            own["items"] = own.pop("additionalItems")
    elif "items" in own:
        own.pop("additionalItems", None)


def _combines(schema: dict[str, Any]) -> bool:
    return any(
        key in schema
        for key in ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas")
    )


def _accepts_nothing(own: Atom) -> bool:
    return own.get("not") is True or own.get("not") == {}


def _add(found: list[Atom], own: Atom) -> None:
    for index, other in enumerate(found):
        if (merged := _merged(other, own)) is not None:
            found[index] = merged
            return
    found.append(own)


def _merged(one: Atom, two: Atom) -> Atom | None:
    """One atom for both; None if that could change what they mean."""
    if not (_fits_beside(one, two) and _fits_beside(two, one)):
        return None
    result = {**one, **two}
    for key in one.keys() & two.keys():
        value = _both(key, one[key], two[key])
        if value is None:
            return None
        result[key] = value
    return result


def _fits_beside(one: Atom, two: Atom) -> bool:
    """True if what `one` says of undescribed parts stays the same with the descriptions of `two` beside it."""
    if any(key in one for key in ("unevaluatedProperties", "unevaluatedItems")):
        return False
    if any(group & one.keys() and group & two.keys() for group in _GROUPS):
        return False
    if "additionalProperties" in one:
        described = one.get("properties", {})
        return "patternProperties" not in two and two.get("properties", {}).keys() <= described.keys()
    return True


def _both(key: str, one: Any, two: Any) -> Any:  # noqa: ANN401 - values of keywords
    """Value of a keyword that stands for two of them; None without one."""
    if key == "properties":
        both = {name: {"allOf": [one[name], two[name]]} for name in one.keys() & two.keys() if one[name] != two[name]}
        return None if both else {**one, **two}
    if key == "required":
        return [*dict.fromkeys([*one, *two])]
    if key in _HIGHEST:
        return max(one, two)
    if key in _LOWEST:
        return min(one, two)
    return one if _plain(one) and one == two and type(one) is type(two) else None


def _plain(value: object) -> bool:
    """True for values that hold no schema, whose equality is their meaning."""
    return isinstance(value, str | int | float) or (isinstance(value, list) and all(isinstance(v, str) for v in value))


def types(atom: Atom) -> frozenset[str]:
    """Types of the values that an atom can accept."""
    named = atom.get("type")
    found = JSON_TYPES
    if named is not None:
        words = {named} if isinstance(named, str) else {*named}
        found = frozenset(words - {"number"}) | (
            frozenset({"integer", "fraction"}) if "number" in words else frozenset()
        )
    listed = values(atom)
    if listed is not None:
        found &= frozenset(_type_of(decode_json(each)) for each in listed)
    return found


def values(atom: Atom) -> frozenset[str] | None:
    """Canonical texts of the values that `enum` and `const` list; None where neither does."""
    found: frozenset[str] | None = None
    if "enum" in atom:
        found = frozenset(_text(value) for value in atom["enum"])
    if "const" in atom:
        constant = frozenset({_text(atom["const"])})
        found = constant if found is None else found & constant
    return found


def exact(number: float) -> Fraction:
    """Number as it is written."""
    return Fraction(repr(number))


def _text(value: object) -> str:
    return json.dumps(_numbers_alike(value), sort_keys=True)


def _numbers_alike(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_numbers_alike(each) for each in value]
    if isinstance(value, dict):
        return {key: _numbers_alike(each) for key, each in value.items()}
    return value


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "fraction"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"

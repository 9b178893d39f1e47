"""Changes of JSON Schemas, with the judgement of Confluent's registry: does the later version read data of the earlier?

None names a draft, so all of them are of draft 7. The judgements are those of its public table of differences.
"""

from typing import Any, Final

Case = tuple[str, Any, Any, bool]
"""Name, earlier and later schema, compatible by `BACKWARD`."""

_S: Final = {"type": "string"}
_I: Final = {"type": "integer"}
_N: Final = {"type": "number"}
_B: Final = {"type": "boolean"}
_NULL: Final = {"type": "null"}
_MAYBE: Final = {"oneOf": [_NULL, _S]}
_A: Final = {"type": "array"}
_WORDS: Final = {"enum": ["one", "two", "three"]}


def _p(others: Any = None, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"properties": properties}
    if others is not None:
        found["additionalProperties"] = others
    return found | ({"required": [*required]} if required else {})


def _a(*items: Any, others: Any = None) -> dict[str, Any]:
    return {**_A, "items": [*items]} | ({} if others is None else {"additionalItems": others})


def _patterns(text: Any, number: Any, **properties: Any) -> dict[str, Any]:
    return {**_p(False, foo=_S, **properties), "patternProperties": {"^S_": text, "^I_": number}}


_VALUES: Final[list[Case]] = [
    ("properties are free again", _p(), {}, True),
    ("an annotation that is no keyword", {"id": "something"}, {"id": "something_else"}, True),
    ("another title", {"title": "something"}, {"title": "something_else"}, True),
    ("another description", {"description": "something"}, {"description": "something_else"}, True),
    ("object to array", {"type": "object"}, _A, False),
    ("minLength up", {**_S, "minLength": 10}, {**_S, "minLength": 11}, False),
    ("minLength down", {**_S, "minLength": 11}, {**_S, "minLength": 10}, True),
    ("maxLength up", {**_S, "maxLength": 10}, {**_S, "maxLength": 12}, True),
    ("maxLength down", {**_S, "maxLength": 12}, {**_S, "maxLength": 10}, False),
    ("pattern gone", {**_S, "pattern": "uuid"}, _S, True),
    ("another pattern", {**_S, "pattern": "date-time"}, {**_S, "pattern": "uuid"}, False),
    ("the same pattern", {**_S, "pattern": "date-time"}, {**_S, "pattern": "date-time"}, True),
    ("maximum gone", {**_N, "maximum": 10}, _N, True),
    ("maximum up", {**_N, "maximum": 10}, {**_N, "maximum": 11}, True),
    ("maximum down", {**_N, "maximum": 11}, {**_N, "maximum": 10}, False),
    ("minimum gone", {**_N, "minimum": 10}, _N, True),
    ("minimum up", {**_N, "minimum": 10}, {**_N, "minimum": 11}, False),
    ("minimum down", {**_N, "minimum": 11}, {**_N, "minimum": 10}, True),
    ("multipleOf gone", {**_N, "multipleOf": 10}, _N, True),
    ("multipleOf a divisor", {**_N, "multipleOf": 10}, {**_N, "multipleOf": 2}, True),
    ("multipleOf another", {**_N, "multipleOf": 10}, {**_N, "multipleOf": 11}, False),
    ("number to integer", _N, _I, False),
    ("integer to number", _I, _N, True),
    ("less is excluded", {"not": _N}, {"not": _I}, True),
    ("more is excluded", {"not": _I}, {"not": _N}, False),
    ("enum gone", {**_S, "enum": ["red"]}, _S, True),
    ("another enum in allOf", {"allOf": [_S, {"enum": ["red"]}]}, {"allOf": [_S, {"enum": ["blue"]}]}, False),
    ("a longer enum in allOf", {"allOf": [_S, {"enum": ["red"]}]}, {"allOf": [{"enum": ["red", "blue"]}, _S]}, True),
    ("a type more", {"type": ["object"]}, {"type": ["object", "array"]}, True),
]
_OBJECTS: Final[list[Case]] = [
    ("another property, open", _p(foo=_S), _p(bar=_S), False),
    ("another type of a property", _p(foo=_S), _p(foo=_N), False),
    ("a property more, closed", _p(False, foo=_S), _p(False, foo=_S, bar=_N), True),
    ("a wider property beside a pattern", _patterns(_S, _I), _patterns(_S, _I, I_123=_N), True),
    ("a property that others covered", _p(_S, foo=_S), _p(_S, foo=_S, bar=_S), True),
    ("a property that others did not cover", _p(_S, foo=_S), _p(_S, foo=_S, bar=_N), False),
    ("a required property that others covered", _p(_S, foo=_S), _p(_S, ("bar",), foo=_S, bar=_S), False),
    ("a pattern covers what was a property", _p(False, foo=_S, I_123=_I), _patterns(_S, _N), True),
    ("others cover what was a property", _p(False, foo=_S, bar=_S), _p(_S, foo=_S), True),
    ("others do not cover what was a property", _p(False, foo=_S, bar=_N), _p(_S, foo=_S), False),
    ("others cover what was a choice", _p(False, foo=_S, bar=_MAYBE), _p(_MAYBE, foo=_S), True),
    ("others cover more than the property", _p(False, foo=_S, bar=_S), _p(_MAYBE, foo=_S), True),
    ("a property more, open", _p(foo=_S), _p(foo=_S, bar=_N), False),
    (
        "dependencies the other way round",
        {**_p(foo=_N, bar=_S), "dependencies": {"foo": ["bar"]}},
        {**_p(foo=_N, bar=_S), "dependencies": {"bar": ["foo"]}},
        False,
    ),
    ("a dependency less of two", {"dependencies": {"foo": _S, "bar": _S}}, {"dependencies": {"foo": _S}}, True),
    ("the last dependency gone", {"dependencies": {"foo": _S}}, {"dependencies": {}}, True),
    ("another type of a dependency", {"dependencies": {"foo": _S}}, {"dependencies": {"foo": _N}}, False),
    ("another name of a dependency", {"dependencies": {"foo": _S}}, {"dependencies": {"bar": _S}}, False),
    ("required no more", _p(None, ("foo",), foo=_S), _p(foo=_S), True),
    ("required now", _p(foo=_S), _p(None, ("foo",), foo=_S), False),
    ("another one is required", _p(None, ("foo",), foo=_S), _p(None, ("bar",), foo=_S), True),
    ("maxProperties gone", {**_p(), "maxProperties": 1}, _p(), True),
    ("maxProperties up", {"maxProperties": 1}, {"maxProperties": 2}, True),
    ("maxProperties down", {"maxProperties": 2}, {"maxProperties": 1}, False),
    ("minProperties gone", {**_p(), "minProperties": 2}, _p(), True),
    ("minProperties up", {"minProperties": 1}, {"minProperties": 2}, False),
    ("minProperties down", {"minProperties": 2}, {"minProperties": 1}, True),
    ("opened", _p(False), _p(), True),
    ("closed", {"additionalProperties": True}, {"additionalProperties": False}, False),
    ("others narrowed", {"additionalProperties": True}, {"additionalProperties": _N}, False),
    ("anything is described, open", _p(True), _p(True, foo=True), True),
    ("anything is no more described, open", _p(True, foo=True), _p(True), True),
    ("nothing is described, closed", _p(False), _p(False, foo=False), True),
    ("nothing is no more described, closed", _p(False, foo=False), _p(False), True),
    ("another type of others", {"additionalProperties": _S}, {"additionalProperties": _N}, False),
]
_ARRAYS: Final[list[Case]] = [
    ("items are described", _A, {**_A, "items": _S}, False),
    ("items are no more described", {**_A, "items": _S}, _A, True),
    ("a list of items is no more described", _a(_S, _N), _A, True),
    ("an item that others covered", _a(_S, _N, others=_S), _a(_S, _N, _S, others=_S), True),
    ("an item that others did not cover", _a(_S, _N, others=_S), _a(_S, _N, _N, others=_S), False),
    ("others cover what was an item", _a(_S, _N, _S, others=_S), _a(_S, _N, others=_S), True),
    ("others cover what was an item of a choice", _a(_S, _N, _MAYBE, others=_MAYBE), _a(_S, _N, others=_MAYBE), True),
    ("others do not cover what was an item", _a(_S, _N, _N, others=_S), _a(_S, _N, others=_S), False),
    ("another type of an item", _a(_S), _a(_N), False),
    ("maxItems down", {**_A, "maxItems": 2}, {**_A, "maxItems": 1}, False),
    ("minItems gone", {**_A, "minItems": 1}, _A, True),
    ("minItems up", {**_A, "minItems": 1}, {**_A, "minItems": 2}, False),
    ("minItems down", {**_A, "minItems": 2}, {**_A, "minItems": 1}, True),
    ("uniqueItems gone", {**_A, "uniqueItems": True}, _A, True),
    (
        "another type behind a reference",
        {**_A, "items": {"$ref": "#/definitions/d"}, "definitions": {"d": _S}},
        {**_A, "items": {"$ref": "#/definitions/d"}, "definitions": {"d": _N}},
        False,
    ),
    ("moved behind a reference", _S, {"$ref": "#/definitions/d", "definitions": {"d": _S}}, True),
    ("moved out of a reference", {"$ref": "#/definitions/d", "definitions": {"d": _S}}, _S, True),
    ("further items are refused", {"additionalItems": True}, {"additionalItems": False}, False),
    ("another type of further items", {"additionalItems": _S}, {"additionalItems": _N}, False),
    ("any item is described, open", _a(_N, others=True), _a(_N, True, others=True), True),
    ("any item is no more described, open", _a(_N, True, others=True), _a(_N, others=True), True),
    ("no item is described, closed", _a(_N, others=False), _a(_N, False, others=False), True),
    ("no item is no more described, closed", _a(_N, False, others=False), _a(_N, others=False), True),
    ("an item more, opened", _a(_S, _N, others=False), _a(_S, _N, _B, others=True), True),
    ("an item less, opened", _a(_S, _N, _B, others=False), _a(_S, _N, others=True), True),
    ("an item less, open", _a(_S, _N, others=True), _a(_S, others=True), True),
    ("an item more, closed", _a(_S, others=False), _a(_S, _N, others=False), True),
    ("others cover the item that is gone", _a(_S, _N, others=False), _a(_S, others=_N), True),
    ("an item that others covered, opened", _a(_S, others=_N), _a(_S, _N, others=True), True),
]
_COMBINATIONS: Final[list[Case]] = [
    ("oneOf of another type", {"oneOf": [_S]}, {"oneOf": [_N]}, False),
    ("oneOf of more, in another order", {"oneOf": [_S]}, {"oneOf": [_N, _S]}, True),
    ("oneOf with another property", {"oneOf": [_p(foo=_S)]}, {"oneOf": [_p(foo=_N)]}, False),
    ("oneOf to allOf", {"oneOf": [_S]}, {"allOf": [_S]}, False),
    ("a type to one of two", _S, {"oneOf": [_N, _S]}, True),
    ("null to one of two", _NULL, {"oneOf": [_N, _NULL]}, True),
    ("one of two more", {"oneOf": [_N]}, {"oneOf": [_S, _N]}, True),
    ("a short text to one of two", {**_S, "maxLength": 3}, {"oneOf": [_N, _S]}, True),
]
_OF_A_PROPERTY: Final[list[Case]] = [
    (
        "allOf in another order",
        {"allOf": [_WORDS, _S, {"maxLength": 5}]},
        {"allOf": [{"maxLength": 5}, _WORDS, _S]},
        True,
    ),
    (
        "allOf of another type",
        {"allOf": [_WORDS, _S, {"maxLength": 5}]},
        {"allOf": [{"maxLength": 5}, _WORDS, _N]},
        False,
    ),
    ("twice the same before", {"allOf": [_S, _S]}, {"allOf": [_S]}, True),
    ("twice the same now", {"allOf": [_S]}, {"allOf": [_S, _S]}, True),
    ("one to one of two", {"oneOf": [_S]}, {"oneOf": [_N, _S]}, True),
    ("one to one of three", {"oneOf": [_S]}, {"oneOf": [_B, _N, _S]}, True),
    ("one of three, longer", {"oneOf": [{**_S, "maxLength": 5}]}, {"oneOf": [_B, {**_S, "maxLength": 8}]}, True),
    ("one of fewer", {"oneOf": [_N, _S]}, {"oneOf": [_S]}, False),
    ("less at once", {"allOf": [_WORDS, _S]}, {"allOf": [_S]}, True),
    ("more at once", {"allOf": [_S]}, {"allOf": [_WORDS, _S]}, False),
    ("oneOf to anyOf", {"oneOf": [_S]}, {"anyOf": [_S]}, True),
    ("oneOf to anyOf of more", {"oneOf": [_S]}, {"anyOf": [_N, _S]}, True),
    ("allOf to anyOf", {"allOf": [_S]}, {"anyOf": [_S]}, True),
    ("allOf to anyOf of more", {"allOf": [_S]}, {"anyOf": [_N, _S]}, True),
    ("anyOf to oneOf of more", {"anyOf": [_S]}, {"oneOf": [_N, _S]}, True),
    ("anyOf to oneOf of fewer", {"anyOf": [_N, _S]}, {"oneOf": [_S]}, False),
    ("allOf to oneOf of more", {"allOf": [_N]}, {"oneOf": [_N, _S]}, True),
    ("anyOf to allOf", {"anyOf": [_S]}, {"allOf": [_S]}, True),
    ("oneOf to allOf in a property", {"oneOf": [_S]}, {"allOf": [_S]}, True),
    ("anyOf to allOf of more", {"anyOf": [_S]}, {"allOf": [_N, _S]}, False),
    ("oneOf to allOf of more", {"oneOf": [_S]}, {"allOf": [_N, _S]}, False),
    ("a type to anyOf of more", _S, {"anyOf": [_N, _S]}, True),
    ("a type to oneOf of more", _S, {"oneOf": [_N, _S]}, True),
    ("a type to allOf", _S, {"allOf": [_S]}, True),
    ("a type to allOf of more", _S, {"allOf": [_N, _S]}, False),
]
JSON_CASES: Final[list[Case]] = [
    *_VALUES,
    *_OBJECTS,
    *_ARRAYS,
    *_COMBINATIONS,
    *(
        (name, {"type": "object", **_p(prop=old)}, {"type": "object", **_p(prop=new)}, fits)
        for name, old, new, fits in _OF_A_PROPERTY
    ),
]

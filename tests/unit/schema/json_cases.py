"""Pairs of JSON Schemas with the verdict by the specification: B and F are the directions that are compatible."""

from typing import Any, Final

Case = tuple[str, Any, Any, str, set[str]]
"""Name, earlier and later schema, compatible directions, kinds of differences."""

_S: Final = {"type": "string"}
_I: Final = {"type": "integer"}
_N: Final = {"type": "number"}


def _o(*, closed: bool = False, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = [*required]
    return found | ({"additionalProperties": False} if closed else {})


_CAT: Final = _o(kind={"const": "cat"}, required=("kind",))
_DOG: Final = _o(kind={"const": "dog"}, required=("kind",))
_TREE: Final = {"$ref": "#/$defs/n", "$defs": {"n": _o(value=_I, next={"$ref": "#/$defs/n"})}}
_TREE_TEXT: Final = {"$ref": "#/$defs/n", "$defs": {"n": _o(value=_S, next={"$ref": "#/$defs/n"})}}

JSON_CASES: Final[list[Case]] = [
    ("the same", _S, {"type": "string", "title": "a name"}, "BF", set()),
    ("types in another order", {"type": ["string", "null"]}, {"type": ["null", "string"]}, "BF", set()),
    ("true and the empty schema", True, {}, "BF", set()),
    ("nothing accepted any more", {}, False, "F", {"schema_closed"}),
    ("something accepted at last", False, _S, "B", {"schema_opened"}),
    ("a type more", _S, {"type": ["string", "null"]}, "B", {"type_extended"}),
    ("a type less", {"type": ["string", "null"]}, _S, "F", {"type_narrowed"}),
    ("another type", _S, _I, "", {"type_changed"}),
    ("integers become numbers", _I, _N, "B", {"type_extended"}),
    ("numbers become integers", _N, _I, "F", {"type_narrowed"}),
    ("any type becomes one", {}, _S, "F", {"type_narrowed"}),
    ("integer beside number says nothing", _N, {"type": ["integer", "number"]}, "BF", set()),
    ("a value more", {"enum": ["a"]}, {"enum": ["a", "b"]}, "B", {"enum_extended"}),
    ("a value less", {"enum": ["a", "b"]}, {"enum": ["b"]}, "F", {"enum_narrowed"}),
    ("other values", {"enum": ["a", "b"]}, {"enum": ["b", "c"]}, "", {"enum_changed"}),
    ("a constant becomes an enum", {"const": 1}, {"enum": [1, 2]}, "B", {"enum_extended"}),
    ("one constant, two ways to write it", {"const": 1}, {"enum": [1.0]}, "BF", set()),
    ("values become free", {"enum": ["a"]}, _S, "B", {"enum_removed"}),
    ("values become listed", _S, {"type": "string", "enum": ["a"]}, "F", {"enum_added"}),
    (
        "format is an annotation",
        {"type": "string", "format": "date"},
        {"type": "string", "format": "email"},
        "BF",
        {"format_changed"},
    ),
    ("minimum added", _I, {"type": "integer", "minimum": 1}, "F", {"minimum_raised"}),
    ("minimum lowered", {"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 0}, "B", {"minimum_lowered"}),
    ("whole numbers above 0", {**_I, "exclusiveMinimum": 0}, {**_I, "minimum": 1}, "BF", set()),
    ("whole numbers below 2.5", {**_I, "exclusiveMaximum": 2.5}, {**_I, "maximum": 2}, "BF", set()),
    ("whole numbers above 1", {**_I, "exclusiveMinimum": 0}, {**_I, "minimum": 2}, "F", {"minimum_raised"}),
    ("fractions above 0", {**_N, "exclusiveMinimum": 0}, {**_N, "minimum": 1}, "F", {"minimum_raised"}),
    ("numbers above 0 become whole", {**_N, "exclusiveMinimum": 0}, {**_I, "minimum": 1}, "F", {"type_narrowed"}),
    ("whole numbers are multiples of 1", _I, {**_I, "multipleOf": 1}, "BF", set()),
    ("whole multiples of a fraction", {**_I, "multipleOf": 1.5}, {**_I, "multipleOf": 3}, "BF", set()),
    ("minimum excluded itself", {"minimum": 1}, {"exclusiveMinimum": 1}, "F", {"minimum_raised"}),
    ("maximum lowered", {"maximum": 9}, {"maximum": 8.5}, "F", {"maximum_lowered"}),
    ("maximum removed", {"maximum": 9}, {}, "B", {"maximum_raised"}),
    (
        "bounds both ways",
        {"minimum": 1, "maximum": 5},
        {"minimum": 0, "maximum": 4},
        "",
        {"minimum_lowered", "maximum_lowered"},
    ),
    ("a bound of numbers means nothing to strings", _S, {"type": "string", "minimum": 3}, "BF", set()),
    ("multiples of a divisor", {"multipleOf": 4}, {"multipleOf": 2}, "B", {"multiple_of_extended"}),
    ("multiples of a multiple", {"multipleOf": 0.1}, {"multipleOf": 0.3}, "F", {"multiple_of_narrowed"}),
    ("other multiples", {"multipleOf": 4}, {"multipleOf": 6}, "", {"multiple_of_changed"}),
    ("longer strings only", _S, {"type": "string", "minLength": 1}, "F", {"minimum_raised"}),
    ("minLength 0 says nothing", _S, {"type": "string", "minLength": 0}, "BF", set()),
    ("longer strings, too", {"maxLength": 3}, {"maxLength": 5}, "B", {"maximum_raised"}),
    ("pattern added", _S, {"type": "string", "pattern": "^a"}, "F", {"pattern_added"}),
    ("pattern removed", {"pattern": "^a"}, {}, "B", {"pattern_removed"}),
    ("pattern changed", {"pattern": "^a"}, {"pattern": "^b"}, "", {"pattern_changed"}),
    ("items described", {"type": "array"}, {"type": "array", "items": _S}, "F", {"type_narrowed"}),
    ("items of more types", {"items": _I}, {"items": _N}, "B", {"type_extended"}),
    ("items refused", {"items": _I}, {"items": False}, "F", {"items_closed"}),
    (
        "a position more, open",
        {"prefixItems": [_S]},
        {"prefixItems": [_S, _I]},
        "F",
        {"item_added_to_open_content_model"},
    ),
    (
        "a position more, closed",
        {"prefixItems": [_S], "items": False},
        {"prefixItems": [_S, _I], "items": False},
        "B",
        {"item_added_to_closed_content_model"},
    ),
    (
        "a position less, open",
        {"prefixItems": [_S, _I]},
        {"prefixItems": [_S]},
        "B",
        {"item_removed_from_open_content_model"},
    ),
    (
        "a position less, closed",
        {"prefixItems": [_S, _I], "items": False},
        {"prefixItems": [_S], "items": False},
        "F",
        {"item_removed_from_closed_content_model"},
    ),
    (
        "a position as the others are",
        {"prefixItems": [_S], "items": _I},
        {"prefixItems": [_S, _I], "items": _I},
        "BF",
        set(),
    ),
    ("more items", {"minItems": 2}, {"minItems": 1}, "B", {"minimum_lowered"}),
    ("items have to differ", {}, {"uniqueItems": True}, "F", {"unique_items_added"}),
    ("items may be equal", {"uniqueItems": True}, {"uniqueItems": False}, "B", {"unique_items_removed"}),
    ("something contained", {}, {"contains": _S}, "F", {"contains_added"}),
    ("something more general contained", {"contains": _I}, {"contains": _N}, "B", {"type_extended"}),
    (
        "contained in another number",
        {"contains": _I, "maxContains": 2},
        {"contains": _N, "maxContains": 2},
        "",
        {"contains_changed"},
    ),
    ("a property's type", _o(a=_I), _o(a=_S), "", {"type_changed"}),
    ("a nested property's type", _o(a=_o(b=_I)), _o(a=_o(b=_N)), "B", {"type_extended"}),
    ("a property that may be anything", _o(a=_S), _o(a=_S, b=True), "BF", set()),
    ("optional becomes required", _o(a=_S), _o(a=_S, required=("a",)), "F", {"property_became_required"}),
    ("required becomes optional", _o(a=_S, required=("a",)), _o(a=_S), "B", {"property_became_optional"}),
    (
        "required with a default",
        _o(a={"type": "string", "default": "x"}),
        _o(a={"type": "string", "default": "x"}, required=("a",)),
        "BF",
        {"property_with_default_became_required"},
    ),
    (
        "optional with a default",
        _o(a={"type": "string", "default": "x"}, required=("a",)),
        _o(a={"type": "string", "default": "x"}),
        "BF",
        {"property_with_default_became_optional"},
    ),
    ("others refused", _o(a=_S), _o(a=_S, closed=True), "F", {"content_model_closed"}),
    ("others accepted", _o(a=_S, closed=True), _o(a=_S), "B", {"content_model_opened"}),
    ("others described", {"type": "object"}, {"type": "object", "additionalProperties": _S}, "F", {"type_narrowed"}),
    (
        "a property as others are",
        {"type": "object", "additionalProperties": _S},
        {"type": "object", "properties": {"a": _S}, "additionalProperties": _S},
        "BF",
        set(),
    ),
    (
        "a property more general than others",
        {"type": "object", "additionalProperties": _I},
        {"type": "object", "properties": {"a": _N}, "additionalProperties": _I},
        "B",
        {"property_added_to_partially_open_content_model", "type_extended"},
    ),
    (
        "a property that a pattern described",
        {"patternProperties": {"^a": _S}, "additionalProperties": False},
        {"patternProperties": {"^a": _S}, "properties": {"ab": _S}, "additionalProperties": False},
        "BF",
        set(),
    ),
    (
        "a pattern, open",
        {"type": "object"},
        {"type": "object", "patternProperties": {"^x": _S}},
        "F",
        {"pattern_property_added"},
    ),
    (
        "a pattern, closed",
        {"type": "object", "additionalProperties": False},
        {"type": "object", "patternProperties": {"^x": _S}, "additionalProperties": False},
        "B",
        {"pattern_property_added_to_closed_content_model"},
    ),
    ("a pattern's type", {"patternProperties": {"^x": _I}}, {"patternProperties": {"^x": _N}}, "B", {"type_extended"}),
    (
        "a pattern beside others",
        {"patternProperties": {"^x": _S}, "additionalProperties": False},
        {"patternProperties": {"^x": _S, "y$": _S}, "additionalProperties": False},
        "",
        {"pattern_property_changed"},
    ),
    ("fewer properties", {"maxProperties": 5}, {"maxProperties": 3}, "F", {"maximum_lowered"}),
    (
        "a dependency",
        {"type": "object"},
        {"type": "object", "dependentRequired": {"a": ["b"]}},
        "F",
        {"dependency_added"},
    ),
    (
        "a dependency less",
        {"dependentRequired": {"a": ["b", "c"]}},
        {"dependentRequired": {"a": ["b"]}},
        "B",
        {"dependency_removed"},
    ),
    (
        "names restricted",
        {"type": "object"},
        {"type": "object", "propertyNames": {"maxLength": 3}},
        "F",
        {"property_names_added"},
    ),
    (
        "names less restricted",
        {"propertyNames": {"maxLength": 3}},
        {"propertyNames": {"maxLength": 4}},
        "B",
        {"maximum_raised"},
    ),
    ("an alternative more", {"anyOf": [_S, _I]}, {"anyOf": [_S, _I, {"type": "null"}]}, "B", {"any_of_extended"}),
    ("an alternative less", {"anyOf": [_S, _I]}, {"anyOf": [_I]}, "F", {"any_of_narrowed"}),
    ("alternatives in another order", {"anyOf": [_S, _I]}, {"anyOf": [_I, _S]}, "BF", set()),
    ("other alternatives", {"anyOf": [_S, _I]}, {"anyOf": [_S, {"type": "null"}]}, "", {"any_of_changed"}),
    ("one type becomes alternatives", _S, {"anyOf": [_S, {"type": "null"}]}, "B", {"any_of_extended"}),
    ("a list of types as alternatives", {"type": ["string", "null"]}, {"anyOf": [_S, {"type": "null"}]}, "BF", set()),
    ("within an alternative", {"anyOf": [_S, _I]}, {"anyOf": [_S, _N]}, "B", {"type_extended"}),
    ("one of more, apart by a constant", {"oneOf": [_CAT]}, {"oneOf": [_CAT, _DOG]}, "B", {"any_of_extended"}),
    ("one of more that may overlap", {"oneOf": [_S, _I]}, {"oneOf": [_S, _I, _N]}, "", {"one_of_may_overlap"}),
    ("one becomes any, apart", {"oneOf": [_S, _I]}, {"anyOf": [_S, _I]}, "BF", set()),
    ("one becomes any, overlapping", {"oneOf": [_I, _N]}, {"anyOf": [_I, _N]}, "B", {"any_of_extended"}),
    ("one becomes any of more", {"oneOf": [_S]}, {"anyOf": [_S, _I]}, "B", {"any_of_extended"}),
    ("one becomes any of fewer", {"oneOf": [_I, _N]}, {"anyOf": [_I]}, "", {"one_of_may_overlap"}),
    ("any becomes one, apart", {"anyOf": [_S, _I]}, {"oneOf": [_S, _I]}, "BF", set()),
    (
        "more has to hold",
        {"allOf": [{"minimum": 1}]},
        {"allOf": [{"minimum": 1}, {"multipleOf": 2}]},
        "F",
        {"multiple_of_narrowed"},
    ),
    ("inherited properties", {"allOf": [_o(a=_S), _o(b=_I)]}, _o(a=_S, b=_I), "BF", set()),
    (
        "parts that cannot be merged",
        {"allOf": [{"pattern": "a"}, {"pattern": "b"}]},
        {"allOf": [{"pattern": "a"}, {"pattern": "b"}, {"pattern": "c"}]},
        "F",
        {"all_of_added"},
    ),
    ("less is excluded", {"not": {"type": ["string", "null"]}}, {"not": _S}, "B", {"not_narrowed"}),
    ("more is excluded", {"not": _I}, {"not": _N}, "F", {"not_extended"}),
    ("something else is excluded", {"not": _I}, {"not": _S}, "", {"not_changed"}),
    ("a condition", {}, {"if": _S, "then": {"minLength": 1}}, "F", {"condition_added"}),
    (
        "a condition's outcome",
        {"if": _S, "then": {"minLength": 2}},
        {"if": _S, "then": {"minLength": 1}},
        "B",
        {"minimum_lowered"},
    ),
    (
        "another condition",
        {"if": _S, "then": {"minLength": 2}},
        {"if": _I, "then": {"minLength": 2}},
        "",
        {"condition_changed"},
    ),
    ("recursion, the same", _TREE, {**_TREE, "description": "a list"}, "BF", set()),
    ("recursion, another type", _TREE, _TREE_TEXT, "", {"type_changed"}),
    ("a reference in place of its target", {"$ref": "#/$defs/a", "$defs": {"a": _S}}, _S, "BF", set()),
    (
        "unevaluated properties changed",
        {"anyOf": [_o(a=_S)], "unevaluatedProperties": False},
        {"anyOf": [_o(a=_S)]},
        "",
        {"unevaluated_changed"},
    ),
]
"""At least sixty."""

_DEFAULT: Final = {"type": "string", "default": "x"}
_ADDED = {"optional": (_S, ()), "default": (_DEFAULT, ("b",)), "required": (_S, ("b",))}
OPTIONAL_CASES: Final = [
    # model, change, property, strict, optional_friendly
    ("open", "add", "optional", "F", "BF"),
    ("open", "add", "default", "F", "BF"),
    ("open", "add", "required", "F", "F"),
    ("closed", "add", "optional", "B", "BF"),
    ("closed", "add", "default", "B", "BF"),
    ("closed", "add", "required", "", "F"),
    ("open", "remove", "optional", "B", "BF"),
    ("open", "remove", "default", "B", "BF"),
    ("open", "remove", "required", "B", "B"),
    ("closed", "remove", "optional", "F", "BF"),
    ("closed", "remove", "default", "F", "BF"),
    ("closed", "remove", "required", "", "B"),
]
"""Both policies over all combinations: 24 verdicts, each in two directions."""


def optional_pair(model: str, change: str, of: str) -> tuple[Any, Any]:
    """Earlier and later schema of a combination."""
    schema, required = _ADDED[of]
    without, beside = (
        _o(closed=model == "closed", a=_S),
        _o(closed=model == "closed", required=required, a=_S, b=schema),
    )
    return (without, beside) if change == "add" else (beside, without)

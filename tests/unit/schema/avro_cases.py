"""Pairs of Avro schemas with the verdict by the specification: B and F are the directions that are compatible."""

from typing import Any, Final

Case = tuple[str, Any, Any, str, set[str]]
"""Name, earlier and later schema, compatible directions, kinds of differences."""


def _r(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [*fields], **more}


def _f(name: str, avro_type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": avro_type, **more}


def _e(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": [*symbols], **more}


def _x(size: int, name: str = "X", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def _a(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _m(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def _d(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


_A: Final = _f("a", "int")
_TIME: Final = {"type": "long", "logicalType": "timestamp-millis"}
_LIST: Final = _r(_A, _f("next", ["null", "R"]))

AVRO_CASES: Final[list[Case]] = [
    ("the same, with a doc", _r(_A), _r({**_A, "doc": "x"}), "BF", set()),
    ("a primitive in both spellings", "string", {"type": "string"}, "BF", set()),
    ("int to long", "int", "long", "B", {"type_promoted"}),
    ("int to float", "int", "float", "B", {"type_promoted"}),
    ("int to double", "int", "double", "B", {"type_promoted"}),
    ("long to float", "long", "float", "B", {"type_promoted"}),
    ("long to double", "long", "double", "B", {"type_promoted"}),
    ("float to double", "float", "double", "B", {"type_promoted"}),
    ("long to int", "long", "int", "F", {"type_demoted"}),
    ("double to float", "double", "float", "F", {"type_demoted"}),
    ("double to int", "double", "int", "F", {"type_demoted"}),
    ("string to bytes", "string", "bytes", "BF", {"string_bytes_changed"}),
    ("bytes to string", "bytes", "string", "BF", {"string_bytes_changed"}),
    ("int to string", "int", "string", "", {"type_changed"}),
    ("boolean to int", "boolean", "int", "", {"type_changed"}),
    ("null to string", "null", "string", "", {"type_changed"}),
    ("string to an enum", "string", _e("A"), "", {"type_changed"}),
    ("bytes to a fixed", "bytes", _x(4), "", {"type_changed"}),
    ("record to map", _r(_A), _m("int"), "", {"type_changed"}),
    ("array to map", _a("int"), _m("int"), "", {"type_changed"}),
    ("items promoted", _a("int"), _a("long"), "B", {"type_promoted"}),
    ("items changed", _a("int"), _a("string"), "", {"type_changed"}),
    ("values promoted", _m("float"), _m("double"), "B", {"type_promoted"}),
    ("values demoted", _m("double"), _m("float"), "F", {"type_demoted"}),
    ("a field with a default more", _r(_A), _r(_A, _f("b", "int", default=0)), "BF", {"field_added_with_default"}),
    ("a field without a default more", _r(_A), _r(_A, _f("b", "int")), "F", {"field_added"}),
    ("an optional field without a default more", _r(_A), _r(_A, _f("b", ["null", "int"])), "F", {"field_added"}),
    (
        "a field with the default null more",
        _r(_A),
        _r(_A, _f("b", ["null", "int"], default=None)),
        "BF",
        {"field_added_with_default"},
    ),
    ("a field whose enum has a default more", _r(_A), _r(_A, _f("b", _e("A", default="A"))), "F", {"field_added"}),
    ("a field without a default less", _r(_A, _f("b", "int")), _r(_A), "B", {"field_removed"}),
    ("a field with a default less", _r(_A, _f("b", "int", default=1)), _r(_A), "BF", {"field_removed_with_default"}),
    ("fields in another order", _r(_A, _f("b", "int")), _r(_f("b", "int"), _A), "BF", set()),
    ("a field promoted", _r(_A), _r(_f("a", "long")), "B", {"type_promoted"}),
    ("a field changed", _r(_A), _r(_f("a", "string")), "", {"type_changed"}),
    ("a default more", _r(_A), _r(_f("a", "int", default=1)), "BF", {"default_added"}),
    ("a default less", _r(_f("a", "int", default=1)), _r(_A), "BF", {"default_removed"}),
    ("another default", _r(_f("a", "int", default=1)), _r(_f("a", "int", default=2)), "BF", {"default_changed"}),
    ("a field renamed", _r(_A), _r(_f("b", "int")), "", {"field_added", "field_removed"}),
    (
        "a field renamed, with an alias",
        _r(_A),
        _r(_f("b", "int", aliases=["a"])),
        "B",
        {"field_renamed_with_alias", "field_removed"},
    ),
    (
        "a field renamed, with an alias and a default before",
        _r(_f("a", "int", default=0)),
        _r(_f("b", "int", aliases=["a"])),
        "BF",
        {"field_renamed_with_alias", "field_removed_with_default"},
    ),
    (
        "a field renamed, with an alias and another type",
        _r(_f("a", "string", default="")),
        _r(_f("b", "int", aliases=["a"])),
        "F",
        {"field_renamed_and_changed", "field_removed_with_default"},
    ),
    (
        "a field renamed back to an alias",
        _r(_f("b", "int", aliases=["a"])),
        _r(_A),
        "F",
        {"field_renamed_from_alias", "field_added"},
    ),
    (
        "an alias for a field that is there",
        _r(_A, _f("b", "int", default=1)),
        _r(_f("a", "int", aliases=["b"])),
        "F",
        {"alias_ambiguous", "field_removed_with_default"},
    ),
    (
        "a name that is an alias",
        _r(_f("a", "int", aliases=["b"])),
        _r(_A, _f("b", "int", default=1)),
        "B",
        {"earlier_alias_ambiguous", "field_added_with_default"},
    ),
    ("a record renamed", _r(_A), _r(_A, name="S"), "", {"name_changed"}),
    ("a record renamed, with an alias", _r(_A), _r(_A, name="S", aliases=["R"]), "B", {"name_changed_with_alias"}),
    ("a record renamed to its alias", _r(_A, aliases=["S"]), _r(_A, name="S"), "F", {"name_changed_to_alias"}),
    ("a record in another namespace", _r(_A), _r(_A, namespace="n"), "BF", {"namespace_changed"}),
    (
        "a nested record",
        _r(_f("s", _r(_A, name="S"))),
        _r(_f("s", _r(_A, _f("b", "int", default=1), name="S"))),
        "BF",
        {"field_added_with_default"},
    ),
    ("a symbol more", _e("A"), _e("A", "B"), "B", {"symbol_added"}),
    (
        "a symbol more, with a default before",
        _e("A", default="A"),
        _e("A", "B", default="A"),
        "BF",
        {"symbol_added_with_default"},
    ),
    ("a symbol less", _e("A", "B"), _e("A"), "F", {"symbol_removed"}),
    (
        "a symbol less, with a default",
        _e("A", "B", default="A"),
        _e("A", default="A"),
        "BF",
        {"symbol_removed_with_default"},
    ),
    ("symbols in another order", _e("A", "B"), _e("B", "A"), "BF", set()),
    ("other symbols", _e("A", "B"), _e("A", "C"), "", {"symbol_added", "symbol_removed"}),
    ("an enum renamed", _e("A"), _e("A", name="F"), "", {"name_changed"}),
    ("a fixed of another size", _x(4), _x(8), "", {"size_changed"}),
    ("a fixed renamed", _x(4), _x(4, name="Y"), "", {"name_changed"}),
    ("a fixed renamed, with an alias", _x(4), _x(4, name="Y", aliases=["X"]), "B", {"name_changed_with_alias"}),
    ("a branch more", ["null", "int"], ["null", "int", "string"], "B", {"branch_added"}),
    ("a branch less", ["null", "int", "string"], ["null", "int"], "F", {"branch_removed"}),
    ("branches in another order", ["null", "int"], ["int", "null"], "BF", set()),
    ("a type becomes optional", "int", ["null", "int"], "B", {"branch_added"}),
    ("an optional type is always there", ["null", "int"], "int", "F", {"branch_removed"}),
    ("a branch promoted", ["null", "int"], ["null", "long"], "B", {"branch_removed_covered", "branch_added"}),
    ("a branch demoted", ["null", "long"], ["null", "int"], "F", {"branch_removed", "branch_added_covered"}),
    ("a branch that others read more", ["null", "long"], ["null", "long", "int"], "BF", {"branch_added_covered"}),
    ("a type in a union of wider ones", "int", ["long", "string"], "B", {"branch_removed_covered", "branch_added"}),
    ("string in a union of bytes", "string", ["bytes"], "BF", {"branch_removed_covered", "branch_added_covered"}),
    ("a record within a union", ["null", _r(_A)], ["null", _r(_A, _f("b", "int"))], "F", {"field_added"}),
    ("other branches", ["null", "int"], ["null", "string"], "", {"branch_removed", "branch_added"}),
    ("recursion, the same", _LIST, {**_LIST, "doc": "a list"}, "BF", set()),
    ("recursion, another type", _LIST, _r(_f("a", "string"), _f("next", ["null", "R"])), "", {"type_changed"}),
    ("recursion, promoted", _LIST, _r(_f("a", "long"), _f("next", ["null", "R"])), "B", {"type_promoted"}),
    ("a logical type more", "long", _TIME, "BF", {"logical_type_added"}),
    ("a logical type less", _TIME, "long", "BF", {"logical_type_removed"}),
    (
        "milliseconds to microseconds",
        _TIME,
        {"type": "long", "logicalType": "timestamp-micros"},
        "",
        {"logical_type_changed"},
    ),
    ("decimals of another scale", _d(6, 2), _d(6, 3), "", {"logical_type_changed"}),
    ("a decimal that cannot be is bytes", "bytes", _d(2, 3), "BF", set()),
    ("a decimal of no precision is bytes", "bytes", {**_d(2, 0), "precision": 0}, "BF", set()),
    ("decimals, the same", _d(6, 2), _d(6, 2), "BF", set()),
    (
        "a logical type that Avro does not know here",
        "string",
        {"type": "string", "logicalType": "decimal"},
        "BF",
        set(),
    ),
]
"""At least sixty."""

"""Pairs of Protobuf definitions with the verdict by the specification: B and F are the directions that are compatible.

A definition is the text behind `syntax = "proto3";`, or all of it if it begins with a syntax of its own.
"""

from typing import Final

Case = tuple[str, str, str, str, set[str]]
"""Name, earlier and later definition, compatible directions, kinds of differences."""


def _m(*fields: str) -> str:
    return f"message M {{ {' '.join(f'{field};' for field in fields)} }}"


def _2(*fields: str) -> str:
    return f'syntax = "proto2"; {_m(*fields)}'


_N: Final = "message N { int32 x = 1; }"
_P: Final = "message P { int32 x = 1; }"
_E: Final = "enum E { A = 0; B = 1; }"
_IN: Final = "message M { oneof o { int32 a = 1; int32 b = 2; } }"
_OUT: Final = _m("int32 a = 1", "int32 b = 2")

PROTOBUF_CASES: Final[list[Case]] = [
    ("the same, with a comment", _m("int32 a = 1"), f"// note\n{_m('int32 a = 1')}", "BF", set()),
    ("fields in another order", _OUT, _m("int32 b = 2", "int32 a = 1"), "BF", set()),
    ("a field more", _m("int32 a = 1"), _OUT, "BF", {"field_added"}),
    ("a field less", _OUT, _m("int32 a = 1"), "BF", {"field_removed"}),
    ("a field less, reserved", _OUT, "message M { int32 a = 1; reserved 2; }", "BF", {"field_removed"}),
    (
        "a reserved number used",
        "message M { reserved 2; int32 a = 1; }",
        _OUT,
        "",
        {"reserved_number_used", "reserved_removed"},
    ),
    (
        "a number not reserved any more",
        "message M { reserved 2; int32 a = 1; }",
        _m("int32 a = 1"),
        "BF",
        {"reserved_removed"},
    ),
    (
        "reserved as part of a range",
        "message M { reserved 2; int32 a = 1; }",
        "message M { reserved 2 to 5; int32 a = 1; }",
        "BF",
        set(),
    ),
    ("a field renamed", _m("int32 a = 1"), _m("int32 z = 1"), "BF", {"field_renamed"}),
    ("a field renumbered", _m("int32 a = 1"), _m("int32 a = 2"), "", {"field_renumbered"}),
    ("two fields exchanged", _OUT, _m("int32 b = 1", "int32 a = 2"), "", {"field_renumbered"}),
    ("int32 to int64", _m("int32 a = 1"), _m("int64 a = 1"), "BF", {"type_changed_in_group"}),
    ("int64 to int32", _m("int64 a = 1"), _m("int32 a = 1"), "BF", {"type_changed_in_group"}),
    ("int32 to uint32", _m("int32 a = 1"), _m("uint32 a = 1"), "BF", {"type_changed_in_group"}),
    ("bool to int32", _m("bool a = 1"), _m("int32 a = 1"), "BF", {"type_changed_in_group"}),
    ("int32 to sint32", _m("int32 a = 1"), _m("sint32 a = 1"), "", {"type_changed"}),
    ("sint32 to sint64", _m("sint32 a = 1"), _m("sint64 a = 1"), "BF", {"type_changed_in_group"}),
    ("fixed32 to sfixed32", _m("fixed32 a = 1"), _m("sfixed32 a = 1"), "BF", {"type_changed_in_group"}),
    ("fixed64 to sfixed64", _m("fixed64 a = 1"), _m("sfixed64 a = 1"), "BF", {"type_changed_in_group"}),
    ("fixed32 to fixed64", _m("fixed32 a = 1"), _m("fixed64 a = 1"), "", {"type_changed"}),
    ("int32 to fixed32", _m("int32 a = 1"), _m("fixed32 a = 1"), "", {"type_changed"}),
    ("float to double", _m("float a = 1"), _m("double a = 1"), "", {"type_changed"}),
    ("float to fixed32", _m("float a = 1"), _m("fixed32 a = 1"), "", {"type_changed"}),
    ("int32 to string", _m("int32 a = 1"), _m("string a = 1"), "", {"type_changed"}),
    ("int64 to double", _m("int64 a = 1"), _m("double a = 1"), "", {"type_changed"}),
    ("string to bytes", _m("string a = 1"), _m("bytes a = 1"), "B", {"string_became_bytes"}),
    ("bytes to string", _m("bytes a = 1"), _m("string a = 1"), "F", {"bytes_became_string"}),
    ("message to bytes", f"{_m('N a = 1')} {_N}", f"{_m('bytes a = 1')} {_N}", "B", {"message_became_bytes"}),
    ("bytes to message", f"{_m('bytes a = 1')} {_N}", f"{_m('N a = 1')} {_N}", "F", {"bytes_became_message"}),
    ("message to string", f"{_m('N a = 1')} {_N}", f"{_m('string a = 1')} {_N}", "", {"type_changed"}),
    ("enum to int32", f"{_m('E a = 1')} {_E}", f"{_m('int32 a = 1')} {_E}", "BF", {"type_changed_in_group"}),
    ("int64 to enum", f"{_m('int64 a = 1')} {_E}", f"{_m('E a = 1')} {_E}", "BF", {"type_changed_in_group"}),
    ("string to a list", _m("string a = 1"), _m("repeated string a = 1"), "BF", {"field_became_repeated"}),
    ("a list to string", _m("repeated string a = 1"), _m("string a = 1"), "BF", {"field_became_singular"}),
    ("message to a list", f"{_m('N a = 1')} {_N}", f"{_m('repeated N a = 1')} {_N}", "BF", {"field_became_repeated"}),
    ("number to a list", _m("int32 a = 1"), _m("repeated int32 a = 1"), "B", {"number_became_repeated"}),
    ("a list to number", _m("repeated int32 a = 1"), _m("int32 a = 1"), "F", {"number_became_singular"}),
    ("enum to a list", f"{_m('E a = 1')} {_E}", f"{_m('repeated E a = 1')} {_E}", "B", {"number_became_repeated"}),
    ("presence told", _m("int32 a = 1"), _m("optional int32 a = 1"), "BF", {"presence_changed"}),
    ("presence not told", _m("optional int32 a = 1"), _m("int32 a = 1"), "BF", {"presence_changed"}),
    (
        "a message renamed where it is used",
        f"{_m('N a = 1')} {_N} {_P}",
        f"{_m('P a = 1')} {_N} {_P}",
        "BF",
        {"message_type_renamed"},
    ),
    (
        "another message where it is used",
        f"{_m('N a = 1')} {_N} message P {{ string x = 1; }}",
        f"{_m('P a = 1')} {_N} message P {{ string x = 1; }}",
        "",
        {"message_type_renamed", "type_changed"},
    ),
    (
        "an enum renamed where it is used",
        f"{_m('E a = 1')} {_E} enum F {{ X = 0; Y = 1; }}",
        f"{_m('F a = 1')} {_E} enum F {{ X = 0; Y = 1; }}",
        "BF",
        {"enum_type_renamed", "enum_value_renamed"},
    ),
    ("a message more", _m("int32 a = 1"), f"{_m('int32 a = 1')} {_N}", "BF", {"message_added"}),
    ("a message less", f"{_m('int32 a = 1')} {_N}", _m("int32 a = 1"), "F", {"message_removed"}),
    (
        "a nested message less",
        "message M { int32 a = 1; message N {} }",
        _m("int32 a = 1"),
        "BF",
        {"nested_message_removed"},
    ),
    (
        "a nested message's field",
        "message M { message N { int32 x = 1; } N a = 1; }",
        "message M { message N { string x = 1; } N a = 1; }",
        "",
        {"type_changed"},
    ),
    (
        "the first message is another",
        f"{_m('int32 a = 1')} {_N}",
        f"{_N} {_m('int32 a = 1')}",
        "",
        {"main_message_changed"},
    ),
    ("an enum more", _m("int32 a = 1"), f"{_m('int32 a = 1')} {_E}", "BF", {"enum_added"}),
    ("an enum less", f"{_m('int32 a = 1')} {_E}", _m("int32 a = 1"), "BF", {"enum_removed"}),
    (
        "a value more",
        f"{_m('E a = 1')} {_E}",
        f"{_m('E a = 1')} enum E {{ A = 0; B = 1; C = 2; }}",
        "BF",
        {"enum_value_added"},
    ),
    ("a value less", f"{_m('E a = 1')} {_E}", f"{_m('E a = 1')} enum E {{ A = 0; }}", "BF", {"enum_value_removed"}),
    (
        "a value renamed",
        f"{_m('E a = 1')} {_E}",
        f"{_m('E a = 1')} enum E {{ A = 0; Z = 1; }}",
        "BF",
        {"enum_value_renamed"},
    ),
    (
        "a value renumbered",
        f"{_m('E a = 1')} {_E}",
        f"{_m('E a = 1')} enum E {{ A = 0; B = 2; }}",
        "",
        {"enum_value_renumbered"},
    ),
    (
        "one field into a oneof",
        _m("int32 a = 1"),
        "message M { oneof o { int32 a = 1; } }",
        "BF",
        {"field_moved_to_new_oneof"},
    ),
    (
        "one field into a oneof with a new one",
        _m("int32 a = 1"),
        _IN,
        "BF",
        {"field_moved_to_new_oneof", "field_added"},
    ),
    ("two fields into a oneof", _OUT, _IN, "F", {"field_moved_to_oneof"}),
    ("two fields out of a oneof", _IN, _OUT, "B", {"field_moved_out_of_oneof"}),
    (
        "a field into a oneof that is there",
        "message M { oneof o { int32 a = 1; } int32 b = 2; }",
        _IN,
        "F",
        {"field_moved_to_oneof"},
    ),
    ("a oneof's field less", _IN, "message M { oneof o { int32 a = 1; } }", "BF", {"field_removed"}),
    ("a oneof's field more", "message M { oneof o { int32 a = 1; } }", _IN, "BF", {"field_added"}),
    ("a oneof renamed", _IN, "message M { oneof z { int32 a = 1; int32 b = 2; } }", "BF", set()),
    (
        "a oneof of one field dissolved",
        "message M { oneof o { int32 a = 1; } }",
        _m("int32 a = 1"),
        "BF",
        set(),
    ),
    (
        "the values of a map",
        _m("map<string, int32> a = 1"),
        _m("map<string, int64> a = 1"),
        "BF",
        {"type_changed_in_group"},
    ),
    ("the keys of a map", _m("map<string, int32> a = 1"), _m("map<int32, int32> a = 1"), "", {"type_changed"}),
    ("another package", f"package a; {_m('int32 a = 1')}", f"package b; {_m('int32 a = 1')}", "", {"package_changed"}),
    ("another syntax", _2("optional int32 a = 1"), _m("optional int32 a = 1"), "BF", {"syntax_changed"}),
    (
        "required more",
        _2("optional int32 a = 1"),
        _2("optional int32 a = 1", "required int32 b = 2"),
        "F",
        {"required_field_added"},
    ),
    (
        "required less",
        _2("optional int32 a = 1", "required int32 b = 2"),
        _2("optional int32 a = 1"),
        "B",
        {"required_field_removed"},
    ),
    (
        "optional becomes required",
        _2("optional int32 a = 1"),
        _2("required int32 a = 1"),
        "F",
        {"field_became_required"},
    ),
    (
        "required becomes optional",
        _2("required int32 a = 1"),
        _2("optional int32 a = 1"),
        "B",
        {"field_became_optional"},
    ),
    (
        "a required field's closed enum has a value more",
        f"{_2('required E a = 1')} {_E}",
        f"{_2('required E a = 1')} enum E {{ A = 0; B = 1; C = 2; }}",
        "B",
        {"enum_value_added", "required_enum_extended"},
    ),
    (
        "a required field's closed enum has a value less",
        f"{_2('required E a = 1')} {_E}",
        f"{_2('required E a = 1')} enum E {{ A = 0; }}",
        "F",
        {"enum_value_removed", "required_enum_narrowed"},
    ),
    (
        "another default",
        _2("optional int32 a = 1 [default = 1]"),
        _2("optional int32 a = 1 [default = 2]"),
        "BF",
        {"default_changed"},
    ),
    (
        "recursion, another type",
        _m("M next = 1", "int32 a = 2"),
        _m("M next = 1", "string a = 2"),
        "",
        {"type_changed"},
    ),
]
"""At least sixty."""

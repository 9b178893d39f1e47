"""Changes of Protobuf files, with the judgement of Confluent's registry: does the later version read earlier data?

The judgements are those of its public table of differences.
"""

from typing import Final, NamedTuple

_EARLIER, _LATER = "home.proto", "home2.proto"


class Case(NamedTuple):
    """A file is the text behind `syntax = "proto3";`, or all of it if it begins with a syntax of its own."""

    name: str
    old: str
    new: str
    is_compatible: bool
    """By `BACKWARD`."""
    home: str = ""
    """What the earlier version imports."""
    later_home: str = ""
    """What the later version imports."""

    def imports(self) -> tuple[dict[str, str], dict[str, str]]:
        """Of the earlier version, and of the later one."""
        return {_EARLIER: self.home} if self.home else {}, {_LATER: self.later_home} if self.later_home else {}


def _m(*fields: str, name: str = "M", inside: str = "") -> str:
    return f"message {name} {{ {' '.join(f'{field};' for field in fields)} {inside} }}"


def _2(*fields: str) -> str:
    return f'syntax = "proto2"; {_m(*fields)}'


def _home(package: str, number: str = "int32", *, nested: bool = False) -> str:
    message = f"message Home {{ {number} id = 1; bool on = 2; }}"
    return f'syntax = "proto3"; package {package}; ' + (f"message outer {{ {message} }}" if nested else message)


def _using(package: str, file: str, *, nested: bool = False) -> str:
    kind = f"{package}.outer.Home" if nested else f"{package}.Home"
    return f'import "{file}"; {_m(f"{kind} a = 1")}'


_T: Final = "string a = 1"
_STATUS: Final = "message Status { string s = 1; }"
_E: Final = "enum Status { ACTIVE = 0; INACTIVE = 1; }"
_TWO: Final = _m(_T, "string b = 2")
_SHARED: Final = f"message M {{ {_T}; M.Status b = 2; message Status {{ string s = 1; }} }} {_E}"
_HOME: Final = "message Home { int32 id = 1; bool on = 2; }"

PROTOBUF_CASES: Final = [
    Case(
        "another package",
        f"package foo; {_m(_T, '.foo.M.Status b = 2', inside=_STATUS)}",
        f"package bar; {_m(_T, '.bar.M.Status b = 2', inside=_STATUS)}",
        True,
    ),
    Case("a name in full", _m(_T, "Status b = 2", inside=_STATUS), _m(_T, ".M.Status b = 2", inside=_STATUS), True),
    Case(
        "a name in full with its package",
        f"package foo; {_m(_T, 'Status b = 2', inside=_STATUS)}",
        f"package foo; {_m(_T, '.foo.M.Status b = 2', inside=_STATUS)}",
        True,
    ),
    Case("a field more", _m(_T), _TWO, True),
    Case(
        "a required field more",
        _2("optional string a = 1"),
        _2("optional string a = 1", "required string b = 2"),
        False,
    ),
    Case(
        "a nested field more",
        _m("int32 i = 1", inside=_m(_T, name="N")),
        _m("int32 i = 1", inside=_m(_T, "string b = 2", name="N")),
        True,
    ),
    Case("a field less", _TWO, _m(_T), True),
    Case(
        "a required field less",
        _2("optional string a = 1", "required string b = 2"),
        _2("optional string a = 1"),
        False,
    ),
    Case("a field with another number", _m(_T), _m("string a = 2"), True),
    Case("int32 to int64", _m(_T, "int32 b = 2"), _m(_T, "int64 b = 2"), True),
    Case("string to bytes", _TWO, _m(_T, "bytes b = 2"), True),
    Case("int32 to an enum", _m(_T, "int32 b = 2"), f"{_m(_T, 'Status b = 2')} {_E}", True),
    Case("an enum to int32", f"{_m(_T, 'Status b = 2')} {_E}", _m(_T, "int32 b = 2"), True),
    Case("int32 to a message that is named as an enum", _m(_T, "int32 b = 2"), _SHARED, False),
    Case("a message that is named as an enum to int32", _SHARED, _m(_T, "int32 b = 2"), False),
    Case(
        "a value of an enum renamed",
        f"{_m(_T, 'Status b = 2')} {_E}",
        f"{_m(_T, 'Status b = 2')} enum Status {{ ACTIVE = 0; NOT_ACTIVE = 1; }}",
        True,
    ),
    Case("a field into a new oneof", _TWO, _m(_T, inside="oneof o { string b = 2; int32 c = 3; }"), True),
    Case("two fields into a new oneof", _TWO, _m(inside="oneof o { string a = 1; string b = 2; int32 c = 3; }"), False),
    Case(
        "a oneof's field more",
        _m(inside="oneof o { string a = 1; string b = 2; }"),
        _m(inside="oneof o { string a = 1; string b = 2; int32 c = 3; }"),
        True,
    ),
    Case(
        "a oneof's field less",
        _m(inside="oneof o { string a = 1; string b = 2; int32 c = 3; }"),
        _m(inside="oneof o { string a = 1; string b = 2; }"),
        False,
    ),
    Case("int32 to a message", _m(_T, "int32 b = 2"), f"{_m(_T, 'N b = 2')} {_m('string s = 1', name='N')}", False),
    Case("int32 to string, renamed", _m(_T, "int32 i = 2"), _TWO, False),
    Case(
        "another message with the same fields",
        f"{_m(_T, 'N b = 2')} {_m('string s = 1', name='N')}",
        f"{_m(_T, 'P b = 2')} {_m('string s = 1', name='P')}",
        False,
    ),
    Case("a map of another type", _m(_T, "map<string, int32> i = 2"), _m(_T, "map<string, string> b = 2"), False),
    Case(
        "a name in full in a map",
        _m(_T, "map<string, Status> b = 2", inside=_STATUS),
        _m(_T, "map<string, M.Status> b = 2", inside=_STATUS),
        True,
    ),
    Case(
        "a message to a list",
        _m(_T, "optional Status b = 2", inside=_STATUS),
        _m(_T, "repeated Status b = 2", inside=_STATUS),
        True,
    ),
    Case("a string to a list", _m("optional string a = 1"), _m("repeated string a = 1"), True),
    Case("bytes to a list", _m("optional bytes a = 1"), _m("repeated bytes a = 1"), True),
    Case("a number to a list", _m("optional int32 a = 1"), _m("repeated int32 a = 1"), False),
    Case("a message more", _m(_T), f"{_m(_T)} {_m(_T, name='N')}", True),
    Case("a message more, before the first", _m(_T), f"{_m(_T, name='N')} {_m(_T)}", True),
    Case("messages in another order", f"{_m(_T)} {_m(_T, name='N')}", f"{_m(_T, name='N')} {_m(_T)}", True),
    Case(
        "another import, with another type",
        _using("p", _EARLIER),
        _using("p", _LATER),
        False,
        _home("p"),
        _home("p", "string"),
    ),
    Case(
        "moved into an import",
        f"{_m('Home a = 1')} {_HOME}",
        _using("p", _LATER),
        False,
        later_home=_home("p"),
    ),
    Case("moved out of an import", _using("p", _EARLIER), f"{_m('Home a = 1')} {_HOME}", True, _home("p")),
    Case("an import of another package", _using("p", _EARLIER), _using("q", _LATER), True, _home("p"), _home("q")),
    Case(
        "a nested message of an import of another package",
        _using("p", _EARLIER, nested=True),
        _using("q", _LATER, nested=True),
        True,
        _home("p", nested=True),
        _home("q", nested=True),
    ),
    Case(
        "an import of another package, with another type",
        _using("p", _EARLIER, nested=True),
        _using("q", _LATER, nested=True),
        False,
        _home("p", nested=True),
        _home("q", "string", nested=True),
    ),
]

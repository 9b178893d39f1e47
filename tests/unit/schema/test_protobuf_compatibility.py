"""Verdicts on pairs of Protobuf definitions, by a hand-written table, and against buf."""

import pytest

from danube.model.errors import PayloadInvalidError
from danube.schema.compatibility import differences
from danube.schema.differences import Direction, directions
from danube.schema.protobuf.rules import RULES
from danube.schema.validation import validator
from tests.unit.schema.compiling import protobuf
from tests.unit.schema.protobuf_cases import PROTOBUF_CASES


def judged(old: str, new: str) -> tuple[str, set[str]]:
    """Compatible directions as letters, and the kinds of differences."""
    found = differences(protobuf(old), protobuf(new))
    fitting = directions(found, RULES)
    return "".join(each.value[0].upper() for each in Direction if each in fitting), {each.kind for each in found}


def test_each_pair_of_the_table_is_judged_as_the_specification_says() -> None:
    assert len(PROTOBUF_CASES) >= 60
    wrong = [
        f"{name}: {got} and not {(verdict, kinds)}"
        for name, old, new, verdict, kinds in PROTOBUF_CASES
        if (got := judged(old, new)) != (verdict, kinds)
    ]
    assert wrong == []


def test_each_breaking_kind_has_a_remedy() -> None:
    assert [kind for kind, rule in RULES.items() if len(rule.compatible) < 2 and not rule.remedy] == []


def test_each_kind_of_difference_occurs_in_the_table() -> None:
    seen = set[str]().union(*(kinds for *_, kinds in PROTOBUF_CASES))
    seen |= {"imported_message_removed"}
    assert RULES.keys() - seen <= {"too_complex", "field_moved_between_oneofs", "required_enum_changed"}


def test_an_imported_message_that_is_gone_is_compared_where_fields_were_of_it() -> None:
    old = protobuf(
        'import "n.proto"; message M { N n = 1; }', {"n.proto": 'syntax = "proto3"; message N { int32 x = 1; }'}
    )
    for kind, fits in (("int32", True), ("string", False)):
        new = protobuf(f"message M {{ P n = 1; }} message P {{ {kind} x = 1; }}")
        found = differences(old, new)
        assert "imported_message_removed" in {each.kind for each in found}
        assert bool(directions(found, RULES)) is fits


def test_a_file_without_a_message_is_a_version_and_what_others_import() -> None:
    enum = 'syntax = "proto3"; package shop; enum Colour { NONE = 0; RED = 1; }'
    passed_on = 'syntax = "proto3"; import public "colour.proto";'
    importing = 'import "all.proto"; message Car { shop.Colour colour = 1; }'
    car = protobuf(importing, {"colour.proto": enum, "all.proto": passed_on})
    assert car.names == ("Car",)
    assert protobuf(enum).names == ()
    assert protobuf(passed_on, {"colour.proto": enum}).names == ()
    later = protobuf(enum.replace("RED = 1", "RED = 2"))
    assert [each.kind for each in differences(protobuf(enum), later)] == ["enum_value_renumbered"]
    with pytest.raises(PayloadInvalidError, match="has no message"):
        validator(protobuf(enum))


def test_imports_are_compared_with_the_definition() -> None:
    importing = 'import "p/n.proto"; message M { p.N n = 1; }'
    old = protobuf(importing, {"p/n.proto": 'syntax = "proto3"; package p; message N { int32 x = 1; }'})
    new = protobuf(importing, {"p/n.proto": 'syntax = "proto3"; package p; message N { string x = 1; }'})
    assert old.fingerprint != new.fingerprint
    assert [(each.kind, each.path) for each in differences(old, new)] == [("type_changed", "p.N.x")]

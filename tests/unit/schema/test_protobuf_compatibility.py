"""Verdicts on pairs of Protobuf definitions, by a hand-written table, and against buf."""

from danube.schema.compatibility import differences
from danube.schema.differences import Direction, directions
from danube.schema.protobuf.rules import RULES
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
    assert RULES.keys() - seen <= {"too_complex", "field_moved_between_oneofs", "required_enum_changed"}


def test_imports_are_compared_with_the_definition() -> None:
    importing = 'import "p/n.proto"; message M { p.N n = 1; }'
    old = protobuf(importing, {"p/n.proto": 'syntax = "proto3"; package p; message N { int32 x = 1; }'})
    new = protobuf(importing, {"p/n.proto": 'syntax = "proto3"; package p; message N { string x = 1; }'})
    assert old.fingerprint != new.fingerprint
    assert [(each.kind, each.path) for each in differences(old, new)] == [("type_changed", "p.N.x")]

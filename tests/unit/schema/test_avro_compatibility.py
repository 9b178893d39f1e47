"""Verdicts on pairs of Avro schemas, by a hand-written table, and against Avro's own library."""

import json
from typing import Any

import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import Schema
from avro.schema import parse as avro_parse

from danube.model.schema import SchemaType
from danube.schema.avro.rules import RULES
from danube.schema.compatibility import differences
from danube.schema.differences import Direction, directions
from danube.schema.formats import parse
from danube.schema.parsed import ParsedSchema
from tests.unit.schema.avro_cases import AVRO_CASES

STRICTER = {"logical_type_changed", "alias_ambiguous", "earlier_alias_ambiguous"}
"""Kinds that the library passes: the bytes mean other values, and other libraries read them otherwise."""


def parsed(schema: Any) -> ParsedSchema:
    return parse(SchemaType.AVRO, json.dumps(schema))


def judged(old: Any, new: Any) -> tuple[str, set[str]]:
    """Compatible directions as letters, and the kinds of differences."""
    found = differences(parsed(old), parsed(new))
    fitting = directions(found, RULES)
    return "".join(each.value[0].upper() for each in Direction if each in fitting), {each.kind for each in found}


def judged_by_library(old: Any, new: Any) -> str:
    one, two = avro_parse(json.dumps(old)), avro_parse(json.dumps(new))
    pairs = {"B": (two, one), "F": (one, two)}
    return "".join(letter for letter, (reader, writer) in pairs.items() if reads(reader, writer))


def reads(reader: Schema, writer: Schema) -> bool:
    """By Avro's library."""
    got = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)  # type: ignore[no-untyped-call]
    return got.compatibility is SchemaCompatibilityType.compatible


def test_each_pair_of_the_table_is_judged_as_the_specification_says() -> None:
    assert len(AVRO_CASES) >= 60
    wrong = [
        f"{name}: {got} and not {(verdict, kinds)}"
        for name, old, new, verdict, kinds in AVRO_CASES
        if (got := judged(old, new)) != (verdict, kinds)
    ]
    assert wrong == []


@pytest.mark.filterwarnings("ignore::avro.errors.IgnoredLogicalType")
def test_avros_library_agrees_but_for_logical_types() -> None:
    wrong = [
        f"{name}: {got} and not {verdict}"
        for name, old, new, verdict, kinds in AVRO_CASES
        if not kinds & STRICTER and (got := judged_by_library(old, new)) != verdict
    ]
    assert wrong == []


def test_each_breaking_kind_has_a_remedy() -> None:
    assert [kind for kind, rule in RULES.items() if len(rule.compatible) < 2 and not rule.remedy] == []


def test_each_kind_of_difference_occurs_in_the_table() -> None:
    seen = set[str]().union(*(kinds for *_, kinds in AVRO_CASES))
    assert RULES.keys() - seen <= {"too_complex", "name_exchanged_with_alias", "field_renamed_from_alias_and_changed"}

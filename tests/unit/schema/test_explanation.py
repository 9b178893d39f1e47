"""Explanations of changes."""

import json
from typing import Any

from danube.model.schema import CompatibilityMode, SchemaType
from danube.schema.explanation import explain, text_difference
from danube.schema.formats import parse
from danube.schema.parsed import ParsedSchema


def avro(*fields: Any) -> ParsedSchema:
    return parse(SchemaType.AVRO, json.dumps({"type": "record", "name": "R", "fields": [*fields]}))


A, B = {"name": "a", "type": "int"}, {"name": "b", "type": "string"}


def test_a_new_field_without_a_default_breaks_new_readers_alone() -> None:
    change = explain(avro(A, B), [(1, avro(A))])
    assert [finding.difference.path for finding in change.breaks_new_readers] == ["R.b"]
    assert change.breaks_old_readers == ()
    assert change.modes == (CompatibilityMode.NONE, CompatibilityMode.FORWARD, CompatibilityMode.FORWARD_TRANSITIVE)
    assert change.advice[0] == "R.b: give the field a default."
    assert "producers take the new version first" in change.advice[-1]


def test_a_compatible_change_says_that_any_order_is_safe() -> None:
    change = explain(avro(A, {**B, "default": ""}), [(1, avro(A))])
    assert change.modes == tuple(CompatibilityMode)
    assert change.advice == ("Producers and consumers may take the new version in any order.",)


def test_a_change_that_breaks_everyone_says_so() -> None:
    change = explain(avro({"name": "a", "type": "string"}), [(1, avro(A))])
    assert "No order of deployment is safe" in change.advice[-1]


def test_the_text_of_two_versions_is_compared_line_by_line() -> None:
    difference = text_difference(avro(A), avro(A, B))
    assert '+      "name": "b",' in difference.splitlines()
    assert text_difference(avro(A), avro(A)) == ""

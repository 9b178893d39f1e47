"""Judgements of Confluent's registry on public pairs, which are ours but for those that the page of schemas names."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from danube.model.schema import CompatibilityMode, JsonPolicy, SchemaType
from danube.schema.compatibility import check
from danube.schema.formats import dialect_of, parse
from danube.schema.parsed import ParsedSchema
from tests.unit.schema.compiling import protobuf
from tests.unit.schema.confluent_json_cases import JSON_CASES
from tests.unit.schema.confluent_protobuf_cases import PROTOBUF_CASES

PAGE: Final = Path(__file__).resolve().parents[3] / "docs/schemas.md"
JSON_OTHERWISE: Final = {"another one is required", "oneOf to allOf"}
PROTOBUF_OTHERWISE: Final = {
    "another package",
    "a required field less",
    "a field with another number",
    "a oneof's field less",
    "a number to a list",
    "a message more, before the first",
    "messages in another order",
}


def of_draft_7(schema: Any) -> ParsedSchema:
    return parse(SchemaType.JSON_SCHEMA, json.dumps(schema), dialect=dialect_of(as_confluent=True))


def reads(old: ParsedSchema, new: ParsedSchema) -> bool:
    return check(CompatibilityMode.BACKWARD, new, [(1, old)], json_policy=JsonPolicy.STRICT).is_compatible


def test_json_schemas_are_judged_as_confluent_judges_them() -> None:
    assert len(JSON_CASES) >= 120
    otherwise = {name for name, old, new, fits in JSON_CASES if reads(of_draft_7(old), of_draft_7(new)) is not fits}
    assert otherwise == JSON_OTHERWISE


def test_protobuf_files_are_judged_as_confluent_judges_them() -> None:
    assert len(PROTOBUF_CASES) >= 38
    otherwise = set()
    for case in PROTOBUF_CASES:
        before, after = case.imports()
        if reads(protobuf(case.old, before), protobuf(case.new, after)) is not case.is_compatible:
            otherwise.add(case.name)
    assert otherwise == PROTOBUF_OTHERWISE


@pytest.mark.parametrize("name", sorted(JSON_OTHERWISE | PROTOBUF_OTHERWISE))
def test_each_judgement_that_differs_is_on_the_page_with_its_reason(name: str) -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |")]
    assert len(rows) == 1
    assert rows[0][2].strip() != rows[0][3].strip()
    assert rows[0][4].strip()

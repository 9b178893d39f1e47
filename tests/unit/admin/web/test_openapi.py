"""The description of the API: valid, complete, true, and unchanged where nobody meant to change it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no stubs
import pytest

from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.web.openapi import openapi
from danube.admin.web.pages.catalog import api_method, api_path
from danube.admin.web.statuses import STATUSES
from tests.unit.admin.golden_json import check_golden, golden_json
from tests.unit.admin.web.site import BEARER, Site

SNAPSHOT = Path(__file__).parents[3] / "snapshots" / "web" / "openapi.json"
KEPT = ("list_topics", "create_topic", "delete_topic", "approve_plan")
"""Described in full in the snapshot: one of each kind. New operations do not touch it."""
SHAPE = {
    "type": "object",
    "required": ["openapi", "info", "paths", "components"],
    "additionalProperties": False,
    "properties": {
        "openapi": {"const": "3.1.0"},
        "jsonSchemaDialect": {"type": "string"},
        "info": {"type": "object", "required": ["title", "version"]},
        "servers": {"type": "array", "items": {"type": "object", "required": ["url"]}},
        "security": {"type": "array", "items": {"type": "object"}},
        "tags": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        "components": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                each: {"type": "object", "propertyNames": {"pattern": "^[a-zA-Z0-9._-]+$"}}
                for each in ("schemas", "responses", "securitySchemes")
            },
        },
        "paths": {
            "type": "object",
            "propertyNames": {"pattern": "^/"},
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"get": {"$ref": "#/$defs/operation"}, "post": {"$ref": "#/$defs/operation"}},
            },
        },
    },
    "$defs": {
        "operation": {
            "type": "object",
            "required": ["operationId", "summary", "description", "responses", "tags"],
            "patternProperties": {"^x-": {"type": "string"}},
            "additionalProperties": False,
            "properties": {
                "operationId": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "summary": {"type": "string"},
                "description": {"type": "string"},
                "parameters": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name", "in", "schema", "description", "required"],
                        "properties": {"in": {"const": "query"}, "required": {"type": "boolean"}},
                    },
                },
                "requestBody": {"type": "object", "required": ["content"]},
                "responses": {
                    "type": "object",
                    "required": ["200"],
                    "propertyNames": {"pattern": "^[1-5][0-9]{2}$"},
                    "additionalProperties": {
                        "anyOf": [{"required": ["$ref"]}, {"required": ["description", "content"]}],
                    },
                },
            },
        }
    },
}
"""Of OpenAPI 3.1 what this description uses."""


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(openapi()))
    return made


def test_the_description_has_the_shape_of_openapi_3_1(described: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(SHAPE)
    jsonschema.Draft202012Validator(SHAPE).validate(described)


def test_every_schema_in_it_is_a_json_schema(described: dict[str, Any]) -> None:
    for schema in schemas_in(described):
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_in_it_leads_somewhere(described: dict[str, Any]) -> None:
    references = {value for key, value in items_in(described) if key == "$ref"}
    assert references
    for reference in references:
        found = described
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_every_operation_is_described_with_every_error(described: dict[str, Any]) -> None:
    statuses = {"200", *map(str, STATUSES.values())}
    for operation in REGISTRY:
        entry = described["paths"][api_path(operation)][api_method(operation).lower()]
        assert (entry["operationId"], entry["x-effect"]) == (operation.name, operation.effect)
        assert set(entry["responses"]) == statuses
    assert len(described["paths"]) == len(REGISTRY)


@pytest.mark.parametrize("operation", REGISTRY, ids=lambda each: each.name)
def test_the_examples_fit_the_description(operation: AnyOperation, described: dict[str, Any]) -> None:
    entry = described["paths"][api_path(operation)][api_method(operation).lower()]
    for example in operation.examples:
        if "requestBody" in entry:
            check(described, entry["requestBody"]["content"]["application/json"]["schema"], example.arguments)
        else:
            schemas = {each["name"]: each["schema"] for each in entry["parameters"]}
            for name, value in example.arguments.items():
                check(described, schemas[name], value)


@pytest.mark.parametrize("operation", REGISTRY, ids=lambda each: each.name)
async def test_what_the_server_answers_fits_the_description(
    operation: AnyOperation, full: Site, described: dict[str, Any]
) -> None:
    arguments = operation.examples[0].arguments
    if api_method(operation) == "GET":
        answer = await full.client.get(api_path(operation), params=arguments, headers=BEARER)
    else:
        answer = await full.api(f"/{'/'.join(operation.words)}", arguments)
    response = described["paths"][api_path(operation)][api_method(operation).lower()]["responses"][
        str(answer.status_code)
    ]
    while "$ref" in response:
        response = described["components"]["responses"][response["$ref"].rsplit("/", 1)[-1]]
    check(described, response["content"]["application/json"]["schema"], answer.json())


async def test_it_is_served_to_who_may(full: Site) -> None:
    assert (await full.get("/openapi.json")).status_code == 401
    answer = await full.client.get("/openapi.json", headers=BEARER)
    assert answer.json()["info"]["title"] == "danube-admin"


def test_the_description_of_one_operation_of_each_kind_is_the_one_that_was_agreed(described: dict[str, Any]) -> None:
    entries = [(path, method, entry) for path, each in described["paths"].items() for method, entry in each.items()]
    kept = {f"{method} {path}": entry for path, method, entry in entries if entry["operationId"] in KEPT}
    check_golden(SNAPSHOT, f"{golden_json(dict(sorted(kept.items())))}\n")


def check(described: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    """Raise unless the value fits the schema, whose references lead into the description."""
    jsonschema.Draft202012Validator({**schema, "components": described["components"]}).validate(value)


def schemas_in(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from described["components"]["schemas"].values()
    for key, value in items_in(described["paths"]):
        if key == "schema":
            yield value


def items_in(value: object) -> Iterator[tuple[str, Any]]:
    """Every key with its value, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from items_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from items_in(inner)

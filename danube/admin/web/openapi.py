"""The OpenAPI 3.1 description of the API, made from the operations: parameters, results, errors, examples. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from danube import __version__
from danube.admin.operations import REGISTRY
from danube.admin.operations.fields import FieldKind
from danube.admin.operations.operation import AnyOperation
from danube.admin.web.pages.catalog import api_method, api_path
from danube.admin.web.pages.forms import fields_of, params_schema
from danube.admin.web.statuses import NEXT_STEPS, STATUSES

_REFERENCE = "#/components/schemas/{model}"
_PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "Why a call did not do what was asked.",
    "required": ["error", "code"],
    "additionalProperties": False,
    "properties": {
        "error": {"type": "string", "description": "A sentence with what went wrong."},
        "code": {"type": "string", "description": "Stable across releases: what scripts compare."},
        "next": {"type": "string", "description": "What to do next."},
    },
}
_ABOUT = (
    "Every operation of danube-admin. What reads is a GET with query parameters; the rest is a POST with a JSON object."
    " An operation whose effect is `move` or `destroy` answers a plan, and changes nothing, until it is called again"
    " with the same parameters and the `plan_id` of that plan."
)


def openapi(registry: Sequence[AnyOperation] = REGISTRY) -> dict[str, Any]:
    """The whole description, as JSON values."""
    nouns = dict.fromkeys(operation.words[0] for operation in registry)
    return {
        "openapi": "3.1.0",
        "info": {"title": "danube-admin", "version": __version__, "description": _ABOUT},
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "tags": [{"name": noun} for noun in nouns],
        "paths": {api_path(operation): {api_method(operation).lower(): _entry(operation)} for operation in registry},
        "components": {
            "schemas": _schemas(registry),
            "responses": _problems(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the server; a server that only reads and only on loopback takes none.",
                }
            },
        },
    }


def _entry(operation: AnyOperation) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.words[0]],
        "summary": operation.summary,
        "description": _description(operation),
        "x-effect": operation.effect.value,
        "x-access": operation.level.value,
        "responses": {"200": _result(operation)} | _problem_references(),
    }
    if api_method(operation) == "GET":
        return entry | {"parameters": [_parameter(operation, name) for name in operation.params.model_fields]}
    body = {"application/json": {"schema": _body(operation), "examples": _examples(operation)}}
    return entry | {"requestBody": {"required": True, "content": body}}


def _description(operation: AnyOperation) -> str:
    parts = [operation.description, f"Needs access level `{operation.level}`."]
    if operation.is_planned:
        parts.append("Without `plan_id` it answers a plan and changes nothing; with it the plan is applied, once.")
    if operation.needs_person:
        parts.append("A person's consent: always 403 here, and a form on the page of the same path.")
    return " ".join(part for part in parts if part)


def _parameter(operation: AnyOperation, name: str) -> dict[str, Any]:
    field = next(each for each in fields_of(operation) if each.name == name)
    schema = dict(_flat(operation)["properties"][name])
    description = schema.pop("description", "")
    parameter = {
        "name": name,
        "in": "query",
        "required": field.is_required,
        "description": description,
        "schema": schema,
    }
    values = [example.arguments[name] for example in operation.examples if name in example.arguments]
    if values:
        parameter["example"] = values[0]
    if field.kind is FieldKind.LIST:
        parameter |= {"style": "form", "explode": True}
    return parameter


def _body(operation: AnyOperation) -> dict[str, Any]:
    if not operation.is_planned:
        return _flat(operation)
    schema = _flat(operation)
    plan_id = {"type": "string", "description": "Apply this plan; without it a plan is made."}
    return {**schema, "properties": {**schema.get("properties", {}), "plan_id": plan_id}}


def _flat(operation: AnyOperation) -> dict[str, Any]:
    """The parameters' schema; what it defines beside it stands among the components."""
    schema = params_schema(operation.params, _REFERENCE)
    return {key: value for key, value in schema.items() if key != "$defs"}


def _examples(operation: AnyOperation) -> dict[str, Any]:
    return {
        f"example_{number}": {"summary": example.title, "value": example.arguments}
        for number, example in enumerate(operation.examples, 1)
    }


def _result(operation: AnyOperation) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(model=operation.result.__name__)}
    return {"description": "What was asked for.", "content": {"application/json": {"schema": schema}}}


def _schemas(registry: Sequence[AnyOperation]) -> dict[str, Any]:
    results = [(model, "serialization") for model in dict.fromkeys(operation.result for operation in registry)]
    _, defined = models_json_schema(results, ref_template=_REFERENCE)  # type: ignore[arg-type]
    found: dict[str, Any] = dict(defined.get("$defs", {}))
    for operation in registry:
        for name, schema in params_schema(operation.params, _REFERENCE).get("$defs", {}).items():
            found.setdefault(name, schema)
    return {name: found[name] for name in sorted(found)} | {"Problem": _PROBLEM}


def _problems() -> dict[str, Any]:
    codes: dict[int, list[str]] = {}
    for kind, status in STATUSES.items():
        step = f" Next: {NEXT_STEPS[kind]}." if kind in NEXT_STEPS else ""
        codes.setdefault(status, []).append(f"`{kind.code}`: {(kind.__doc__ or '').splitlines()[0]}{step}")
    content: Mapping[str, Any] = {"application/json": {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
    return {
        f"Problem{status}": {"description": "\n".join(lines), "content": content}
        for status, lines in sorted(codes.items())
    }


def _problem_references() -> dict[str, Any]:
    return {
        str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in sorted(set(STATUSES.values()))
    }

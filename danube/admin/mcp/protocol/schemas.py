"""JSON schemas of tools, in few bytes: an assistant reads all of them before its first call. Pure.

References are written out, titles dropped, and a null that may be left out is left out of parameters, since some hosts
know neither `$ref` nor `anyOf`.
"""

from enum import Enum
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

Schema = dict[str, Any]

_DROPPED = frozenset({"title", "$defs", "maxLength", "minLength", "default", "const"})
_PLAN_ID: Schema = {
    "type": "string",
    "description": "Apply this plan, answered to the same arguments.",
}


class Detail(Enum):
    """Detail of the schemas of answers, from much to little."""

    WORDS = "words"
    """The descriptions that tell values."""
    TYPES = "types"
    """Fields and their types alone."""
    OUTLINE = "outline"
    """Fields of the answer itself, and not of the rows and objects in it."""
    OBJECT = "object"
    """That it is an object."""


def input_schema(params: type[BaseModel], *, is_planned: bool) -> Schema:
    """The arguments of a tool."""
    whole = _whole(params, "validation")
    properties = {name: _argument(each, whole) for name, each in whole.get("properties", {}).items()}
    if is_planned:
        properties["plan_id"] = _PLAN_ID
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required := whole.get("required"):
        schema["required"] = required
    return schema


def output_schema(result: type[BaseModel], described: set[tuple[str, str]], detail: Detail = Detail.WORDS) -> Schema:
    """The schema of a tool's answer; every field is always there.

    What is in `described` (a field and its text; an object or a choice by its name) was given with an earlier tool and
    is not given again: `described` grows.
    """
    if detail is Detail.OBJECT:
        return {"type": "object"}
    whole = _whole(result, "serialization")
    schema = _answer(whole, whole, described, "")
    if detail is Detail.WORDS:
        return schema
    outline = detail is Detail.OUTLINE
    return {**schema, "properties": {name: _plain(each, outline) for name, each in schema["properties"].items()}}


@cache
def _whole(model: type[BaseModel], mode: JsonSchemaMode) -> Schema:
    """As pydantic writes it, which takes it some milliseconds; nobody changes it."""
    return model.model_json_schema(mode=mode)


def _plain(part: Schema, outline: bool) -> Schema:  # noqa: FBT001 - of this module alone
    """Without descriptions, and as an outline without what is inside."""
    kept = {key: value for key, value in part.items() if key in {"type", "enum"}}
    if outline:
        return {"type": part["type"]} if "type" in part else {}
    if "items" in part:
        kept["items"] = _plain(part["items"], outline)
    if "properties" in part:
        kept["properties"] = {name: _plain(each, outline) for name, each in part["properties"].items()}
    return kept


def _argument(part: Schema, whole: Schema) -> Schema:
    part = _resolved(part, whole)
    choices = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if len(choices) == 1:
        own_words = {"description": part["description"]} if "description" in part else {}
        part = {**part, **_argument(choices[0], whole), **own_words}
        part.pop("anyOf")
    kept = {key: value for key, value in part.items() if key not in _DROPPED}
    if part.get("default") is not None:
        kept["default"] = part["default"]
    if isinstance(items := kept.get("items"), dict):
        kept["items"] = _argument(items, whole)
    return kept


def _answer(part: Schema, whole: Schema, described: set[tuple[str, str]], field: str) -> Schema:
    own_text, reference = part.get("description"), ("$ref", part.get("$ref", ""))
    is_known = reference in described
    if reference[1]:
        described.add(reference)
    part = _resolved(part, whole)
    part = _one_of_types({**part, "anyOf": [_resolved(each, whole) for each in part.get("anyOf", ())]})
    kept: Schema = {key: part[key] for key in ("type", "enum", "additionalProperties") if key in part}
    if is_known:
        kept.pop("enum", None)
    if own_text and field and _tells_values(own_text) and (field, own_text) not in described:
        described.add((field, own_text))
        kept["description"] = own_text
    if isinstance(items := part.get("items"), dict):
        kept["items"] = _answer(items, whole, described, "")
    properties = part.get("properties")
    if properties and not is_known:
        kept["properties"] = {name: _answer(each, whole, described, name) for name, each in properties.items()}
    return kept


def _tells_values(text: str) -> bool:
    """True if a description of an answer says what its values mean; the others repeat the name."""
    return any(word in text for word in ("`", "null", "empty", "seconds"))


def _one_of_types(part: Schema) -> Schema:
    """A choice between plain types and null as one list of types."""
    choices = part.pop("anyOf")
    if not choices:
        return part
    plain = [each["type"] for each in choices if isinstance(each.get("type"), str)]
    if len(plain) != len(choices):
        return part
    merged: Schema = {**part}
    for each in choices:
        merged.update({key: value for key, value in each.items() if key != "type"})
    if "enum" in merged:
        merged["enum"] = [*merged["enum"], None]
    return {**merged, "type": plain}


def _resolved(part: Schema, whole: Schema) -> Schema:
    """A reference with what it refers to; words beside it win."""
    reference = part.get("$ref")
    if not isinstance(reference, str):
        return part
    target: Schema = whole["$defs"][reference.removeprefix("#/$defs/")]
    own = {key: value for key, value in part.items() if key != "$ref"}
    return _resolved({**target, **own}, whole)

"""Random pairs of JSON Schemas, and documents for them, from one source of chance."""

import json
from random import Random
from typing import Any

from danube.schema.json_schema.atoms import Conjunction, atoms
from danube.schema.json_schema.document import JsonDocument

NAMES = ("a", "b", "ab", "c")
SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, 2, 3, 4, 6, -1, 1.5, 2.0, "", "a", "ab", "b", "abc", "x")
PATTERNS = ("^a", "b$", "^x")
OTHER_WORDS = {"oneOf": "anyOf", "anyOf": "oneOf", "exclusiveMinimum": "minimum"}
"""Keywords that are exchanged with each other now and then."""
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def random_pair(chance: Random) -> tuple[Any, Any]:
    """Earlier and later schema: the second is the first with a few changes."""
    old = {**_object(random_schema(chance, 3)), "$defs": {"d": random_schema(chance, 1)}}
    new = json.loads(json.dumps(old))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        change(chance, chance.choice(_parts(new)))
    return old, new


def random_schema(chance: Random, depth: int) -> Any:
    """Any schema, of so many levels at most."""
    kind = chance.random()
    if kind < 0.05:
        return chance.choice((True, False, {}))
    if kind < 0.1:
        return {"$ref": "#/$defs/d"}
    if kind < 0.2:
        return {"enum": chance.sample(SCALARS, chance.randint(1, 4))}
    if depth > 0 and kind < 0.45:
        return _combined(chance, depth - 1)
    return _typed(chance, depth)


def _combined(chance: Random, depth: int) -> dict[str, Any]:
    def schema() -> Any:
        return random_schema(chance, depth)

    key = chance.choice(("anyOf", "anyOf", "oneOf", "allOf", "not", "if"))
    if key == "not":
        return {"not": schema()}
    if key == "if":
        return {"if": schema(), "then": schema(), "else": schema()}
    return {
        key: [schema() for _ in range(chance.randint(1, 3))],
        **(_typed(chance, 0) if chance.random() < 0.2 else {}),
    }


def _typed(chance: Random, depth: int) -> dict[str, Any]:
    word = chance.choice(TYPES if depth else TYPES[:5])
    found: dict[str, Any] = {"type": word} if chance.random() < 0.9 else {}
    if chance.random() < 0.1:
        found["type"] = [word, chance.choice([other for other in TYPES if other != word])]
    for _ in range(chance.randint(0, 2)):
        _add_keyword(chance, found, word, depth)
    if word == "object" and depth:
        properties = {name: random_schema(chance, depth - 1) for name in chance.sample(NAMES, chance.randint(0, 3))}
        found |= {"properties": properties}
        if chance.random() < 0.4:
            found["required"] = chance.sample(NAMES, chance.randint(1, 2))
        if chance.random() < 0.5:
            found["additionalProperties"] = chance.choice((False, False, random_schema(chance, 0)))
    return found


def _add_keyword(chance: Random, found: dict[str, Any], word: str, depth: int) -> None:
    def schema() -> Any:
        return random_schema(chance, depth - 1) if depth > 0 else {"type": chance.choice(TYPES[:5])}

    number = chance.choice((0, 1, 2, 3, 1.5))
    divisor = chance.choice((1, 2, 3, 0.5))
    choices: dict[str, list[tuple[str, Any]]] = {
        "number": [("minimum", number), ("exclusiveMinimum", number), ("maximum", number), ("multipleOf", divisor)],
        "string": [("minLength", int(number)), ("maxLength", int(number)), ("pattern", chance.choice(PATTERNS))],
        "array": [
            ("items", schema()), ("prefixItems", [schema() for _ in range(chance.randint(1, 2))]),
            ("minItems", int(number)), ("maxItems", int(number)), ("uniqueItems", True), ("contains", schema()),
            ("minContains", int(number)),
        ],
        "object": [
            ("patternProperties", {chance.choice(PATTERNS): schema()}), ("propertyNames", {"maxLength": int(number)}),
            ("minProperties", int(number)), ("maxProperties", int(number)),
            ("dependentRequired", {chance.choice(NAMES): [chance.choice(NAMES)]}),
            ("dependentSchemas", {chance.choice(NAMES): schema()}), ("unevaluatedProperties", False),
        ],
    }  # fmt: skip
    choices["integer"] = choices["number"]
    found.update(chance.sample(choices.get(word, []), min(1, len(choices.get(word, [])))))


def change(chance: Random, part: dict[str, Any]) -> None:
    """Change one schema in place."""
    kind = chance.random()
    keys = [key for key in part if key != "$defs"]
    said_otherwise = [key for key in OTHER_WORDS if key in part]
    if kind < 0.15 and said_otherwise:
        key = chance.choice(said_otherwise)
        part.setdefault(OTHER_WORDS[key], part.pop(key))
        if key == "exclusiveMinimum" and chance.random() < 0.7:
            part["minimum"] += 1
    elif kind < 0.25 and keys:
        del part[chance.choice(keys)]
    elif kind < 0.5:
        word = part.get("type") if isinstance(part.get("type"), str) else chance.choice(TYPES)
        _add_keyword(chance, part, str(word), 1)
    elif kind < 0.75 and isinstance(part.get("properties"), dict):
        _change_property(chance, part)
    elif kind < 0.85 and any(isinstance(part.get(key), list) for key in ("anyOf", "oneOf", "allOf", "enum")):
        key = next(key for key in ("anyOf", "oneOf", "allOf", "enum") if isinstance(part.get(key), list))
        one = chance.choice(SCALARS) if key == "enum" else random_schema(chance, 1)
        if chance.random() < 0.5:
            part[key].insert(chance.randint(0, len(part[key])), one)
        elif len(part[key]) > 1:
            part[key].pop(chance.randrange(len(part[key])))
        else:
            part[key] = [one]
    else:
        defs = part.get("$defs")
        part.clear()
        part |= _object(random_schema(chance, 2)) | ({"$defs": defs} if defs else {})
    if "enum" in part:
        part["enum"] = [each for at, each in enumerate(part["enum"]) if repr(each) not in map(repr, part["enum"][:at])]


def _change_property(chance: Random, part: dict[str, Any]) -> None:
    name = chance.choice(NAMES)
    required = {*part.get("required", [])}
    kind = chance.random()
    if kind < 0.3:
        part["properties"].pop(name, None)
        required.discard(name)
    elif kind < 0.6:
        default = chance.choice(("x", "ab"))
        part["properties"][name] = chance.choice(({"type": "string", "default": default}, random_schema(chance, 1)))
    if chance.random() < 0.5:
        required ^= {name}
    part["required"] = sorted(required)


def _object(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {} if schema else {"not": {}}


def _parts(schema: Any) -> list[dict[str, Any]]:
    """All schemas that are objects."""
    found, todo = [], [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, list):
            todo.extend(one)
        elif isinstance(one, dict):
            found.append(one)
            for key, value in one.items():
                if key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
                    todo.extend(value.values())
                elif key not in ("enum", "default", "required", "dependentRequired", "type", "const"):
                    todo.append(value)
    return found


def random_document(chance: Random, schema: Any, defs: Any, depth: int = 3) -> Any:  # noqa: PLR0911 - many forms
    """A document that often follows the schema."""
    if not isinstance(schema, dict) or depth < 0 or chance.random() < 0.1:
        return _anything(chance, 2)
    if "$ref" in schema:
        return random_document(chance, defs, defs, depth - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key) and chance.random() < 0.9:
            return random_document(chance, chance.choice(schema[key]), defs, depth - 1)
    if "if" in schema and chance.random() < 0.8:
        return random_document(chance, schema.get(chance.choice(("if", "then", "else")), {}), defs, depth - 1)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    word = schema.get("type", chance.choice(TYPES))
    word = chance.choice(word) if isinstance(word, list) else word
    if word == "object":
        names = {
            *schema.get("required", ()),
            *chance.sample(NAMES, chance.randint(0, 2)),
            *chance.sample(("xy", "zz"), chance.choice((0, 0, 1))),
        }
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        return {name: random_document(chance, properties.get(name, others), defs, depth - 1) for name in sorted(names)}
    if word == "array":
        prefix = schema.get("prefixItems", [])
        count = chance.choice((0, 1, 2, len(prefix), schema.get("minItems", 0)))
        rest = schema.get("items", schema.get("contains", True))
        return [
            random_document(chance, prefix[at] if at < len(prefix) else rest, defs, depth - 1) for at in range(count)
        ]
    fitting = {
        "null": (None,),
        "boolean": (True, False),
        "integer": (0, 1, 2, 3, 4, 6, -1, 2.0),
        "string": ("", "a", "ab", "b", "abc", "x"),
    }
    return chance.choice(fitting.get(word, (0, 1, 2, 3, 1.5, 0.5, 2.5, -1, 6)))


def _anything(chance: Random, depth: int) -> Any:
    kind = chance.random()
    if depth and kind < 0.25:
        return {name: _anything(chance, depth - 1) for name in chance.sample((*NAMES, "xy"), chance.randint(0, 3))}
    if depth and kind < 0.4:
        return [_anything(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return chance.choice(SCALARS)


def filled_in(document: JsonDocument, conjunction: Conjunction, value: Any) -> Any:
    """Document as a reader sees it who fills in the defaults of what is required and absent."""
    found = atoms(document, conjunction)
    if len(found) != 1:
        return value
    atom = found[0]
    if isinstance(value, list) and "items" in atom:
        beyond = len(atom.get("prefixItems", []))
        return [filled_in(document, (atom["items"],), each) if at >= beyond else each for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties = atom.get("properties", {})
    result = {
        name: filled_in(document, (properties[name],), each) if name in properties else each
        for name, each in value.items()
    }
    for name in atom.get("required", []):
        schema = properties.get(name)
        while isinstance(schema, dict) and name not in result:
            if "default" in schema:
                result[name] = schema["default"]
            schema = document.references.target(schema)
    return result

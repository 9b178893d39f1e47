"""Random pairs of Avro schemas, and values for them, from one source of chance."""

import json
from random import Random
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMES = ("a", "b", "c")
SYMBOLS = ("A", "B", "C")


class Names:
    """Names of types, each used once in a definition."""

    def __init__(self) -> None:
        self._used = 0

    def next(self, prefix: str) -> str:
        self._used += 1
        return f"{prefix}{self._used}"


def random_pair(chance: Random) -> tuple[Any, Any]:
    """Earlier and later schema: the second is the first with a few changes."""
    names = Names()
    old = random_type(chance, names, 3)
    new = json.loads(json.dumps(old))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        new = changed(chance, names, new)
    return old, new


def random_type(chance: Random, names: Names, depth: int) -> Any:
    """Any type, of so many levels at most."""
    kind = chance.random()
    if depth == 0 or kind < 0.25:
        return chance.choice(PRIMITIVES)
    if kind < 0.35:
        return _enumeration(chance, names)
    if kind < 0.4:
        return {"type": "fixed", "name": names.next("F"), "size": chance.randint(1, 3)}
    if kind < 0.5:
        return {"type": "array", "items": random_type(chance, names, depth - 1)}
    if kind < 0.55:
        return {"type": "map", "values": random_type(chance, names, depth - 1)}
    if kind < 0.7:
        return chance.sample(PRIMITIVES, chance.randint(1, 3))
    fields = [_field(chance, names, name, depth) for name in chance.sample(NAMES, chance.randint(0, 3))]
    return {"type": "record", "name": names.next("R"), "fields": fields}


def _enumeration(chance: Random, names: Names) -> dict[str, Any]:
    symbols = chance.sample(SYMBOLS, chance.randint(1, 3))
    found: dict[str, Any] = {"type": "enum", "name": names.next("E"), "symbols": symbols}
    return found | ({"default": symbols[0]} if chance.random() < 0.4 else {})


def _field(chance: Random, names: Names, name: str, depth: int) -> dict[str, Any]:
    kind = chance.random()
    if kind < 0.2:
        return {"name": name, "type": "int", "default": 7}
    if kind < 0.3:
        return {"name": name, "type": ["null", "string"], "default": None}
    if kind < 0.35:
        return {"name": name, "type": "string", "default": "x"}
    return {"name": name, "type": random_type(chance, names, depth - 1)}


def changed(chance: Random, names: Names, avro_type: Any) -> Any:  # noqa: PLR0911 - one for each type
    """The type with one change somewhere."""
    kind = chance.random()
    if isinstance(avro_type, str):
        return chance.choice((*PRIMITIVES, [avro_type, "null"] if avro_type != "null" else ["null"], "long", "double"))
    if isinstance(avro_type, list):
        others = [each for each in PRIMITIVES if each not in avro_type]
        if kind < 0.4:
            return [*avro_type, chance.choice(others)]
        return (
            chance.choice(avro_type)
            if len(avro_type) == 1 or kind < 0.6
            else chance.sample(avro_type, len(avro_type) - 1)
        )
    word = avro_type["type"]
    if kind < 0.05:
        return random_type(chance, names, 2)
    if kind < 0.15 and "name" in avro_type:
        former = avro_type["name"]
        return {**avro_type, "name": names.next("N"), **({"aliases": [former]} if chance.random() < 0.6 else {})}
    if word in ("array", "map"):
        key = "items" if word == "array" else "values"
        return {**avro_type, key: changed(chance, names, avro_type[key])}
    if word == "enum":
        return {**_enumeration(chance, names), "name": avro_type["name"]}
    if word == "fixed":
        return {**avro_type, "size": chance.randint(1, 3)}
    return {**avro_type, "fields": _changed_fields(chance, names, avro_type["fields"])}


def _changed_fields(chance: Random, names: Names, fields: list[Any]) -> list[Any]:
    kind = chance.random()
    free = [name for name in NAMES if name not in [field["name"] for field in fields]]
    if free and (kind < 0.3 or not fields):
        return [*fields, _field(chance, names, chance.choice(free), 2)]
    if not fields:
        return fields
    at = chance.randrange(len(fields))
    rest = [*fields[:at], *fields[at + 1 :]]
    if kind < 0.5:
        return rest
    if kind < 0.7 and free:
        field = fields[at]
        alias = {"aliases": [field["name"]]} if chance.random() < 0.7 else {}
        return [*rest, {**field, "name": chance.choice(free), **alias}]
    field = {key: value for key, value in fields[at].items() if key != "default"}
    return [*rest, {**field, "type": changed(chance, names, field["type"])}]


def random_value(chance: Random, avro_type: Any) -> Any:
    """A value of the type."""
    if isinstance(avro_type, list):
        branch = chance.choice(avro_type)
        return random_value(chance, branch)
    if isinstance(avro_type, str):
        values: dict[str, tuple[Any, ...]] = {
            "null": (None,), "boolean": (True, False), "int": (0, -1, 2**31 - 1), "long": (0, -5, 2**40),
            "float": (0.0, 1.5), "double": (0.0, -2.25), "bytes": (b"", b"ab"), "string": ("", "ab", "ä"),
        }  # fmt: skip
        return chance.choice(values[avro_type])
    match avro_type["type"]:
        case "array":
            return [random_value(chance, avro_type["items"]) for _ in range(chance.randint(0, 2))]
        case "map":
            return {
                name: random_value(chance, avro_type["values"]) for name in chance.sample(NAMES, chance.randint(0, 2))
            }
        case "enum":
            return chance.choice(avro_type["symbols"])
        case "fixed":
            return bytes(chance.randrange(256) for _ in range(avro_type["size"]))
        case _:
            return {field["name"]: random_value(chance, field["type"]) for field in avro_type["fields"]}

"""Bounds of the work that a JSON Schema asks for, found before the first payload.

Parts of a schema that are applied to the same value multiply: twenty levels of `allOf` with the same reference twice
ask for a million checks of one value. A schema that refers to itself from two branches doubles the work with each
level of the payload. So the applications of the worst value at each depth are counted, and the depth is bounded.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from danube.model.errors import SchemaInvalidError
from danube.model.limits.schema import (
    SCHEMA_APPLICATIONS_MAX,
    SCHEMA_INLINE_STEPS_MAX,
    SCHEMA_PATTERN_BYTES_MAX,
    SCHEMA_PAYLOAD_DEPTH_MAX,
    SCHEMA_PAYLOAD_DEPTH_MIN,
)
from danube.schema.extra import library
from danube.schema.json_schema.keywords import DIALECT_7, Schema, below, in_place
from danube.schema.json_schema.references import References

# Steps of ten nanoseconds, at the worst that was measured.
_BYTE: Final = 4
_VALUE: Final = 20
_NUMBER_LISTED: Final = 140
_BOUND: Final = 20
_DIVISOR: Final = 400
_FRACTION: Final = 3_500
_UNIQUE: Final = 10
_MATCH: Final = 50
_STATE_BYTES: Final = 80
"""Bytes of a compiled pattern that take one step for each byte of a text: it looks at all its states."""
_BACKTRACKING: Final = 3_500
"""Steps for each byte of a text of a pattern with look-around or back-references, and as many more as bytes follow."""
_SIZES: Final = [SCHEMA_PATTERN_BYTES_MAX >> shift for shift in range(12, -1, -1)]
_PROPERTY: Final = re.compile(r"(properties/.*|items/\d+|prefixItems/\d+)")


class ApplicationCost:
    """Counts, for one definition, the applications of its parts to one value."""

    def __init__(self, references: References, dialect: str) -> None:
        self._references = references
        self._dialect = dialect
        self._in_place: dict[int, list[Schema]] = {}
        self._below: dict[int, list[tuple[str, Schema]]] = {}

    def payload_depth_max(self, root: Schema) -> int:
        """Deepest payload whose values are each checked SCHEMA_APPLICATIONS_MAX times at most.

        Raises SchemaInvalidError for a schema that applies itself to the same value for ever, or too often.
        """
        for depth, applied in enumerate(self._by_depth(root, SCHEMA_APPLICATIONS_MAX + 1, lambda _: 1)):
            if applied > SCHEMA_APPLICATIONS_MAX:
                if depth <= SCHEMA_PAYLOAD_DEPTH_MIN:
                    raise SchemaInvalidError(
                        f"it checks a value at depth {depth} more than {SCHEMA_APPLICATIONS_MAX} times: refer to the "
                        "same schema from fewer branches",
                        "#",
                    )
                return depth - 1
        return SCHEMA_PAYLOAD_DEPTH_MAX

    def check_cost(self, root: Schema, depth_max: int) -> "CheckCost":
        """Cost of a payload of so many levels, for each of its values and bytes."""

        def worst(own: Weight, names: Weight = lambda _: 0) -> int:
            return max(islice(self._by_depth(root, SCHEMA_INLINE_STEPS_MAX, own, names), depth_max + 1))

        return CheckCost(
            per_value=_VALUE + worst(_steps, lambda schema: _MATCH * len(_names(schema))),
            # a name is matched for its schemas, and again to know whether it is an additional one
            per_byte=_BYTE + worst(_pattern_steps, lambda schema: 2 * sum(map(pattern_steps, _names(schema)))),
            per_level=worst(lambda schema: _UNIQUE * bool(schema.get("uniqueItems"))),
        )

    def _by_depth(self, root: Schema, bound: int, own: "Weight", names: "Weight" = lambda _: 0) -> Iterator[int]:
        """Cost of a value at the worst place of each depth: `own` of the value, and `names` of its own name."""
        order = self._order(root)
        here = {id(schema): own(schema) for schema in order}
        for depth in range(SCHEMA_PAYLOAD_DEPTH_MAX + 1):
            counts: dict[int, int] = {}
            for schema in order:
                in_place_too = sum(counts[id(each)] for each in self._in_place[id(schema)])
                counts[id(schema)] = min(here[id(schema)] + in_place_too, bound)
            yield counts.get(id(root), 0)
            for schema in order:
                here[id(schema)] = _worst(self._below[id(schema)], counts) + (0 if depth else names(schema))

    def _order(self, root: Schema) -> list[dict[str, Any]]:
        """Schemas that are reached, each after those that it applies to the same value."""
        order: list[dict[str, Any]] = []
        state: dict[int, bool] = {}
        roots = [root]
        while roots:
            todo: list[tuple[Schema, bool]] = [(roots.pop(), False)]
            while todo:
                schema, done = todo.pop()
                key = id(schema)
                if not isinstance(schema, dict):
                    continue
                if done:
                    state[key] = True
                    order.append(schema)
                elif key not in state:
                    state[key] = False
                    self._read(schema)
                    todo.append((schema, True))
                    todo.extend((each, False) for each in self._in_place[key])
                    roots.extend(each for _, each in self._below[key])
                elif not state[key]:
                    raise SchemaInvalidError(
                        "it refers to itself for the same value, without an end: cut the loop", "#"
                    )
        return order

    def _read(self, schema: dict[str, object]) -> None:
        target = self._references.target(schema)
        alone = target is not None and self._dialect == DIALECT_7
        held = [] if alone else [each for _, each in in_place(schema)]
        self._in_place[id(schema)] = [each for each in (*held, target) if isinstance(each, dict)]
        self._below[id(schema)] = [] if alone else [(at, each) for at, each in below(schema) if isinstance(each, dict)]


Weight = Callable[[dict[str, Any]], int]
"""Steps that a schema asks for by itself."""


@dataclass(frozen=True, slots=True)
class CheckCost:
    """Most steps of a check, by the values and the bytes of its payload."""

    per_value: int
    per_byte: int
    per_level: int
    """For each value, and each list that it is in."""

    def steps(self, payload: bytes) -> int:
        """Of a whole payload."""
        lists, size = payload.count(b"["), len(payload)
        values = 1 + lists + payload.count(b",") + payload.count(b"{")
        per_byte = self.per_byte if self.per_byte < _BACKTRACKING else self.per_byte + size
        return values * (self.per_value + self.per_level * min(lists, SCHEMA_PAYLOAD_DEPTH_MAX)) + size * per_byte


def _steps(schema: dict[str, Any]) -> int:
    """Of one value with one part of a schema, beside its bytes; listed texts are looked up at once."""
    listed, divisor = schema.get("enum", ()), schema.get("multipleOf")
    others = 0 if all(isinstance(each, str) for each in listed) else _parts([*listed])
    asked = sum(len(schema.get(key, ())) for key in ("dependencies", "dependentRequired", "dependentSchemas"))
    bounds = sum(key in schema for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))
    steps = 1 + others + (_parts(schema["const"]) if "const" in schema else 0) + 2 * asked + _BOUND * bounds
    if divisor is not None:
        steps += _DIVISOR if isinstance(divisor, int) else _FRACTION
    return steps + _MATCH * ("pattern" in schema) + len(_names(schema))


def _names(schema: dict[str, Any]) -> dict[str, Any]:
    return schema.get("patternProperties", {})  # type: ignore[no-any-return]


def _pattern_steps(schema: dict[str, Any]) -> int:
    return pattern_steps(schema["pattern"]) if "pattern" in schema else 0


@lru_cache(1024)
def pattern_steps(pattern: str) -> int:
    """Most steps for each byte of a text, by the size that the library compiles the pattern to."""
    rust = library("jsonschema_rs", "JSON Schema")

    def compiles(options: object) -> bool:
        try:
            rust.Draft202012Validator({"pattern": pattern}, pattern_options=options)
        except (rust.ValidationError, ValueError):
            return False
        return True

    if not compiles(rust.RegexOptions(size_limit=SCHEMA_PATTERN_BYTES_MAX)):
        return _BACKTRACKING
    return 1 + next(size for size in _SIZES if compiles(rust.RegexOptions(size_limit=size))) // _STATE_BYTES


def _parts(value: object) -> int:
    """Steps of a comparison with a value."""
    steps, todo = 0, [value]
    while todo:
        one = todo.pop()
        steps += _NUMBER_LISTED if isinstance(one, int | float) else _VALUE
        todo.extend(one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
    return steps


def _worst(parts: Iterable[tuple[str, Schema]], before: dict[int, int]) -> int:
    """Applications to one part of the value: one property or item at a time, and all that covers any of them."""
    one, all_of_them = 0, 0
    for place, schema in parts:
        if _PROPERTY.fullmatch(place):
            one = max(one, before[id(schema)])
        else:
            all_of_them += before[id(schema)]
    return one + all_of_them

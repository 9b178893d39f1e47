"""Bounds of the work that a JSON Schema asks for, found before the first payload.

Parts of a schema that are applied to the same value multiply: twenty levels of `allOf` with the same reference twice
ask for a million checks of one value. A schema that refers to itself from two branches doubles the work with each
level of the payload. So the applications of the worst value at each depth are counted, and the depth is bounded.
"""

import re
from collections.abc import Iterable
from typing import Final

from danube.model.errors import SchemaInvalidError
from danube.model.limits.schema import (
    SCHEMA_APPLICATIONS_MAX,
    SCHEMA_PAYLOAD_DEPTH_MAX,
    SCHEMA_PAYLOAD_DEPTH_MIN,
    SCHEMA_STEPS_MAX,
)
from danube.schema.json_schema.keywords import DIALECT_7, Schema, below, in_place
from danube.schema.json_schema.references import References

_PATTERN_STEPS: Final = 10
"""Of a regular expression, beside the comparison of two plain values."""
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
        order = self._order(root)
        own = {id(schema): 1 for schema in order}
        counts = dict.fromkeys(own, 0)
        for depth in range(SCHEMA_PAYLOAD_DEPTH_MAX + 1):
            counts = self._one_deeper(order, counts, own if depth == 0 else None, SCHEMA_APPLICATIONS_MAX + 1)
            if counts.get(id(root), 0) > SCHEMA_APPLICATIONS_MAX:
                if depth <= SCHEMA_PAYLOAD_DEPTH_MIN:
                    raise SchemaInvalidError(
                        f"it checks a value at depth {depth} more than {SCHEMA_APPLICATIONS_MAX} times: refer to the "
                        "same schema from fewer branches",
                        "#",
                    )
                return depth - 1
        return SCHEMA_PAYLOAD_DEPTH_MAX

    def steps_max(self, root: Schema, depth_max: int) -> int:
        """Most comparisons that one value of a payload of so many levels may need."""
        order = self._order(root)
        own = {id(schema): _steps(schema) for schema in order}
        counts, most = dict.fromkeys(own, 0), 1
        for depth in range(depth_max + 1):
            counts = self._one_deeper(order, counts, own if depth == 0 else None, SCHEMA_STEPS_MAX)
            most = max(most, counts.get(id(root), 0))
        return most

    def _one_deeper(
        self, order: list[Schema], before: dict[int, int], own: dict[int, int] | None, bound: int
    ) -> dict[int, int]:
        """Costs at the worst place one level further below each schema; with `own` those of the value itself."""
        counts: dict[int, int] = {}
        for schema in order:
            here = own[id(schema)] if own is not None else _worst(self._below[id(schema)], before)
            counts[id(schema)] = min(here + sum(counts[id(each)] for each in self._in_place[id(schema)]), bound)
        return counts

    def _order(self, root: Schema) -> list[Schema]:
        """Schemas that are reached, each after those that it applies to the same value."""
        order: list[Schema] = []
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


def _steps(schema: Schema) -> int:
    """Comparisons of one value with one part of a schema; listed texts are looked up at once."""
    if not isinstance(schema, dict):
        return 1
    patterns = len(schema.get("patternProperties", ())) + ("pattern" in schema)
    listed = schema.get("enum", ())
    others = 0 if all(isinstance(each, str) for each in listed) else _parts(listed)
    return 1 + _PATTERN_STEPS * patterns + others + _parts(schema.get("const"))


def _parts(value: object) -> int:
    """Values within a value."""
    count, todo = 0, [value]
    while todo:
        one = todo.pop()
        count += 1
        todo.extend(one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
    return count


def _worst(parts: Iterable[tuple[str, Schema]], before: dict[int, int]) -> int:
    """Applications to one part of the value: one property or item at a time, and all that covers any of them."""
    one, all_of_them = 0, 0
    for place, schema in parts:
        if _PROPERTY.fullmatch(place):
            one = max(one, before[id(schema)])
        else:
            all_of_them += before[id(schema)]
    return one + all_of_them

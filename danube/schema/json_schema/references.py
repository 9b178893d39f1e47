"""References between JSON Schemas, resolved once. Nothing is ever fetched: a target is in the definition, or given."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from danube.model.errors import SchemaInvalidError
from danube.model.limits.schema import SCHEMA_NODES_MAX
from danube.schema.json_schema.keywords import DIALECT_7, DIALECTS, DYNAMIC, Schema, below, definitions, in_place

BASE: Final = "https://schema.invalid/"
"""Address of a definition without an `$id`: under a domain that never exists."""


class References:
    """Index of one definition and of those that it refers to."""

    def __init__(self, root: Schema, dialect: str, given: Mapping[str, Schema]) -> None:
        self._dialect = dialect
        self._given = given
        self._resources: dict[str, Schema] = {}
        self._anchors: dict[tuple[str, str], Schema] = {}
        self._bases: dict[int, str] = {}
        self._targets: dict[int, Schema] = {}
        self.used: dict[str, Schema] = {}
        """Given definitions that are referred to, by their addresses."""
        self._index(root, BASE, "#")
        self._resources.setdefault(BASE, root)
        self._resolve_all(root)

    def target(self, schema: Schema) -> Schema | None:
        """Schema that `$ref` of this one means; None without one."""
        return self._targets.get(id(schema))

    @property
    def are_none(self) -> bool:
        """True if the definition refers to nothing, so that equal parts mean the same."""
        return not self._targets

    def _index(self, schema: Schema, base: str, path: str) -> None:
        todo = [(schema, base, path)]
        while todo:
            schema, base, path = todo.pop()
            if not isinstance(schema, dict) or id(schema) in self._bases:
                continue
            if len(self._bases) >= SCHEMA_NODES_MAX:
                raise SchemaInvalidError(f"it has more than {SCHEMA_NODES_MAX} parts: split it", path)
            base = self._named(schema, base)
            self._bases[id(schema)] = base
            todo.extend((each, base, f"{path}/{place}") for place, each in _all_below(schema))

    def _named(self, schema: dict[str, Any], base: str) -> str:
        """Register `$id` and anchors; the base of what is below."""
        name = schema.get("$id")
        if isinstance(name, str) and not (self._dialect == DIALECT_7 and "$ref" in schema):
            address, fragment = urldefrag(urljoin(base, name))
            if fragment:
                self._anchors[address or base, fragment] = schema
            if not name.startswith("#"):
                base = address
                self._resources.setdefault(base, schema)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(keyword), str):
                self._anchors[base, anchor] = schema
        return base

    def _resolve_all(self, root: Schema) -> None:
        todo: list[tuple[Schema, str]] = [(root, "#")]
        seen: set[int] = set()
        while todo:
            schema, path = todo.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            for keyword in ("$ref", *DYNAMIC):
                if isinstance(name := schema.get(keyword), str):
                    target = self._find(name, self._bases[id(schema)], f"{path}/{keyword}")
                    self._targets[id(schema)] = target
                    todo.append((target, f"{path}/{keyword}"))
            todo.extend((each, f"{path}/{place}") for place, each in _all_below(schema))

    def _find(self, name: str, base: str, path: str) -> Schema:
        address, fragment = urldefrag(urljoin(base, name))
        if address not in self._resources:
            self._bring(address, urldefrag(name).url, path)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            if (address, fragment) not in self._anchors:
                raise SchemaInvalidError(f"there is no anchor {fragment!r} for this reference: correct it", path)
            return self._anchors[address, fragment]
        found: Any = self._resources[address]
        for part in fragment.split("/")[1:]:
            found = _step(found, part.replace("~1", "/").replace("~0", "~"))
        if not isinstance(found, bool | dict):
            raise SchemaInvalidError(f"there is no schema at {name!r}: correct the reference", path)
        self._index(found, address, path)
        return found

    def _bring(self, address: str, name: str, path: str) -> None:
        """Index a given definition under its address."""
        key = next((key for key in (name, address, address.removeprefix(BASE)) if key in self._given), None)
        if key is None:
            hint = "the meta-schema cannot be referred to" if address in DIALECTS else "register it, and refer to it"
            raise SchemaInvalidError(f"{name!r} is in no reference of this schema, and is never fetched: {hint}", path)
        schema = self._given[key]
        self._resources[address] = self.used[address] = schema
        self._index(schema, address, path)


def _all_below(schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield from in_place(schema)
    yield from below(schema)
    yield from definitions(schema)


def _step(found: Any, part: str) -> Any:  # noqa: ANN401 - parts of JSON
    if isinstance(found, dict):
        return found.get(part)
    if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
        return found[int(part)]
    return None

"""Paths of operations, and links from a result to other operations. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from danube.admin.operations import REGISTRY
from danube.admin.operations.fields import FieldSpec
from danube.admin.operations.operation import AnyOperation
from danube.admin.web.pages.forms import field_texts, fields_of
from danube.model.plans.plan import Effect

API_PREFIX = "/api/v1"
_CREATES = "create"
"""The verb of operations whose name must not be there yet: nothing leads to them from what is there."""


@dataclass(frozen=True, slots=True)
class Link:
    """An operation with some of its parameters, as a person follows it."""

    operation: AnyOperation
    url: str
    text: str
    """Purpose, in a few words."""


@dataclass(frozen=True, slots=True)
class Group:
    """The operations of one noun."""

    noun: str
    operations: tuple[AnyOperation, ...]

    @property
    def title(self) -> str:
        return self.noun.capitalize()

    @property
    def home(self) -> AnyOperation:
        """The operation shown first: a listing, else what can be read without parameters, else the first."""
        free = [each for each in self.operations if each.effect is Effect.READ and not required_of(each)]
        return next((each for each in free if each.listing), (*free, *self.operations)[0])


def page_path(operation: AnyOperation) -> str:
    """The page of an operation."""
    return "/" + "/".join(operation.words)


def api_path(operation: AnyOperation) -> str:
    """The same in the API."""
    return API_PREFIX + page_path(operation)


def page_url(operation: AnyOperation, arguments: Mapping[str, Any]) -> str:
    """The page of an operation with these arguments filled in."""
    query = urlencode(field_texts(arguments))
    return f"{page_path(operation)}?{query}" if query else page_path(operation)


def api_method(operation: AnyOperation) -> str:
    """GET for what only reads, POST for the rest."""
    return "GET" if operation.effect is Effect.READ else "POST"


def groups(registry: Sequence[AnyOperation] = REGISTRY) -> tuple[Group, ...]:
    """The operations by noun, in the order of the registry."""
    found: dict[str, list[AnyOperation]] = {}
    for operation in registry:
        found.setdefault(operation.words[0], []).append(operation)
    return tuple(Group(noun, tuple(operations)) for noun, operations in found.items())


def required_of(operation: AnyOperation) -> tuple[FieldSpec, ...]:
    """The parameters that it cannot do without."""
    return tuple(field for field in fields_of(operation) if field.is_required)


def completed_by(operation: AnyOperation) -> Mapping[str, str]:
    """Its parameters that name something of the cluster: kind to parameter."""
    return {field.completes: field.name for field in reversed(fields_of(operation)) if field.completes}


@cache
def kinds() -> frozenset[str]:
    """Everything that parameters name: `topic`, `namespace`, ..."""
    return frozenset(kind for operation in REGISTRY for kind in completed_by(operation))


def kind_of_rows(field: str) -> str | None:
    """The kind of the rows in a result's field: `topics` and `topic_states` are of the kind `topic`."""
    return next((kind for kind in sorted(kinds()) if field in {kind, f"{kind}s"} or field.startswith(f"{kind}_")), None)


def known_from(operation: AnyOperation, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Names that a call is about, by their kinds."""
    return {
        kind: str(arguments[name]) for kind, name in completed_by(operation).items() if arguments.get(name) is not None
    }


def links_from(known: Mapping[str, str], kind: str, *, but: AnyOperation | None = None) -> tuple[Link, ...]:
    """Links for the `kind` that is known: operations that take it and need nothing that is not known."""
    found = [
        Link(operation, page_url(operation, _prefilled(operation, known)), english(operation))
        for operation in REGISTRY
        if operation is not but and not operation.words[-1].startswith(_CREATES) and _takes(operation, kind, known)
    ]
    return tuple(sorted(found, key=lambda link: link.operation.effect is not Effect.READ))


def main_link(known: Mapping[str, str], kind: str) -> Link | None:
    """The link of a name in a table: the first operation that shows it and takes nothing else."""
    shows = [link for link in links_from(known, kind) if link.operation.effect is Effect.READ]
    own = [link for link in shows if link.operation.words[0] == f"{kind}s"]
    return next(iter(own or shows), None)


def english(operation: AnyOperation) -> str:
    """An operation as a heading or a link: `Skip messages`."""
    return operation.name.replace("_", " ").capitalize().replace(" api ", " API ")


def _takes(operation: AnyOperation, kind: str, known: Mapping[str, str]) -> bool:
    by_kind = completed_by(operation)
    named = {by_kind[each] for each in known if each in by_kind}
    return kind in by_kind and all(field.name in named for field in required_of(operation))


def _prefilled(operation: AnyOperation, known: Mapping[str, str]) -> dict[str, str]:
    by_kind = completed_by(operation)
    needed = {field.name for field in required_of(operation)}
    given = {name: known[kind] for kind, name in by_kind.items() if kind in known}
    return {name: value for name, value in given.items() if name in needed} or given

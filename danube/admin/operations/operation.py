"""An operation: declared once, shown on every face.

The parameters and the result are pydantic models. Their field descriptions become CLI help, form labels, tool schemas
and OpenAPI text; the effect decides what guards it; the examples are run on every face by `tests/faces`. A declaration
that lacks something is refused when the module is imported.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from danube.admin.access import LEVEL_OF, AccessLevel
from danube.admin.gateway import AdminGateway
from danube.admin.operations.fields import PageParams, Params, Result, ShownOnce, marks, row_type
from danube.admin.operations.paging import Key, page_of
from danube.model.errors import InvalidRequestError
from danube.model.plans.plan import Caller, Effect, Plan
from danube.runtime.clock import Clock

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Result)

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Tells how far long work is: done, total if it is known, and a word on what is being done."""


DEFAULT_TOOLSET = "default"
"""The 32 tools that an assistant has when nothing is said; a test names them."""


async def say_nothing(done: float, total: float | None, message: str) -> None:
    """A report that nobody hears."""
    del done, total, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The surroundings of one call: cluster, clock, caller, progress."""

    gateway: AdminGateway
    clock: Clock
    caller: Caller
    report: Report = say_nothing


@dataclass(frozen=True, slots=True)
class Example:
    """One call that works on a freshly seeded broker (`tests/faces/seeded.py`)."""

    title: str
    arguments: dict[str, Any] = field(default_factory=dict)
    """Parameters by name, as JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The rows of a result, which come in pages: `run` answers all of them, in any order."""

    rows: str
    """Field of the result that holds them."""
    name: str
    """Field of a row that names it."""
    by: Callable[[Any], Key] | None = None
    """The key of a row, where its name is none: rows are sorted by it, and the next page begins after it."""
    fill: Callable[[Call, Any, list[Any]], Awaitable[dict[str, Any]]] | None = None
    """Reads what is costly for the rows of one page: fields of the result in their place."""
    is_report: bool = False
    """True of a listing in a report, which cuts its page by itself (`page_of`): programs get more than the rows."""

    def key(self, row: object) -> Key:
        """The place of a row."""
        return self.by(row) if self.by is not None else (getattr(row, self.name),)

    async def page(self, call: Call, params: PageParams, result: R) -> R:
        """The result with the page that was asked for."""
        rows = getattr(result, self.rows)
        page, cursor = page_of(rows, self.key, params.limit, params.cursor)
        filled = await self.fill(call, params, page) if self.fill is not None else {}
        return result.model_copy(update={"total": len(rows), "next_cursor": cursor, self.rows: page, **filled})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation(Generic[P, R]):
    """One thing that an administrator can do. There is one object of each, so that it can be a key."""

    name: str
    """In snake case: the name of the MCP tool."""
    words: tuple[str, ...]
    """On the command line: noun and verb."""
    summary: str
    """One line, a sentence."""
    description: str = ""
    """What a caller must know beyond the summary: when to use it, what to call next."""
    effect: Effect
    params: type[P]
    result: type[R]
    run: Callable[[Call, P], Awaitable[R]] | None = None
    """What it does; None for an operation that is planned: the plan acts."""
    follow: Callable[[Call, Plan, float], Awaitable[Any]] | None = None
    """Follows what an applied plan began, for so many seconds at most, and tells how far it has come."""
    examples: tuple[Example, ...]
    done: str = ""
    """What a person is told once it is done, with fields of the result in braces: "Topic created: {topic}"."""
    positional: tuple[str, ...] = ()
    """Parameters that are arguments on the command line, not options."""
    pages: Listing | None = None
    rows: str = ""
    """Field of the result that holds its rows, where that is no listing: what `-o csv` shows."""
    toolset: str = DEFAULT_TOOLSET
    """The group of tools that it is in; an assistant has the default one, and others when its server is told."""
    is_tool: bool = True
    """Whether an assistant may have it."""
    needs_person: bool = False
    """Whether it gives a person's consent: never a tool, and on the command line only in a terminal."""
    access: AccessLevel | None = None
    """Its level, where that is another than its effect's."""
    loses: Callable[[Any], bool] | None = None
    """True for parameters with which messages or rights are lost for good, where its effect alone does not say."""
    is_idempotent: bool = False
    """Whether calling it twice does the same as once, as is so of whatever only reads."""

    def __post_init__(self) -> None:
        """Refuse what no face could show."""
        if self.effect is Effect.READ:
            object.__setattr__(self, "is_idempotent", True)
        if problems := _problems(self):
            raise TypeError(f"operation {self.name!r}: {'; '.join(problems)}")

    @property
    def listing(self) -> Listing | None:
        """Its rows, where they are all of its answer."""
        return None if self.pages is None or self.pages.is_report else self.pages

    async def answer(self, call: Call, params: P) -> R:
        """Run it. Raises DanubeError; InvalidRequestError of one that acts by a plan."""
        if self.run is None:
            raise InvalidRequestError(f"{self.name} acts by a plan alone")
        result = await self.run(call, params)
        if self.listing is None or not isinstance(params, PageParams):
            return result
        return await self.listing.page(call, params, result)

    @property
    def level(self) -> AccessLevel:
        return self.access or LEVEL_OF[self.effect]

    def effect_of(self, params: Params) -> Effect:
        """Effect of one call."""
        return Effect.DESTROY if self.loses is not None and self.loses(params) else self.effect

    def level_of(self, params: Params) -> AccessLevel:
        """Level of one call."""
        return AccessLevel.DESTROY if self.effect_of(params) is Effect.DESTROY else self.level

    @property
    def is_planned(self) -> bool:
        return self.effect.is_planned and not self.needs_person

    @property
    def is_secret(self) -> bool:
        """True if its answer holds a secret that is shown once."""
        return bool(marks(self.result, ShownOnce))

    @property
    def command(self) -> str:
        return " ".join(self.words)


AnyOperation = Operation[Any, Any]


def _problems(operation: AnyOperation) -> list[str]:
    found = []
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", operation.name):
        found.append("its name is not in snake case")
    if not operation.words or not operation.summary.endswith("."):
        found.append("it needs words and a summary that is a sentence")
    if not operation.examples:
        found.append("it has no example")
    if operation.is_planned != (operation.run is None):
        found.append("an operation either moves or destroys by a plan, or has a `run`")
    if operation.needs_person and operation.is_tool:
        found.append("a person's consent is no tool")
    if operation.rows and row_type(operation.result, operation.rows) is None:
        found.append(f"{operation.rows} holds no rows")
    found += [f"{name} is no parameter" for name in operation.positional if name not in operation.params.model_fields]
    found += _undescribed(operation.params) + _undescribed(operation.result)
    for example in operation.examples:
        operation.params.model_validate(example.arguments)
    return found


def _undescribed(model: type[BaseModel]) -> list[str]:
    return [
        f"{model.__name__}.{name} has no description"
        for name, info in model.model_fields.items()
        if not info.description
    ]

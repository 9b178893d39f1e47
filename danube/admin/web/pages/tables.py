"""A result as a page draws it: facts, tables whose names are links, bars behind what grows, colour for what is wrong.

Pure. What comes from the cluster is text only; a colour or a link never depends on markup in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from danube.admin.operations.cluster.balance_portraits import portrait_of
from danube.admin.operations.fields import IfKnown, Result, marks
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.portrait import PortraitCell, PortraitTable
from danube.admin.present import Table, View, heading
from danube.admin.web.pages.catalog import Link, kind_of_rows, known_from, links_from, main_link
from danube.report.tones import class_of

_TONED = ("status", "verdict", "outcome", "state", "cause")
"""How fields end whose words are coloured."""
_BARS = ("lag", "load", "backlog")
"""How fields begin that are drawn as a bar against the largest of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One value of a table."""

    text: str
    url: str = ""
    tone: str = ""
    is_number: bool = False
    percent: int | None = None
    """Of the largest in the column, for a bar."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and what can be done with what it names."""

    cells: tuple[Cell, ...]
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of a page."""

    title: str
    columns: tuple[tuple[str, bool], ...]
    """Headings, and whether what is below them are numbers."""
    rows: tuple[Row, ...]

    @property
    def has_links(self) -> bool:
        return any(row.links for row in self.rows)


@dataclass(frozen=True, slots=True)
class Fact:
    """One value beside its name."""

    label: str
    text: str
    tone: str = ""


def facts_of(result: Result, view: View) -> tuple[Fact, ...]:
    """The single values of a result, without those that few results have and this one has not."""
    toned = {heading(type(result), name): _class_in(name, getattr(result, name)) for name in type(result).model_fields}
    rare = {heading(type(result), name) for name in marks(type(result), IfKnown)}
    return tuple(
        Fact(title, text, toned.get(title, "")) for title, text in view.facts if text != "-" or title not in rare
    )


def grids_of(operation: AnyOperation, arguments: Mapping[str, Any], result: Result, view: View) -> tuple[Grid, ...]:
    """The tables of a result."""
    if portrait := portrait_of(result, wide=True):
        return tuple(portrait_grid(table) for table in portrait.tables)
    fields = {heading(type(result), name): name for name in type(result).model_fields}
    known = known_from(operation, arguments)
    return tuple(_grid(operation, known, fields[table.title], result, table) for table in view.tables)


def portrait_grid(table: PortraitTable) -> Grid:
    """A table of a result that has a portrait: shares are drawn as bars."""
    numbers = tuple(_is_number_text(column, table.rows, at) for at, column in enumerate(table.columns))
    rows = tuple(Row(tuple(map(_portrait_cell, row, table.columns, numbers))) for row in table.rows)
    return Grid(table.title, tuple(zip(table.columns, numbers, strict=True)), rows)


def _portrait_cell(cell: PortraitCell, column: str, is_number: bool) -> Cell:  # noqa: FBT001 - mapped over columns
    if isinstance(cell, str):
        return Cell(text=cell, tone=_class_in(column.lower(), cell), is_number=is_number)
    return Cell(text=cell.text, percent=None if cell.share is None else round(100 * cell.share), is_number=is_number)


def _is_number_text(column: str, rows: Sequence[Sequence[PortraitCell]], at: int) -> bool:
    texts = [cell for row in rows if isinstance(cell := row[at], str)]
    return (
        bool(texts)
        and column not in {"Broker", "From", "To"}
        and not column.endswith(" ID")
        and all(text == "-" or text[:1].isdigit() for text in texts)
    )


def _class_in(name: str, value: object) -> str:
    """The class of a field's value; nothing for a field that says nothing of how things stand."""
    return class_of(value) if name.endswith(_TONED) else ""


def _grid(operation: AnyOperation, known: Mapping[str, str], field: str, result: Result, table: Table) -> Grid:
    rows: Sequence[Any] = getattr(result, field)
    if not rows or not isinstance(rows[0], BaseModel):
        plain = tuple(Row(tuple(Cell(text=text) for text in texts)) for texts in table.rows)
        return Grid(table.title, tuple((column, False) for column in table.columns), plain)
    by_label = {heading(type(rows[0]), name): name for name in type(rows[0]).model_fields}
    names = [by_label[column] for column in table.columns]
    bars = {name: _largest(rows, name) for name in names if name.startswith(_BARS)}
    kind = kind_of_rows(field)
    key = _key(operation, field, kind, names) if kind else None
    drawn = []
    for row, texts in zip(rows, table.rows, strict=True):
        here = {**known, kind: str(getattr(row, key))} if kind and key else {}
        link = main_link(here, kind) if kind and key else None
        cells = tuple(
            _cell(name, getattr(row, name), text, bars, link.url if link and name == key else "")
            for name, text in zip(names, texts, strict=True)
        )
        is_small = operation.listing is None or link is None  # a page of names has its actions one click further
        drawn.append(Row(cells, _acts(here, kind, link) if kind and key and is_small else ()))
    headings = tuple((column, _is_number_column(rows, by_label[column])) for column in table.columns)
    return Grid(table.title, headings, tuple(drawn))


def _acts(known: Mapping[str, str], kind: str, but: Link | None) -> tuple[Link, ...]:
    return tuple(link for link in links_from(known, kind) if but is None or link.operation is not but.operation)


def _cell(name: str, value: object, text: str, bars: Mapping[str, float], url: str) -> Cell:
    is_number = _is_number(value) and not name.endswith("_ms")  # a moment is no amount
    percent = None
    if name in bars and isinstance(value, int | float) and bars[name] > 0:
        percent = max(1 if value else 0, round(100 * value / bars[name]))
    return Cell(text=text, url=url, tone=_class_in(name, value), is_number=is_number, percent=percent)


def _key(operation: AnyOperation, field: str, kind: str | None, columns: Sequence[str]) -> str | None:
    if operation.listing is not None and operation.listing.rows == field:
        return operation.listing.name
    return next((name for name in ("name", f"{kind}_id", str(kind)) if name in columns), None)


def _largest(rows: Sequence[Any], name: str) -> float:
    values = [getattr(row, name) for row in rows]
    return max((value for value in values if _is_number(value)), default=0)


def _is_number_column(rows: Sequence[Any], name: str) -> bool:
    values = [getattr(row, name) for row in rows if getattr(row, name) is not None]
    return bool(values) and not name.endswith("_ms") and all(map(_is_number, values))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""Results as people read them: facts, tables and sentences, the same on the command line, in the TUI and on the web.

What comes from a cluster is text that strangers chose. `printable` shows its control characters instead of obeying
them, on every face; markup is each face's own matter and is switched off there.
"""

import re
import unicodedata
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from danube.admin.bars import drawn_bar
from danube.admin.broker_names import named
from danube.admin.operations import BY_NAME
from danube.admin.operations.cluster.balance_portraits import portrait_of
from danube.admin.operations.fields import Completes, Detail, IfKnown, Params, Result, ToolName, Wide, marks, row_type
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlannedResult, PlanView
from danube.admin.operations.portrait import Portrait, PortraitCell
from danube.model.plans.plan import canonical
from danube.model.text import number_text, size_text, span_text, time_of

_TOOLS = re.compile(rf"(?<![\w/.-])({'|'.join(name for name in BY_NAME if '_' in name)})(?![\w/-])")
BAR_CELLS = 8
"""Of a bar in a table."""
UNKNOWN = "-"
"""What is shown of a null and of what is empty: not known, or not there."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; every cell is printable."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    details: tuple[str, ...] = ()
    """A sentence for each row; none where rows have none."""


@dataclass(frozen=True, slots=True)
class View:
    """A result, ready to be drawn."""

    facts: tuple[tuple[str, str], ...] = ()
    """Labels and values."""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences below."""


def view_of(
    operation: AnyOperation, result: Result, *, wide: bool = False, bars: bool = True, tools: bool = False
) -> View:
    """The result of an operation as a view; a narrow one leaves the wide fields out, `bars` draws shares as bars.

    With `tools`, operations go by the names of their tools.
    """
    if isinstance(result, PlannedResult):
        return plan_view_of(result.plan, notes=(result.next_step,), bars=bars)
    if isinstance(result, PlanView):
        return plan_view_of(result, bars=bars)
    if portrait := portrait_of(result, wide=wide):
        view = portrait_view(portrait, bars=bars)
        return view if tools else View(view.facts, view.tables, tuple(map(as_commands, view.notes)))
    listed = operation.listing.rows if operation.listing else None
    facts, tables = [], []
    for name, value in _shown_fields(result, wide=wide):
        if name in {"total", "next_cursor"} and listed:
            continue
        if name == listed or (value and isinstance(value, list) and row_type(type(result), name) is not None):
            tables.append(
                _table(heading(type(result), name), value, row_type(type(result), name), wide=wide, tools=tools)
            )
        else:
            facts.append((heading(type(result), name), _told(result, name)))
    notes = _page_notes(result) if listed else _done_notes(operation, result)
    return View(tuple(facts), tuple(tables), (*notes, *map(printable, result.remarks())))


def portrait_view(portrait: Portrait, *, bars: bool) -> View:
    """A result that draws itself."""
    tables = tuple(
        Table(
            printable(table.title),
            table.columns,
            tuple(tuple(_drawn(cell, bars=bars) for cell in row) for row in table.rows),
        )
        for table in portrait.tables
    )
    facts = tuple((name, printable(value)) for name, value in portrait.facts)
    return View(facts, tables, tuple(map(printable, portrait.notes)))


def _drawn(cell: PortraitCell, *, bars: bool) -> str:
    if isinstance(cell, str):
        return printable(cell)
    return f"{''.join(drawn_bar(cell.share, BAR_CELLS))} {cell.text}" if bars else cell.text


def plan_view_of(plan: PlanView, *, notes: Sequence[str] = (), bars: bool = True) -> View:
    """A plan: what it does and touches, and what cannot be undone."""
    touched = [
        ("Topics", _some(plan.topics, plan.topic_count)),
        ("Subscriptions", _some(plan.subscriptions, plan.subscription_count)),
        ("Producers", _count(plan.producers)),
        ("Consumers", _count(plan.consumers)),
        ("Messages", _count(plan.messages)),
        ("Bytes", _count(plan.bytes)),
    ]
    facts = [
        ("Plan", printable(plan.plan_id)),
        ("Operation", printable(f"{plan.operation} {canonical(plan.arguments)}")),
        ("Effect", str(plan.effect)),
        ("Status", str(plan.status)),
        *touched,
        ("Asked by", printable(f"{plan.asked_by} through {plan.asked_through}")),
        *([("Decided by", printable(plan.decided_by))] if plan.decided_by else []),
        ("Good until", cell(plan.expires_ms, "expires_ms")),
    ]
    lines = [f"Does: {printable(each)}" for each in plan.changes]
    lines += [f"Cannot be undone: {printable(each)}" for each in plan.irreversible]
    portrait = portrait_of(plan.rebalance) if plan.rebalance else None
    drawn = portrait_view(portrait, bars=bars) if portrait else View()
    return View((*facts, *drawn.facts), drawn.tables, (*lines, *drawn.notes, *map(printable, notes)))


def with_details(view: View) -> View:
    """The view with the sentences of its rows as notes, each after the words that tell its row from the others."""
    details = tuple(
        f"{' '.join(each for each in row[:3] if each != UNKNOWN)}: {sentence}"
        for table in view.tables
        for row, sentence in zip(table.rows, table.details, strict=False)
        if sentence != UNKNOWN and not any(sentence in note for note in view.notes)
    )
    return View(view.facts, view.tables, (*view.notes, *details))


def printable(text: str) -> str:
    """The text with whatever would move the cursor, change colours or hide itself shown as an escape.

    Brokers go by their names.
    """
    text = named(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if _is_harmless(each) else _escape(each) for each in text)


def as_commands(text: str, but: Container[str] = ()) -> str:
    """The text with operations as they are typed on the command line; those of `but` keep the names of their tools."""
    return _TOOLS.sub(
        lambda found: found[0] if found[0] in but else f"`danube-admin {BY_NAME[found[0]].command}`", text
    )


def name_at_stake(operation: AnyOperation, params: Params) -> str:
    """The name at stake: the last name of the cluster that an operation cannot do without, else its own words."""
    names = marks(type(params), Completes)
    needed = [name for name, info in type(params).model_fields.items() if info.is_required() and name in names]
    return printable(str(getattr(params, needed[-1]))) if needed else operation.command


def label(name: str) -> str:
    """A field's name as a heading; a unit stands behind in brackets."""
    words, unit = name, ""
    if name.endswith("_ms"):  # shown as a moment, see `cell`
        words = name.removesuffix("_ms")
    elif name.endswith("_s"):  # shown with its unit, see `cell`
        words = name.removesuffix("_s")
    elif name.endswith("_rate"):
        unit = " (/s)"
    text = words.replace("_", " ").capitalize().replace(" id", " ID")
    return ("ETA" if text == "Eta" else text) + unit


def heading(model: type[BaseModel], name: str) -> str:
    """A field of a model as a heading: the title it declares, or else its name."""
    return model.model_fields[name].title or label(name)


def cell(value: Any, name: str = "") -> str:  # noqa: ANN401 - any value of a result
    """One value on one line; a field whose name ends with `_ms` and is a moment becomes a time in UTC."""
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return _number(value, name)
        case list() | tuple():
            return ", ".join(cell(each) for each in value) or UNKNOWN
        case dict():
            given = (f"{key}={canonical(each)}" for key, each in value.items() if each is not None)
            return printable(", ".join(given)) or UNKNOWN
        case _:
            return printable(str(value)) or UNKNOWN


def _number(value: float, name: str) -> str:
    if name.endswith("_ms") and _MOMENT_MS < value < _YEAR_9999_MS:
        return time_of(value)
    if name.endswith("_s"):
        return span_text(value)
    if name in _SIZES or name.endswith("_bytes"):
        return size_text(value)
    if isinstance(value, int):
        return f"{value:,}"
    return number_text(value) if 0 < abs(value) < _TENTH else f"{value:,.1f}"


_SIZES = frozenset({"bytes", "bytes_in", "payload_size"})
_TENTH = 0.1
"""Numbers below it would look like none with one digit."""
_MOMENT_MS = 10**11
"""Milliseconds since the epoch are larger, durations smaller."""
_YEAR_9999_MS = 253_370_764_800_000
"""What is later is no time that anybody meant; it is shown as a number."""


def _shown_fields(result: BaseModel, *, wide: bool) -> list[tuple[str, Any]]:
    hidden = frozenset() if wide else marks(type(result), Wide)
    if not wide:
        hidden |= {name for name in marks(type(result), IfKnown) if getattr(result, name) in (None, [], 0)}
    return [(name, getattr(result, name)) for name in type(result).model_fields if name not in hidden]


def _table(title: str, rows: Sequence[BaseModel], of: type[BaseModel] | None, *, wide: bool, tools: bool) -> Table:
    if of is None:
        return Table(title, (title,), tuple((cell(row),) for row in rows))
    details = marks(of, Detail)
    hidden = frozenset() if wide else marks(of, Wide) | details
    names = [name for name in of.model_fields if name not in hidden]
    headings = tuple(heading(of, name) for name in names)
    raw = marks(of, ToolName) if tools else frozenset[str]()
    cells = tuple(
        tuple(cell(getattr(row, name)) if name in raw else _told(row, name) for name in names) for row in rows
    )
    sentences = [" ".join(_told(row, name) for name in details) for row in rows] if details else []
    return Table(title, headings, cells, tuple(sentences))


def _told(of: BaseModel, name: str) -> str:
    """A field as people read it."""
    words = of.words() if isinstance(of, Result) else {}
    return printable(words[name]) if name in words else cell(getattr(of, name), name)


def _page_notes(result: BaseModel) -> tuple[str, ...]:
    total, cursor = getattr(result, "total", None), getattr(result, "next_cursor", None)
    return (f"There are more of them, {total:,} in all: go on with cursor {cursor}.",) if cursor else ()


def _done_notes(operation: AnyOperation, result: BaseModel) -> tuple[str, ...]:
    if not operation.done:
        return ()
    return (operation.done.format_map({name: cell(getattr(result, name)) for name in type(result).model_fields}),)


def _count(count: int | None) -> str:
    """A count of a plan; a dash could be taken for none."""
    return "unknown" if count is None else cell(count)


def _some(names: Sequence[str], count: int) -> str:
    shown = ", ".join(map(printable, names[:5]))
    more = count - min(len(names), 5)
    return f"{count:,}" + (f" ({shown}{f' and {more:,} more' if more else ''})" if names else "")


def _is_harmless(character: str) -> bool:
    # C: control, format, surrogate, private use, unassigned; Zl and Zp end lines
    return unicodedata.category(character)[0] != "C" and unicodedata.category(character) not in {"Zl", "Zp"}


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"

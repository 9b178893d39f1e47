"""Views as text: aligned and plain for pipes, drawn with rich on a terminal. Nothing is cut and no markup is obeyed.

Piped facts are `Label: value` lines, as the original's scripts look for them; a table of one column is its values.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from danube.admin.present import Table, View, with_details
from danube.model.limits.faces import CLI_DRAWN_ROWS_MAX
from danube.report.tones import tone_of

Cell = tuple[str, str, str]
"""Where a cell stands from one drawing to the next: table, first cell of its row, column."""
Changed = frozenset[Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The screen that a view is drawn on."""

    is_terminal: bool = False
    width: int = 80
    color: bool = False
    verbose: bool = False
    """With the sentences of rows below their table."""


def drawn(view: View, screen: Screen, changed: Changed = frozenset()) -> str:
    """The view as text, with a line end."""
    rows = sum(len(table.rows) for table in view.tables)
    if screen.verbose:
        view = with_details(view)
    if screen.is_terminal and rows <= CLI_DRAWN_ROWS_MAX:
        return _rich(view, screen, changed)
    return _plain(view)


def cells_of(view: View) -> dict[Cell, str]:
    """Every cell by its place, to see later what has changed."""
    found = {("", label, ""): value for label, value in view.facts}
    for table in view.tables:
        for row in table.rows:
            found |= {(table.title, row[0], column): text for column, text in zip(table.columns, row, strict=True)}
    return found


def _plain(view: View) -> str:
    parts = []
    if view.facts:
        parts.append([f"{label}: {value}" for label, value in view.facts])
    titled = len(view.tables) > 1 or bool(view.facts)
    for table in view.tables:
        title = [table.title] if titled else []
        parts.append(title + _plain_table(table))
    if view.notes:
        parts.append(list(view.notes))
    return "".join(f"{line}\n" for line in _separated(parts))


def _plain_table(table: Table) -> list[str]:
    if len(table.columns) == 1:
        return [row[0] for row in table.rows]
    rows = [tuple(column.upper() for column in table.columns), *table.rows] if table.rows else []
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _separated(parts: Sequence[list[str]]) -> list[str]:
    filled = [part for part in parts if part]
    return [line for index, part in enumerate(filled) for line in ([""] if index else []) + part]


def _rich(view: View, screen: Screen, changed: Changed) -> str:
    from rich.console import Console  # noqa: PLC0415 - a pipe needs none

    console = Console(
        file=io.StringIO(),
        force_terminal=screen.color,
        no_color=not screen.color,
        width=screen.width,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
    )
    titled = len(view.tables) > 1 or bool(view.facts)
    with console.capture() as capture:
        if view.facts:
            console.print(_rich_facts(view, changed))
        for index, table in enumerate(view.tables):
            if index or view.facts:
                console.print()
            if titled:
                console.print(table.title, style="bold")
            for part in _rich_rows(table, screen, changed):
                console.print(part)
        if view.notes and (view.facts or view.tables):
            console.print()
        for note in view.notes:
            console.print(note)
    return "".join(f"{line.rstrip()}\n" if not screen.color else line for line in _lines(capture.get(), screen))


def _lines(text: str, screen: Screen) -> list[str]:
    return text.splitlines(keepends=screen.color)


def _rich_facts(view: View, changed: Changed) -> object:
    from rich.table import Table as RichTable  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in view.facts:
        style = _CHANGED if ("", label, "") in changed else _STYLES[tone_of(value)]
        grid.add_row(Text(f"{label}:", style="bold"), Text(value, style=style))
    return grid


def _rich_rows(table: Table, screen: Screen, changed: Changed) -> list[object]:
    """The table; or, where its columns would be too narrow to read, a block of labels and values for each row."""
    columns = _columns(table)
    least = [max([cell_len(column), *map(_least, cells)]) for column, cells in columns]
    spare = screen.width - sum(least) - _COLUMN_GAP * (len(least) - 1)
    if spare >= 0 or not table.rows:
        widths = []
        for width, (_, cells) in zip(least, columns, strict=True):
            wanted = max([width, *map(cell_len, cells)])
            more = min(max(spare, 0), wanted - width)
            widths.append(width + more)
            spare -= more
        return [_rich_table(table, changed, widths)]
    blocks: list[object] = []
    for row in table.rows:
        places = {column for column in table.columns if (table.title, row[0], column) in changed}
        facts = tuple(zip(table.columns, row, strict=True))
        blocks += [_rich_facts(View(facts), frozenset(("", column, "") for column in places)), ""]
    return blocks[:-1]


def _least(text: str) -> int:
    """Cells that a text needs at least: a word, such as a name, is not broken."""
    return max(min(_COLUMN_LEAST, cell_len(text)), *map(cell_len, text.split(" ")))


def _columns(table: Table) -> list[tuple[str, list[str]]]:
    return [(column, [row[index] for row in table.rows]) for index, column in enumerate(table.columns)]


def _rich_table(table: Table, changed: Changed, widths: Sequence[int]) -> object:
    from rich.table import Table as RichTable  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    drawn_table = RichTable(box=None, padding=(0, _COLUMN_GAP, 0, 0), pad_edge=False, header_style="bold")
    for index, column in enumerate(table.columns):
        numbers = not column.endswith((" ID", "Broker")) and all(_is_number(row[index]) for row in table.rows)
        drawn_table.add_column(
            Text(column), overflow="fold", width=widths[index], justify="right" if numbers else "left"
        )
    for row in table.rows:
        drawn_table.add_row(
            *(
                Text(text, style=_CHANGED if (table.title, row[0], column) in changed else _STYLES[tone_of(text)])
                for column, text in zip(table.columns, row, strict=True)
            )
        )
    return drawn_table


def _is_number(text: str) -> bool:
    return text in {"-", "never", "unknown"} or _NUMBER.fullmatch(text) is not None


_CHANGED = "reverse"
_NUMBER = re.compile(r"-?[\d,]+(\.\d+)?( ([smhd]|[KMGT]?i?B)\b.*)?")
"""A number, a duration or a size."""
_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red", "dim": "dim", "": ""}
_COLUMN_LEAST = 12
"""Cells a column needs, if it has as many to show; longer text is folded between words."""
_COLUMN_GAP = 2

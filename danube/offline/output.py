"""Output of the commands of `danube-broker`: tables and bars for people, JSON and YAML for programs.

Tables are drawn on a terminal that is wide enough, and aligned text elsewhere.
"""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from danube.model.limits.faces import CLI_DRAWN_ROWS_MAX
from danube.model.text import time_of
from danube.offline.cli_options import OutputFormat
from danube.runtime.console import is_terminal, write, yaml_text

T = TypeVar("T")

Facts = dict[str, Any]
"""Plain data, as JSON and YAML show it."""

NONE = "-"
"""What is shown of a value that there is not."""
_GAP = "  "
_STYLES = {"damaged": "bold red", "torn": "yellow", "sound": "green"}


def show(facts: Facts, output: OutputFormat, text: str | Callable[[Facts], str]) -> None:
    """Write the facts as they were asked for; `text` is the page for people, or makes one of them."""
    match output:
        case OutputFormat.TABLE:
            write(text if isinstance(text, str) else text(facts))
        case OutputFormat.YAML:
            write(yaml_text(json.loads(json.dumps(facts))))  # plain, without enums
        case OutputFormat.JSON:
            write(json.dumps(facts, indent=2) + "\n")


def time_text(time_ms: int | None) -> str:
    """A time as people read it; there may be none."""
    return NONE if time_ms is None else time_of(time_ms)


def table_of(title: str, columns: Mapping[str, Callable[[T], str]], rows: Iterable[T]) -> str:
    """As `table`, of anything that has a cell for each column."""
    return table(title, tuple(columns), [tuple(cell(row) for cell in columns.values()) for row in rows])


def table(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    """Rows under columns, and a title above them; nothing when there are none. Cells are plain text already."""
    if not rows:
        return ""
    widths = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    fits = sum(widths) + len(_GAP) * len(widths) <= Console().width  # cells in several lines are hard to read
    is_drawn = is_terminal(sys.stdout) and len(rows) <= CLI_DRAWN_ROWS_MAX and fits
    drawn = _drawn(columns, rows) if is_drawn else _plain(columns, rows, widths)
    return f"{title}\n{drawn}" if title else drawn


def _plain(columns: Sequence[str], rows: Sequence[tuple[str, ...]], widths: Sequence[int]) -> str:
    lines = [tuple(column.upper() for column in columns), *rows]
    padded = (
        _GAP.join(cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def _drawn(columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    drawn = Table(box=None, padding=(0, len(_GAP), 0, 0), pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        numbers = all(row[number].replace(",", "").isdigit() for row in rows)
        drawn.add_column(Text(column.upper()), overflow="fold", justify="right" if numbers else "left")
    for row in rows:
        drawn.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    width = Console().width
    console = Console(file=io.StringIO(), force_terminal=True, width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as capture:
        console.print(drawn)
    return capture.get().rstrip("\n")


@contextmanager
def progress(what: str, total: int, *, unit: str = "") -> Iterator[Callable[[int], None]]:
    """A bar on a terminal; answers what to call with each number of units that were done, bytes if none are named."""
    if not is_terminal(sys.stderr):
        yield lambda _: None
        return
    counts = (MofNCompleteColumn(), TextColumn(unit)) if unit else (DownloadColumn(),)
    columns = (TextColumn(what), BarColumn(), *counts, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=max(total, 1))
        yield lambda count: bar.advance(task, count)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on a terminal what is being done."""
    if not is_terminal(sys.stderr):
        yield
        return
    with Console(stderr=True).status(what):
        yield

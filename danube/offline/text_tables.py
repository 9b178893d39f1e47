"""Tables of the commands of `danube-broker`: drawn on a terminal that is wide enough, aligned text elsewhere."""

import io
import sys
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from danube.model.limits.faces import CLI_DRAWN_ROWS_MAX
from danube.runtime.console import is_terminal


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


_GAP = "  "
_STYLES = {"damaged": "bold red", "torn": "yellow", "sound": "green"}

"""Rows of a query as text: a table, JSON lines or CSV."""

import csv
import io
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from danube.runtime.console import escaped, is_terminal

if TYPE_CHECKING:
    from danube.query.session import Answer

_WIDTH = 120
"""Of a table that is no terminal's."""


class AnswerFormat(StrEnum):
    """Format of the rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def written(answer: "Answer", output: AnswerFormat) -> Iterator[str]:
    """The rows in a format, in pieces."""
    names, rows = answer.names, answer.rows()
    match output:
        case AnswerFormat.JSON:
            yield from (json.dumps(row, ensure_ascii=False, default=_plain) + "\n" for row in rows)
        case AnswerFormat.CSV:
            lines = io.StringIO()
            writer = csv.writer(lines, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([_cell(row[name], null="") for name in names] for row in rows)
            yield lines.getvalue()
        case AnswerFormat.TABLE:
            yield _table(names, [[escaped(_cell(row[name])) for name in names] for row in rows])


def _table(names: list[str], rows: list[list[str]]) -> str:
    """A table; where the terminal is too narrow for it, each row as a block."""
    names = list(map(escaped, names))
    widths = [max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(names)]
    room = shutil.get_terminal_size((_WIDTH, 0)).columns if is_terminal(sys.stdout) else _WIDTH
    if sum(widths) + 2 * len(widths) > room:
        longest = max(map(len, names))
        blocks = (
            "\n".join(f"{name:>{longest}}: {cell}" for name, cell in zip(names, row, strict=True)) for row in rows
        )
        return "\n\n".join(blocks) + "\n" * bool(rows)
    lines = [names, ["-" * width for width in widths], *rows]
    return "".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


def _cell(value: object, *, null: str = "-") -> str:
    """One value as text."""
    if value is None:
        return null
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    return str(_plain(value))


def _plain(value: object) -> object:
    """A value that JSON has no type for, as text; bytes that are no text as `\\xNN`."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime):
        text = value.isoformat(" ", "milliseconds" if value.microsecond % 1_000 == 0 else "microseconds")
        return text.replace("+00:00", "Z")
    return value if isinstance(value, bool | int | float | str) else str(value)

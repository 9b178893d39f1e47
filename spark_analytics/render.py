"""The result of a run as a table, as JSON, or as JSON lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from danube.model.lag.rows import GROUPS, NEVER
from danube.model.records.analytics import AnalyticsJob, Row
from danube.model.text import span_text, time_of
from danube.runtime.console import escaped
from spark_analytics.jobs.run import JobResult

_COLUMNS = {
    "STATUS": "status",
    "TOPIC": "topic",
    "SUBSCRIPTION": "subscription",
    "LAG": "lag_messages",
    "OLDEST": "lag_s",
    "IN/s": "arrival_rate",
    "OUT/s": "consume_rate",
    "CLEARS IN": "eta_s",
    "CAUSE": "cause",
}
_SPANS = frozenset({"lag_s", "eta_s"})
_NUMBERS = frozenset({"LAG", "OLDEST", "IN/s", "OUT/s", "CLEARS IN"})
_UNKNOWN = "-"
_TABLES_SHOWN, _ROWS_SHOWN, _COLUMNS_SHOWN = 3, 50, 12
"""Of a result whose tables have no columns of their own here."""


class ResultFormat(StrEnum):
    """Output format of a result."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


def render(result: JobResult, form: ResultFormat) -> str:
    """The result as text that ends with a line's end. A table has the most important rows; JSON has everything."""
    if form is ResultFormat.JSON:
        head = {"run_id": result.run_id, "job": result.job, "as_of_ms": result.as_of_ms, "window": result.window}
        return json.dumps({**head, **result.tables, "totals": result.totals}, ensure_ascii=False, indent=2) + "\n"
    if form is ResultFormat.JSONL:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _lines(result))
    if result.job == AnalyticsJob.LAG:
        return _table(result.tables[GROUPS], _COLUMNS)
    shown = [(name, rows) for name, rows in result.tables.items() if rows][:_TABLES_SHOWN]
    return "\n".join(f"{name}\n{_table(rows[:_ROWS_SHOWN], _own_columns(rows))}" for name, rows in shown)


def _own_columns(rows: Sequence[Row]) -> Mapping[str, str]:
    return {name.upper().replace("_", " "): name for name in list(rows[0])[:_COLUMNS_SHOWN]}


def _lines(result: JobResult) -> Iterator[dict[str, Any]]:
    for table, rows in result.tables.items():
        for row in rows:
            yield {"run_id": result.run_id, "as_of_ms": result.as_of_ms, "table": table, **row}


def _table(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    cells = [list(columns), *([_cell(name, row) for name in columns.values()] for row in rows)]
    widths = [max(len(row[number]) for row in cells) for number in range(len(columns))]
    numeric = _NUMBERS | {
        title for title, name in columns.items() if any(isinstance(row[name], int | float) for row in rows)
    }
    lines = (
        "  ".join(
            cell.rjust(width) if name in numeric else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ).rstrip()
        for row in cells
    )
    return "".join(f"{line}\n" for line in lines)


def _cell(name: str, row: Row) -> str:
    value = row[name]
    if value is None:
        return "never" if name == "eta_s" and row["eta_reason"] in NEVER else _UNKNOWN
    if name in _SPANS:
        return span_text(value)
    if name.endswith("_ms"):
        return time_of(value)
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 10 and name not in {"arrival_rate", "consume_rate"} else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else escaped(str(value)).replace("_", " " if name == "cause" else "_")

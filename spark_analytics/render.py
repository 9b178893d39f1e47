"""The result of a lag run as a table, as JSON, or as JSON lines."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from danube.model.lag.verdict import EtaReason
from danube.model.records.analytics import Row
from danube.runtime.console import escaped
from spark_analytics.jobs.lag_run import LagResult

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
_NEVER = frozenset({EtaReason.NOTHING_CONSUMED, EtaReason.FALLS_BEHIND})
_UNKNOWN = "-"


class ResultFormat(StrEnum):
    """Output format of a result."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


def render(result: LagResult, form: ResultFormat) -> str:
    """The result as text that ends with a line's end. A table has the groups; the JSON forms have everything."""
    if form is ResultFormat.JSON:
        return json.dumps(asdict(result), ensure_ascii=False, indent=2) + "\n"
    if form is ResultFormat.JSONL:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _lines(result))
    return _table(result.groups)


def span_text(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m" if hours < 48 else f"{hours / 24:.1f} d"


def _lines(result: LagResult) -> Iterator[dict[str, Any]]:
    for table, rows in (("groups", result.groups), ("partitions", result.partitions)):
        for row in rows:
            yield {"run_id": result.run_id, "as_of_ms": result.as_of_ms, "table": table, **row}


def _table(groups: Sequence[Row]) -> str:
    cells = [list(_COLUMNS), *([_cell(name, row) for name in _COLUMNS.values()] for row in groups)]
    widths = [max(len(row[number]) for row in cells) for number in range(len(_COLUMNS))]
    lines = (
        "  ".join(
            cell.rjust(width) if name in _NUMBERS else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ).rstrip()
        for row in cells
    )
    return "".join(f"{line}\n" for line in lines)


def _cell(name: str, row: Row) -> str:
    value = row[name]
    if value is None:
        return "never" if name == "eta_s" and row["eta_reason"] in _NEVER else _UNKNOWN
    if name in _SPANS:
        return span_text(value)
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else escaped(str(value)).replace("_", " " if name == "cause" else "_")

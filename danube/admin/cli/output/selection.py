"""Selections from results for scripts: names, CSV, JSONPath, and rows in another order. Pure."""

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from danube.admin.cli.output.options import OutputFormat, OutputOptions
from danube.admin.cli.output.serial import data_of, serialized
from danube.admin.operations.fields import Result, row_type
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.paging import sortable
from danube.model.errors import InvalidRequestError

_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>-?\d+|\*)\]|\['(?P<quoted>[^']*)'\]")
JSONPATH_CHARS_MAX = 500


def rows_field(operation: AnyOperation, result: Result) -> str | None:
    """The field that holds the rows of a result: as declared, or the only list of rows there is."""
    if declared := _declared_rows(operation):
        return declared
    lists = [name for name in type(result).model_fields if _is_rows(getattr(result, name))]
    return lists[0] if len(lists) == 1 else None


def _declared_rows(operation: AnyOperation) -> str:
    return operation.listing.rows if operation.listing is not None else operation.rows


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Result) for each in value)


def in_order(operation: AnyOperation, result: Result, sort_by: str) -> Result:
    """The result with its rows sorted by a field, descending with `-` before it; what is unknown comes last.

    Raises InvalidRequestError for a field that rows do not have.
    """
    field = rows_field(operation, result)
    rows: list[Result] = getattr(result, field) if field else []
    if field is None or not rows:
        return result
    name, is_descending = sort_by.removeprefix("-").replace("-", "_"), sort_by.startswith("-")
    known = type(rows[0]).model_fields
    if name not in known:
        raise InvalidRequestError(f"--sort-by: rows have no {name[:60]!r}; they have {', '.join(known)}")
    present = [row for row in rows if getattr(row, name) is not None]
    absent = [row for row in rows if getattr(row, name) is None]
    present.sort(key=lambda row: sortable(getattr(row, name)), reverse=is_descending)
    return result.model_copy(update={field: present + absent})


def names_text(operation: AnyOperation, result: Result) -> str:
    """The keys of the rows, one a line; of a result without rows its first field."""
    own = getattr(result, next(iter(type(result).model_fields)))
    field = rows_field(operation, result)
    if field is None or (not _declared_rows(operation) and isinstance(own, str)):
        return f"{_plain(own)}\n"
    key = operation.listing.name if operation.listing is not None else ""
    rows: list[Result] = getattr(result, field)
    return "".join(f"{_plain(getattr(row, key or next(iter(type(row).model_fields))))}\n" for row in rows)


def program_text(data: Any, options: OutputOptions) -> str:  # noqa: ANN401 - JSON
    """The text of JSON values, one mapping or rows of one shape, in a format for programs."""
    match options.output:
        case OutputFormat.CSV:
            return csv_text(data)
        case OutputFormat.JSONPATH:
            return jsonpath_text(data, options.jsonpath)
        case OutputFormat.NAME:
            rows = data if isinstance(data, list) else [data]
            return "".join(
                f"{_plain(next(iter(row.values()))) if isinstance(row, dict) else _plain(row)}\n" for row in rows
            )
        case _:
            return serialized(data, options.output)


def result_csv(operation: AnyOperation, result: Result, only: tuple[str, ...]) -> str:
    """The rows of a result with every column of its table, or `only` some; of one without rows its own fields."""
    field = _declared_rows(operation)
    kind = row_type(type(result), field) if field else None
    if kind is None or (only and operation.listing is None):
        return csv_text(data_of(operation, result, only))
    names = only or tuple(kind.model_fields)
    return csv_text([row.model_dump(mode="json") for row in getattr(result, field)], names)


def csv_text(data: Any, columns: Sequence[str] = ()) -> str:  # noqa: ANN401 - JSON
    """JSON rows as CSV with a header (RFC 4180, line ends as here); what is nested is JSON within its cell."""
    rows = data if isinstance(data, list) else [data]
    shaped = [row if isinstance(row, dict) else {"value": row} for row in rows]
    names = columns or list(dict.fromkeys(name for row in shaped for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if names:
        writer.writerow(names)
    writer.writerows([_plain(row.get(name)) for name in names] for row in shaped)
    return text.getvalue()


def jsonpath_text(data: Any, path: str) -> str:  # noqa: ANN401 - JSON
    """The values at a path such as `{[*].name}` or `.subscriptions[0].lag`, one a line.

    Raises InvalidRequestError for what is no path, and for one that leads nowhere.
    """
    steps = _steps(path)
    found = [data]
    for step in steps:
        found = [value for each in found for value in _below(each, step, path)]
    return "".join(f"{_plain(value)}\n" for value in found)


def _steps(path: str) -> list[str | int]:
    inner = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    inner = inner if inner.startswith((".", "[")) else f".{inner}"
    inner = "" if inner == "." else inner
    steps: list[str | int] = []
    at = 0
    while at < len(inner):
        found = _STEP.match(inner, at)
        if found is None or len(path) > JSONPATH_CHARS_MAX:
            raise InvalidRequestError(f"{path[:60]!r} is no path: write such as {{[*].name}} or {{.subscriptions[0]}}")
        index = found["index"]
        steps.append(int(index) if index and index != "*" else index or found["quoted"] or found["name"])
        at = found.end()
    return steps


def _below(value: Any, step: str | int, path: str) -> Sequence[Any]:  # noqa: ANN401 - JSON
    if step == "*" and isinstance(value, list):
        return value
    if isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
        return [value[step]]
    if isinstance(value, dict) and step in value:
        return [value[str(step)]]
    inside = (
        ", ".join(value) if isinstance(value, dict) else f"a list of {len(value)}" if isinstance(value, list) else ""
    )
    raise InvalidRequestError(f"{path[:60]}: there is no {step!r} in {inside or 'a plain value'}")


def _plain(value: Any) -> str:  # noqa: ANN401 - JSON
    match value:
        case None:
            return ""
        case str():
            return value if value.isprintable() else json.dumps(value)[1:-1]
        case _:
            return json.dumps(value, ensure_ascii=True, default=str)

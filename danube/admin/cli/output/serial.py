"""Results for programs: JSON, YAML, and JSON a row a line.

Names come from strangers, and a terminal may show what a program should have read: what is not printable is written as
an escape, which the reader of the format turns back.
"""

import json
from typing import Any

from pydantic import BaseModel

from danube.admin.cli.output.options import OutputFormat
from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation
from danube.runtime.console import yaml_text


def data_of(operation: AnyOperation, result: Result, only: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - JSON
    """The result as JSON values: a listing is its rows, and rows of one field are that field; as in the original.

    `only` names the fields that are kept: of a row in a listing, of the result itself elsewhere.
    """
    if operation.listing is None:
        found = result.model_dump(mode="json")
        return {name: found[name] for name in only} if only else found
    rows: list[BaseModel] = getattr(result, operation.listing.rows)
    return [_row(row, only) for row in rows]


def serialized(data: Any, output: OutputFormat) -> str:  # noqa: ANN401 - JSON
    """The text of JSON values in a format for programs, with a line end."""
    match output:
        case OutputFormat.YAML:
            return yaml_text(data)
        case OutputFormat.JSONL:
            rows = data if isinstance(data, list) else [data]
            return "".join(f"{_json(row, None)}\n" for row in rows)
        case _:
            return f"{_json(data, 2)}\n"


def _row(row: BaseModel, only: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    fields = row.model_dump(mode="json")
    kept = {name: fields[name] for name in only} if only else fields
    return next(iter(kept.values())) if len(kept) == 1 else kept


def _json(data: Any, indent: int | None) -> str:  # noqa: ANN401 - JSON
    text = json.dumps(data, ensure_ascii=False, indent=indent, allow_nan=False)
    if text.isascii() and "\x7f" not in text:
        return text
    # line ends within strings are escapes already: those that are left are the layout
    return "".join(each if each == "\n" or each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    """As in JSON: UTF-16 code units."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

"""Results as answers: structured content and a short text beside it, together never above MCP_ANSWER_BYTES_MAX.

Of a listing, rows are cut from the end and the cursor goes on after the last one that is left; elsewhere long texts and
lists are cut, and `cut` says how long they were. Whatever stands in a cluster, the same result makes the same cut.
"""

import json
from dataclasses import dataclass
from typing import Any

from mcp_types import CallToolResult, TextContent

from danube.admin.mcp.tool_catalogue import ToolCatalogue
from danube.admin.mcp.untrusted_text import untrusted, untrusted_fields
from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation, Listing
from danube.admin.operations.paging import cursor_after
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.present import View, plan_view_of, view_of
from danube.model.limits.faces import MCP_ANSWER_BYTES_MAX

_STEPS = ((4_000, 200), (1_000, 50), (300, 20), (100, 5), (40, 1))
"""The longest text and list that are left as they are: the first step that makes an answer fit is taken."""
_ENVELOPE_BYTES = 1_024
"""What the protocol adds to an answer: its frame, and in the newer era what the server is called."""
_BYTES_MAX = MCP_ANSWER_BYTES_MAX - _ENVELOPE_BYTES
_ROWS_MAX = MCP_ANSWER_BYTES_MAX // 16
"""More rows fit by no means: each has its punctuation in the structure and a line in the text."""
_OURS = frozenset({"hint", "meaning", "next_step", "next_tool", "note", "said", "source", "what_to_do", "why"})
"""Fields with sentences of ours, which may name the next call."""
_CUT_SHOWN_MAX = 20
"""Cuts that are named; more of them are the same fields of further rows."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """The bounds of a cut, and its record."""

    chars: int
    items: int
    lengths: dict[str, int]
    """What was cut, by the path of its field, and how long it was."""


def answer_of(operation: AnyOperation, result: Result, catalogue: ToolCatalogue) -> CallToolResult:
    """The answer of a call that went well; it names no tool that is not offered."""
    values = result.model_dump(mode="json")
    if (told := _told(values, catalogue)) != values:
        result = type(result).model_validate(told)
    if operation.pages is not None:
        result = _first_rows(operation.pages, result, _ROWS_MAX)
    whole = _answer(operation, result, {})
    if _size(whole) <= _BYTES_MAX:
        return whole
    for chars, items in _STEPS:
        fitting = _shortened(operation, result, chars, items)
        if fitting is not None:
            return fitting
    return error_answer(f"{operation.name} was carried out, and its answer is too large to be shown")


def _told(value: Any, catalogue: ToolCatalogue, name: str = "") -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case str():
            return catalogue.told(value) if name in _OURS else value
        case list():
            return [_told(each, catalogue, name) for each in value]
        case dict():
            return {key: _told(each, catalogue, key) for key, each in value.items()}
    return value


def error_answer(text: str) -> CallToolResult:
    """The answer of a call that did not."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _shortened(operation: AnyOperation, result: Result, chars: int, items: int) -> CallToolResult | None:
    """The largest answer within a step of cuts; None if even the smallest one does not fit."""
    if operation.pages is None:
        answer = _cut_answer(operation, result, _Cut(chars, items, {}))
        return answer if _size(answer) <= _BYTES_MAX else None
    fitting, low, high = None, 1, len(getattr(result, operation.pages.rows))
    while low <= high:
        middle = (low + high) // 2
        answer = _cut_answer(operation, _first_rows(operation.pages, result, middle), _Cut(chars, items, {}))
        if _size(answer) <= _BYTES_MAX:
            fitting, low = answer, middle + 1
        else:
            high = middle - 1
    return fitting


def _first_rows(listing: Listing, result: Result, count: int) -> Result:
    rows = getattr(result, listing.rows)
    if count >= len(rows):
        return result
    kept = rows[:count]
    return result.model_copy(update={listing.rows: kept, "next_cursor": cursor_after(listing.key(kept[-1]))})


def _cut_answer(operation: AnyOperation, result: Result, cut: _Cut) -> CallToolResult:
    pages = operation.pages
    structured = {
        name: _cut(value, cut, name, is_rows=pages is not None and name == pages.rows)
        for name, value in result.model_dump(mode="json").items()
    }
    if isinstance(cursor := getattr(result, "next_cursor", None), str):
        structured["next_cursor"] = cursor
    return _answer(operation, type(result).model_validate(structured), cut.lengths)


def _cut(value: Any, cut: _Cut, path: str, *, is_rows: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case str() if len(value) > cut.chars:
            cut.lengths[path] = len(value)
            return value[: cut.chars] + "..."
        case list():
            if len(value) > cut.items and not is_rows:
                cut.lengths[path] = len(value)
                value = value[: cut.items]
            return [_cut(each, cut, path) for each in value]
        case dict():
            return {name: _cut(each, cut, f"{path}.{name}") for name, each in value.items()}
        case _:
            return value


def _answer(operation: AnyOperation, result: Result, lengths: dict[str, int]) -> CallToolResult:
    structured = untrusted_fields(result.model_dump(mode="json"))
    inside, outside = _texts(operation, result)
    if lengths:
        shown = dict(list(lengths.items())[:_CUT_SHOWN_MAX])
        structured["cut"] = shown
        inside += f"\nCut, with the whole length of each: {json.dumps(shown)}"
    text = "\n".join([untrusted(inside), *outside])
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def _texts(operation: AnyOperation, result: Result) -> tuple[str, list[str]]:
    """Text from the cluster, and our own sentences."""
    if isinstance(result, PlannedResult):
        return _text(plan_view_of(result.plan, bars=False), with_notes=True), [result.next_step]
    view = view_of(operation, result, bars=False, tools=True)
    if operation.listing is None:
        return _text(view, with_notes=True), []
    rows = len(getattr(result, operation.listing.rows))
    count = [f"{rows:,} rows on this page."] if view.notes else []
    return _text(view, with_notes=False), [*count, *view.notes]


def _text(view: View, *, with_notes: bool) -> str:
    lines = [f"{label}: {value}" for label, value in view.facts]
    for table in view.tables:
        lines += ["", table.title, " | ".join(table.columns)]
        details = table.details or ("",) * len(table.rows)
        lines += [" | ".join((*row, told) if told else row) for row, told in zip(table.rows, details, strict=True)]
    if with_notes:
        lines += view.notes
    return "\n".join(lines).strip()


def _size(answer: CallToolResult) -> int:
    return len(answer.model_dump_json(by_alias=True, exclude_none=True).encode())

"""What faces answer, made comparable: volatile fields left out, a listing reduced to its rows."""

from typing import Any, get_args

from pydantic import BaseModel

from danube.admin.operations.fields import Volatile, marks
from danube.admin.operations.operation import AnyOperation

VOLATILE = "volatile"


def comparable(operation: AnyOperation, answer: Any) -> Any:
    """The answer of an operation, as JSON, without what differs between two calls on the same cluster."""
    listing = operation.listing
    if listing is None:
        return without_volatile(operation.result, answer)
    rows = answer if isinstance(answer, list) else answer[listing.rows]
    row_type = model_in(operation.result.model_fields[listing.rows].annotation)
    assert row_type is not None
    return [without_volatile(row_type, row_of(row_type, row)) for row in rows]


def row_of(row_type: type[BaseModel], row: Any) -> dict[str, Any]:
    """A row; of one field alone, the command line prints its value."""
    return dict(row) if isinstance(row, dict) else {next(iter(row_type.model_fields)): row}


def without_volatile(model: type[BaseModel], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with each volatile field replaced by a word, below as well."""
    hidden = marks(model, Volatile)
    assert set(answer) == set(model.model_fields), "a face adds or leaves out fields"
    return {
        name: VOLATILE if name in hidden else _below(model.model_fields[name].annotation, value)
        for name, value in answer.items()
    }


def _below(annotation: Any, value: Any) -> Any:
    inner = model_in(annotation)
    if inner is None or value is None:
        return value
    if isinstance(value, list):
        return [without_volatile(inner, each) for each in value]
    return without_volatile(inner, value)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field's type is made of, if there is one."""
    parts = get_args(annotation)
    if parts:
        return next((found for each in parts if (found := model_in(each))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None

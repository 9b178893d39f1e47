"""Pydantic models and dataclasses as JSON, under the JSON Schema of their fields."""

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from danube.model.errors import PayloadInvalidError
from danube.model.schema import SchemaType


class JsonSchema:
    """A class whose values are JSON."""

    kind = SchemaType.JSON_SCHEMA
    needs_writer = False

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self.definition = json.dumps(self._adapter.json_schema(), sort_keys=True)

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - as the protocol
        """As the protocol."""
        if not isinstance(value, self._kind):
            raise PayloadInvalidError(f"{value!r:.80} is no {self._kind.__name__}: send one")
        try:
            return self._adapter.dump_json(self._adapter.validate_python(value), by_alias=True)
        except ValidationError as error:
            raise _invalid(error) from error

    def decode(self, payload: bytes, writer: str | None) -> Any:  # noqa: ANN401, ARG002 - JSON names its fields
        """As the protocol."""
        try:
            return self._adapter.validate_json(payload)
        except ValidationError as error:
            raise _invalid(error) from error


def _invalid(error: ValidationError) -> PayloadInvalidError:
    first = error.errors()[0]
    return PayloadInvalidError(first["msg"], ".".join(map(str, first["loc"])))

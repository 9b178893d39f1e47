"""Payloads of Avro: one bare value, as producers send it whose schema is known by its id."""

import io
from typing import Any, Final

from danube.schema.avro.scan import scanner
from danube.schema.avro.types import AvroDocument
from danube.schema.extra import library

_VALUE_STEPS: Final = 50


class AvroValidator:
    """Validator of one definition."""

    def __init__(self, document: AvroDocument) -> None:
        self._document = document
        self._scan, values = scanner(document.root)
        self._schema: Any = None
        self._byte_steps = _VALUE_STEPS * values

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process."""
        return AvroValidator, (self._document,)

    def check(self, payload: bytes, *, with_reason: bool = True) -> None:  # noqa: ARG002 - as the protocol
        """As the protocol."""
        self._scan(payload)

    def steps(self, payload: bytes) -> int:
        """As the protocol."""
        return len(payload) * self._byte_steps

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401 - whatever the definition describes
        """As the protocol. Logical types are Python's own; a value outside their range is answered as it is stored."""
        self._scan(payload)
        fastavro = library("fastavro", "decoding of Avro")
        if self._schema is None:
            self._schema = fastavro.parse_schema(self._document.plain)
        try:
            return fastavro.schemaless_reader(io.BytesIO(payload), self._schema, None)
        except (ArithmeticError, ValueError):
            plain = fastavro.parse_schema(_without_logical(self._document.plain))
            return fastavro.schemaless_reader(io.BytesIO(payload), plain, None)


def _without_logical(value: Any) -> Any:  # noqa: ANN401 - of JSON
    if isinstance(value, list):
        return [_without_logical(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_logical(each) for key, each in value.items() if key != "logicalType"}
    return value

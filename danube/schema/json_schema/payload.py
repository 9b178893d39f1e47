"""Payloads of JSON, by a JSON Schema."""

from dataclasses import dataclass
from typing import Any

from danube.model.errors import PayloadInvalidError
from danube.model.untrusted_json import UntrustedJsonError, decode_json
from danube.schema.json_schema.document import JsonDocument
from danube.schema.parsed import shown


@dataclass(frozen=True, slots=True)
class JsonValidator:
    """Validator of one definition."""

    document: JsonDocument

    def check(self, payload: bytes) -> None:
        """As the protocol."""
        self.decode(payload)

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401 - a JSON value
        """As the protocol."""
        try:
            value = decode_json(payload, depth_max=self.document.payload_depth_max)
        except UntrustedJsonError as error:
            raise PayloadInvalidError(f"it is no JSON that can be read: {error}") from None
        validator = self.document.validator
        if not validator.is_valid(value):
            fault = next(validator.iter_errors(value))
            place = "".join(f"/{part}" for part in fault.instance_path)
            raise PayloadInvalidError(shown(fault.message), place or "/")
        return value

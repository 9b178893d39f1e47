"""Messages out of JSON lines, as `danube consume -o json` writes them. Pure."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field

from danube.model.errors import InvalidRequestError
from danube.model.untrusted_json import decode_json

_OF_THE_ORIGINAL = frozenset(
    {
        "topic",
        "offset",
        "producer_name",
        "producer_id",
        "request_id",
        "publish_time_ms",
        "schema_id",
        "schema_version",
        "value",
    }
)
"""Fields of a message that was received; the broker or the producer gives it new ones."""
_FIELDS = frozenset({"payload", "payload_encoding", "attributes", "routing_key"})


@dataclass(frozen=True, slots=True)
class LineMessage:
    """One message to send."""

    payload: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    written_with: tuple[str, object] | None = None
    """Schema id and version that the payload is encoded with already."""


def message_of_line(line: bytes) -> LineMessage:
    """The message in a line. Raises InvalidRequestError, which names what is wrong."""
    try:
        found = decode_json(line)
    except ValueError as error:
        raise InvalidRequestError(
            f"a line is no JSON ({error}): write one object a line, or leave out --json"
        ) from None
    if not isinstance(found, dict) or not isinstance(found.get("payload"), str):
        raise InvalidRequestError('a line has no "payload": write an object such as {"payload": "hello"}')
    if unknown := sorted(found.keys() - _FIELDS - _OF_THE_ORIGINAL):
        raise InvalidRequestError(f"a line has the unknown field {unknown[0][:60]!r}: use {', '.join(sorted(_FIELDS))}")
    attributes, key = found.get("attributes") or {}, found.get("routing_key")
    if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
        raise InvalidRequestError('"attributes" of a line must be an object of texts')
    if key is not None and not isinstance(key, str):
        raise InvalidRequestError('"routing_key" of a line must be a text')
    schema_id = found.get("schema_id")
    written_with = None if schema_id is None else (str(schema_id), found.get("schema_version"))
    return LineMessage(
        _payload(found["payload"], found.get("payload_encoding", "utf-8")), attributes, key, written_with
    )


def _payload(text: str, encoding: object) -> bytes:
    if encoding == "utf-8":
        return text.encode("utf-8", "surrogateescape")
    if encoding != "base64":
        raise InvalidRequestError('"payload_encoding" of a line is "utf-8" or "base64"')
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidRequestError('"payload" of a line is no base64, as its "payload_encoding" says') from None

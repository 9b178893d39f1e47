"""A message as bytes for standard output: raw, as a line for people, or as a JSON object. Pure."""

import base64
import json
from collections.abc import Callable
from enum import StrEnum

from danube.model.calls.client import ReceivedMessage
from danube.model.text import json_number
from danube.runtime.console import escaped


class OutputFormat(StrEnum):
    """The format in which `danube consume` writes a message."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


NO_VALUE = object()
"""Stands for a payload that is not decoded."""


def renderer(output: OutputFormat) -> Callable[[ReceivedMessage, object], bytes]:
    """The function that writes messages in this format, each with its newline."""
    return {OutputFormat.TEXT: text_line, OutputFormat.JSON: json_line, OutputFormat.RAW: raw_line}[output]


def raw_line(message: ReceivedMessage, value: object = NO_VALUE) -> bytes:  # noqa: ARG001 - as the others
    """The payload as it is."""
    return message.payload + b"\n"


def text_line(message: ReceivedMessage, value: object = NO_VALUE) -> bytes:
    """Topic, offset, key, attributes, and the payload, decoded where it can be.

    Whatever a terminal could take for a command is escaped.
    """
    parts = [message.topic, f"offset={message.offset}"]
    if message.routing_key is not None:
        parts.append(f"key={message.routing_key}")
    parts += [f"{key}={value}" for key, value in sorted(message.attributes.items())]
    if value is NO_VALUE:
        parts.append(message.payload.decode("utf-8", "backslashreplace"))
    else:
        parts.append(json.dumps(value, ensure_ascii=False, default=_plain))
    return "  ".join(map(escaped, parts)).encode() + b"\n"


def json_line(message: ReceivedMessage, value: object = NO_VALUE) -> bytes:
    """One object; ids are text, and so is a time past 2^53, see `json_number`."""
    payload, encoding = _payload_text(message.payload)
    row: dict[str, object] = {
        "topic": message.topic,
        "offset": message.offset,
        "producer_name": message.producer_name,
        "producer_id": str(message.producer_id),
        "request_id": str(message.request_id),
        "publish_time_ms": json_number(message.publish_time_ms),
        "routing_key": message.routing_key,
        "schema_id": None if message.schema_id is None else str(message.schema_id),
        "schema_version": message.schema_version,
        "attributes": dict(message.attributes),
        "payload": payload,
        "payload_encoding": encoding,
    }
    if value is not NO_VALUE:
        row["value"] = value
    return json.dumps(row, ensure_ascii=False, default=_plain).encode() + b"\n"


def _plain(value: object) -> str:
    """Bytes and times of a decoded value, which JSON has no word for."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _payload_text(payload: bytes) -> tuple[str, str]:
    try:
        return payload.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(payload).decode("ascii"), "base64"

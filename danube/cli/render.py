"""A message as bytes for standard output: raw, as a line for people, or as a JSON object. Pure."""

import base64
import json
from collections.abc import Callable
from enum import StrEnum

from danube.model.calls.client import ReceivedMessage
from danube.runtime.console import escaped


class OutputFormat(StrEnum):
    """The format in which `danube consume` writes a message."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


def renderer(output: OutputFormat) -> Callable[[ReceivedMessage], bytes]:
    """The function that writes messages in this format, each with its newline."""
    return {OutputFormat.TEXT: text_line, OutputFormat.JSON: json_line, OutputFormat.RAW: raw_line}[output]


def raw_line(message: ReceivedMessage) -> bytes:
    """The payload as it is."""
    return message.payload + b"\n"


def text_line(message: ReceivedMessage) -> bytes:
    """Topic, offset, key, attributes and payload; whatever a terminal could take for a command is escaped."""
    parts = [message.topic, f"offset={message.offset}"]
    if message.routing_key is not None:
        parts.append(f"key={message.routing_key}")
    parts += [f"{key}={value}" for key, value in sorted(message.attributes.items())]
    parts.append(message.payload.decode("utf-8", "backslashreplace"))
    return "  ".join(map(escaped, parts)).encode() + b"\n"


def json_line(message: ReceivedMessage) -> bytes:
    """One object; ids are strings, because many readers of JSON round large numbers."""
    payload, encoding = _payload_text(message.payload)
    row: dict[str, object] = {
        "topic": message.topic,
        "offset": message.offset,
        "producer_name": message.producer_name,
        "producer_id": str(message.producer_id),
        "request_id": str(message.request_id),
        "publish_time_ms": message.publish_time_ms,
        "routing_key": message.routing_key,
        "schema_id": None if message.schema_id is None else str(message.schema_id),
        "schema_version": message.schema_version,
        "attributes": dict(message.attributes),
        "payload": payload,
        "payload_encoding": encoding,
    }
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _payload_text(payload: bytes) -> tuple[str, str]:
    try:
        return payload.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(payload).decode("ascii"), "base64"

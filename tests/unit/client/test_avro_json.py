"""Values from JSON for Avro, and back."""

import json
from typing import Any

import pytest

from danube.client.typed.avro import AvroSchema
from danube.model.errors import PayloadInvalidError

HASH = {"type": "fixed", "name": "Hash", "size": 2}
PARCEL: dict[str, Any] = {
    "type": "record",
    "name": "Parcel",
    "namespace": "shop",
    "fields": [
        {"name": "label", "type": "bytes"},
        {"name": "hash", "type": HASH},
        {"name": "other", "type": ["null", "Hash"]},
        {"name": "either", "type": ["null", "bytes", "string"]},
        {"name": "more", "type": {"type": "array", "items": {"type": "map", "values": ["null", "bytes"]}}},
        {"name": "inner", "type": ["null", "Parcel"], "default": None},
    ],
}
VALUE = {"label": "YQ==", "hash": "AAE=", "other": "AgM=", "either": "YQ==", "more": [{"k": "Yg==", "n": None}]}


def test_texts_in_base64_are_bytes_wherever_the_schema_has_bytes() -> None:
    schema = AvroSchema(PARCEL)
    read = schema.decode(schema.encode_json(json.dumps({**VALUE, "inner": VALUE}).encode()), None)
    inner = {
        "label": b"a",
        "hash": b"\x00\x01",
        "other": b"\x02\x03",
        "either": "YQ==",
        "more": [{"k": b"b", "n": None}],
        "inner": None,
    }
    assert read == {**inner, "inner": inner}


def test_what_is_no_base64_or_no_json_is_refused() -> None:
    schema = AvroSchema(PARCEL)
    with pytest.raises(PayloadInvalidError, match="label"):
        schema.encode_json(json.dumps({**VALUE, "label": "a!"}).encode())
    with pytest.raises(PayloadInvalidError, match="no JSON"):
        schema.encode_json(b"seven")

"""Stored batches as Arrow columns: the same as taking them apart record by record."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.calls.client import OutgoingMessage
from danube.model.calls.stream import FetchedBatch
from danube.model.errors import InvalidBatchError
from danube.storage.batches.batch import encode_messages, encode_payloads
from danube.tables.columns import ColumnBuilder
from danube.tables.rows import COLUMN_NAMES
from danube.wire import encode

TOPIC = "/default/orders-part-3"
SHARED = OutgoingMessage(
    request_id=1,
    producer_id=2,
    topic=TOPIC,
    broker_addr="http://b:1",
    payload=b"",
    publish_time_ms=1_700_000_000_123,
    producer_name="till",
    attributes={"a": "1", "b": "2"},
    schema_id=5,
    schema_version=6,
    routing_key="k",
)


def of_payloads(payloads: Sequence[bytes], shared: OutgoingMessage = SHARED, **part: int) -> FetchedBatch:
    body = encode_payloads(encode.send_message(shared), payloads)
    return FetchedBatch(
        part.get("base", 100), len(payloads), 1_500, body, part.get("first", 0), part.get("end", len(payloads))
    )


def rows(batch: FetchedBatch, columns: Sequence[str] = COLUMN_NAMES) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = ColumnBuilder(TOPIC, columns, 3).build(batch).to_pylist()
    return found


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.data())
def test_any_part_of_a_batch_of_payloads_holds_its_payloads_at_their_offsets(
    payloads: list[bytes], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(payloads)))
    end = data.draw(st.integers(first, len(payloads)))
    found = rows(of_payloads(payloads, first=first, end=end), ["offset", "value"])
    assert found == [{"offset": 100 + n, "value": payloads[n]} for n in range(first, end)]


def test_what_the_records_share_stands_in_every_row() -> None:
    (row,) = rows(of_payloads([b"x"]))
    assert row == {
        "topic": TOPIC,
        "partition": 3,
        "offset": 100,
        "append_time": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        "publish_time": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "producer_name": "till",
        "key": "k",
        "attributes": [("a", "1"), ("b", "2")],
        "schema_id": 5,
        "schema_version": 6,
        "value": b"x",
    }


def test_attributes_are_in_the_order_of_their_names_so_that_a_repeated_task_gives_the_same_rows() -> None:
    attributes = {name: name.upper() for name in "hgfedcba"}
    (row,) = rows(of_payloads([b"x"], SHARED._replace(attributes=attributes)), ["attributes"])
    assert row["attributes"] == [(name, name.upper()) for name in "abcdefgh"]


def test_messages_are_read_one_by_one_with_their_own_fields() -> None:
    sent = [
        SHARED._replace(payload=b"one", producer_name="p1"),
        SHARED._replace(payload=b"two", producer_name="p2", attributes={}, routing_key=None, schema_id=None),
    ]
    batch = FetchedBatch(7, 2, 1_500, encode_messages([encode.send_message(one) for one in sent]), 0, 2)
    found = [(row["offset"], row["value"], row["producer_name"], row["key"], row["attributes"]) for row in rows(batch)]
    assert found == [(7, b"one", "p1", "k", [("a", "1"), ("b", "2")]), (8, b"two", "p2", None, [])]
    assert [row["schema_id"] for row in rows(batch)] == [5, None]


def test_builder_does_not_take_the_fields_of_one_batch_for_those_of_the_next() -> None:
    builder = ColumnBuilder(TOPIC, ("producer_name", "publish_time", "key", "value"))
    batches = [
        of_payloads([b"1"] * count, SHARED._replace(producer_name=name, routing_key=key, publish_time_ms=at_ms))
        for count, name, key, at_ms in [(3, "a", None, 0), (1, "b", "k", 1), (9, "b", None, 2), (2, "a", "", 3)]
    ]
    found = [sorted({(r["producer_name"], r["key"]) for r in builder.build(one).to_pylist()}) for one in batches]
    assert found == [[("a", None)], [("b", "k")], [("b", None)], [("a", "")]]
    assert [builder.build(one).num_rows for one in batches] == [3, 1, 9, 2]


def test_claims_that_no_calendar_and_no_number_holds_are_null() -> None:
    (row,) = rows(of_payloads([b"x"], SHARED._replace(publish_time_ms=2**63, schema_id=2**64 - 1)))
    assert (row["publish_time"], row["schema_id"]) == (None, None)


def test_damaged_body_is_refused() -> None:
    batch = of_payloads([b"x" * 100])
    body = bytearray(batch.body)
    body[-20] ^= 1
    damaged = FetchedBatch(0, 1, 0, bytes(body), 0, 1)
    with pytest.raises(InvalidBatchError, match="checksum"):
        rows(damaged)


@pytest.mark.parametrize("columns", [["value"], ["topic", "offset"], ["attributes"]])
def test_only_the_chosen_columns_are_built(columns: list[str]) -> None:
    assert [list(row) for row in rows(of_payloads([b"x"]), columns)] == [columns]

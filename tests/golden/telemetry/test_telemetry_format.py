"""Telemetry of every released version stays readable, and the document is enough to read it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import BATCH_BYTES_MAX, MIB, NAME_BYTES_MAX, TELEMETRY_RECORDS_MAX, TELEMETRY_SILENT_MAX
from danube.model.records.telemetry import (
    KINDS,
    Reading,
    SilentConsumer,
    Stamp,
    SubscriptionReading,
    TopicReading,
    decode_record,
    encode_record,
)
from tests.golden.telemetry.make import BILLING, FILE, ORDERS, lines, records
from tests.golden.telemetry.reader import read

DOCUMENT = Path(__file__).parents[3] / "docs/formats/telemetry.md"
GOLDEN = FILE.read_bytes().splitlines()
COMMON = ["version", "kind", "broker_id", "start_id", "sequence", "at_ms", "full", "gone"]


def test_what_is_written_today_is_what_was_written_then() -> None:
    assert lines() == FILE.read_bytes()


def test_records_of_version_1_are_read() -> None:
    assert [decode_record(line) for line in GOLDEN] == records()


def test_reader_made_from_the_document_reads_them() -> None:
    found = [read(line) for line in GOLDEN]
    assert [one and (one["kind"], one["sequence"], one["full"], one["gone"]) for one in found] == [
        ("topic", 17, True, False),
        ("subscription", 18, True, False),
        ("topic", 19, False, False),
        ("subscription", 20, False, True),
        ("broker", 21, True, False),
    ]
    assert found[1] is not None
    assert found[1]["subscription"] == 'größte "Rechnung"'


@pytest.mark.parametrize("kind", KINDS)
def test_document_describes_every_field_in_its_order_and_no_other(kind: str) -> None:
    sections = re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)
    described = {section.splitlines()[0]: re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) for section in sections}
    assert described["Fields of every record"] == COMMON
    assert described[f"A {kind}"] == list(KINDS[kind]._fields)


def test_document_shows_a_record_that_exists() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    assert json.loads(shown) == json.loads(GOLDEN[1])


def test_blocked_messages_are_told_and_older_records_do_not_tell_them() -> None:
    older = decode_record(GOLDEN[1])
    assert older is not None
    stamp, reading = older
    assert isinstance(reading, SubscriptionReading)
    assert reading.blocked is None
    told = reading._replace(blocked=2)
    assert json.loads(encode_record(stamp, told))["blocked"] == 2
    assert decode_record(encode_record(stamp, told)) == (stamp, told)


def test_silent_consumers_are_told_with_their_names() -> None:
    stamp, reading = records()[1]
    assert isinstance(reading, SubscriptionReading)
    silent = SilentConsumer("one", "10.0.0.8:5000", 1_750_000_000_000, 10, 90), SilentConsumer("two", None, 1, 0, None)
    told = reading._replace(silent=silent)
    record = encode_record(stamp, told)
    assert json.loads(record)["silent"][0] == {
        "name": "one",
        "host": "10.0.0.8:5000",
        "since_ms": 1_750_000_000_000,
        "in_flight": 10,
        "offset": 90,
    }
    assert decode_record(record) == (stamp, told)


@pytest.mark.parametrize("silent", [5, "one", ["one"], [{"name": "one"}]])
def test_silent_consumers_that_are_none_are_refused(silent: object) -> None:
    record = json.dumps({**json.loads(GOLDEN[1]), "silent": silent}).encode()
    with pytest.raises(InvalidRequestError, match="silent consumers"):
        decode_record(record)


def test_fields_that_a_later_broker_adds_are_left_out() -> None:
    longer = json.dumps({**json.loads(GOLDEN[0]), "colour": "blue"}).encode()
    assert decode_record(longer) == decode_record(GOLDEN[0])


@pytest.mark.parametrize("other", [{"version": 2}, {"kind": "weather"}])
def test_other_versions_and_kinds_are_skipped(other: dict[str, object]) -> None:
    record = json.dumps({**json.loads(GOLDEN[0]), **other}).encode()
    assert (decode_record(record), read(record)) == (None, None)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (b"\xff", "no JSON"),
        (b"[]", "no version"),
        (b"{}", "no version"),
        (b'{"version":1,"kind":"topic","broker_id":"1"}', "lacks start_id"),
    ],
)
def test_what_is_no_record_is_refused(record: bytes, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        decode_record(record)


def test_a_tick_of_the_longest_records_fits_one_batch() -> None:
    name, number = "n" * NAME_BYTES_MAX, 2**63
    topic = f"/{name}/{name}"
    stamp = Stamp(broker_id=str(number), start_id=str(number), sequence=number, at_ms=number, full=False, gone=False)
    texts = {"topic": topic, "topic_id": str(number)}
    of_topic = {**texts, "partition_base": topic}
    of_subscription = {**texts, "subscription": '"' * NAME_BYTES_MAX, "subscription_id": str(number)}
    later = SubscriptionReading._fields[SubscriptionReading._fields.index("blocked") :]
    silent = SilentConsumer('"' * NAME_BYTES_MAX, "h" * 64, number, number, number)
    names = {"silent": (silent,) * TELEMETRY_SILENT_MAX}
    of_today: dict[str, Any] = {**longest_numbers(BILLING), **dict.fromkeys(later, number), **of_subscription, **names}
    longest: list[Reading] = [
        TopicReading(**{**longest_numbers(ORDERS), **of_topic}),
        SubscriptionReading(**of_today),
    ]
    sizes = [len(encode_record(stamp, reading)) for reading in longest]
    assert max(sizes) * TELEMETRY_RECORDS_MAX < BATCH_BYTES_MAX - MIB


def longest_numbers(reading: Reading) -> dict[str, Any]:
    return {field: 2**63 if isinstance(value, int) else value for field, value in reading._asdict().items()}

"""The record batch body: its bytes, and what is refused."""

import struct

import pytest

from danube.model.errors import InvalidBatchError
from danube.model.limits.broker import BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from danube.runtime.checksum import with_crc
from danube.storage.batches.batch import (
    BatchHeader,
    BatchOrigin,
    RecordKind,
    RecordView,
    body_bytes,
    check,
    encode_messages,
    encode_payloads,
    read_header,
    records,
)

ORIGIN = BatchOrigin(producer_id=11, base_sequence=22, first_publish_ms=33, last_publish_ms=44)
BODY = encode_payloads(b"shared", [b"a", b"", b"ccc"], ORIGIN)


def with_byte(at: int, value: int) -> bytes:
    """`BODY` with one byte set and the checksum right."""
    changed = bytearray(BODY[:-4])
    changed[at] = value
    return with_crc(bytes(changed))


def test_body_is_what_the_drawing_says() -> None:
    drawn = b"DnBt" + bytes([1, 0, 0, 0]) + struct.pack("<QQQQII", 11, 22, 33, 44, 3, 6)
    drawn += b"shared" + struct.pack("<III", 1, 0, 3) + b"accc"
    assert with_crc(drawn) == BODY


def test_checked_body_answers_its_header() -> None:
    assert check(BODY) == BatchHeader(RecordKind.PAYLOADS, 11, 22, 33, 44, 3, 6)


def test_messages_share_nothing() -> None:
    assert check(encode_messages([b"x", b"y"])) == BatchHeader(RecordKind.MESSAGES, 0, 0, 0, 0, 2, 0)


def test_records_come_back_by_range() -> None:
    view = RecordView(BODY)
    assert (view.shared, view.slice(0, 3), view.slice(1, 2), view.slice(3, 3)) == (
        b"shared",
        [b"a", b"", b"ccc"],
        [b""],
        [],
    )
    assert records(BODY, 2, 3) == [b"ccc"]


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (0, 4), (2, 1)])
def test_range_outside_the_batch_is_an_index_error(first: int, last: int) -> None:
    with pytest.raises(IndexError):
        RecordView(BODY).slice(first, last)


def test_body_size_is_known_before_encoding() -> None:
    assert body_bytes(len(b"shared"), 3, 4) == len(BODY)


@pytest.mark.parametrize("length", range(len(BODY)))
def test_truncated_body_is_refused(length: int) -> None:
    with pytest.raises(InvalidBatchError):
        check(BODY[:length])


def test_every_flipped_bit_is_refused() -> None:
    for bit in range(len(BODY) * 8):
        flipped = bytearray(BODY)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidBatchError):
            check(bytes(flipped))


def test_unknown_codec_is_refused_by_name() -> None:
    with pytest.raises(InvalidBatchError, match="codec 1"):
        read_header(with_byte(5, 1))
    with pytest.raises(InvalidBatchError, match="codec 9"):
        read_header(with_byte(5, 9))


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (4, 2, "version"),
        (6, 2, "record kind 2"),
        (7, 1, "version"),
        (40, 0, "not 0"),
        (40, 4, "add up|shorter"),
        (40, 2, "add up"),
        (42, 2, "131075"),
        (44, 7, "add up"),
        (44, 255, "shorter than its counts"),
        (54, 2, "add up"),
        (32, 1, "publish time"),
        (6, 1, "shares nothing"),
    ],
)
def test_body_with_a_sound_checksum_and_wrong_fields_is_refused(at: int, value: int, why: str) -> None:
    with pytest.raises(InvalidBatchError, match=why):
        check(with_byte(at, value))


def test_batch_without_records_or_with_too_many_is_not_made() -> None:
    for count in (0, BATCH_RECORDS_MAX + 1):
        with pytest.raises(InvalidBatchError, match="records"):
            encode_messages([b""] * count)


def test_batch_at_the_bounds_is_made_and_accepted() -> None:
    assert check(encode_messages([b""] * BATCH_RECORDS_MAX)).count == BATCH_RECORDS_MAX
    largest = bytes(BATCH_BYTES_MAX - body_bytes(0, 1, 0))
    assert check(encode_messages([largest])).count == 1
    with pytest.raises(InvalidBatchError, match="limit"):
        encode_messages([largest + b"x"])


def test_too_large_a_body_is_refused_before_its_checksum_is_computed() -> None:
    with pytest.raises(InvalidBatchError, match="limit"):
        check(bytes(BATCH_BYTES_MAX + 1))

"""Headers of files and rounds: their bytes, and that nothing in them can change unseen."""

import struct

import pytest

from danube.runtime.checksum import with_crc
from danube.storage.journal.format import (
    HEADER_BYTES,
    FileHeader,
    RoundHeader,
    decode_file_header,
    decode_round_header,
    encode_file_header,
    encode_round_header,
    file_name,
    file_sequence,
    newer_version,
)
from danube.storage.journal.writer import needs_new_file

FILE = FileHeader(journal_id=1, broker_id=2, sequence=3, base_position=4, synced_to=5)
ROUND = RoundHeader(number=1, position=2, synced_to=3, journal_id=4, content_bytes=5, envelopes=6)


def test_file_header_is_what_the_drawing_says() -> None:
    assert encode_file_header(FILE) == with_crc(b"DnJf\x01\0\0\0" + struct.pack("<QQQQQ", 1, 2, 3, 4, 5))
    assert len(encode_file_header(FILE)) == HEADER_BYTES
    assert decode_file_header(encode_file_header(FILE) + b"more") == FILE


def test_round_header_is_what_the_drawing_says() -> None:
    assert encode_round_header(ROUND) == with_crc(b"DnRd\x01\0\0\0" + struct.pack("<QQQQII", 1, 2, 3, 4, 5, 6))
    assert len(encode_round_header(ROUND)) == HEADER_BYTES
    assert decode_round_header(b"xx" + encode_round_header(ROUND), 2) == ROUND
    assert ROUND.end_position == 2 + 52 + 5


def test_every_flipped_bit_and_truncation_of_a_header_is_seen() -> None:
    encoded_file, encoded_round = encode_file_header(FILE), encode_round_header(ROUND)
    for bit in range(HEADER_BYTES * 8):
        mask = (1 << bit).to_bytes(HEADER_BYTES, "little")
        assert decode_file_header(bytes(a ^ b for a, b in zip(encoded_file, mask, strict=True))) is None
        assert decode_round_header(bytes(a ^ b for a, b in zip(encoded_round, mask, strict=True))) is None
    for length in range(HEADER_BYTES):
        assert decode_file_header(encoded_file[:length]) is None
        assert decode_round_header(encoded_round[:length]) is None


def test_one_header_does_not_pass_for_the_other() -> None:
    assert decode_file_header(encode_round_header(ROUND)) is None
    assert decode_round_header(encode_file_header(FILE)) is None


def test_newer_version_is_told_apart() -> None:
    encoded = encode_file_header(FILE)
    assert newer_version(encoded) is None
    assert newer_version(encoded[:4] + b"\x02" + encoded[5:]) == 2
    assert newer_version(b"DnJf") is None


@pytest.mark.parametrize("name", ["1.journal", "0000000001.journal.new", "lock", "00000000001.journal"])
def test_other_files_are_not_journal_files(name: str) -> None:
    assert file_sequence(name) is None
    assert file_sequence(file_name(42)) == 42


def test_new_file_begins_when_the_next_round_would_pass_the_bound() -> None:
    assert not needs_new_file(100, 50, 150)
    assert needs_new_file(100, 51, 150)


def test_round_larger_than_a_file_goes_into_an_empty_one() -> None:
    assert not needs_new_file(HEADER_BYTES, 1_000, 150)

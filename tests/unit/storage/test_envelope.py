"""The envelope: its bytes, and that nothing in it or in its body can change unseen."""

import struct

from danube.runtime.checksum import with_crc
from danube.storage.batches.envelope import (
    ENVELOPE_BYTES,
    DataFields,
    Envelope,
    Kind,
    body_of_data,
    decode,
    encode_data,
    encode_other,
    is_body_of,
)

BODY = with_crc(b"body")
ENCODED = encode_data(3, 4, range(50, 57), 9_000, BODY)
SAYS = DataFields(3, 50, 7, len(BODY), 9_000)


def test_envelope_is_what_the_drawing_says() -> None:
    drawn = b"DnEv" + bytes([1, 1, 0, 0]) + struct.pack("<QQQIIQ", 3, 4, 50, 7, len(BODY), 9_000) + BODY[-4:]
    assert with_crc(drawn) == ENCODED
    assert len(ENCODED) == ENVELOPE_BYTES


def test_envelope_comes_back_from_the_middle_of_a_buffer() -> None:
    envelope = decode(b"before" + ENCODED + BODY, 6)
    assert envelope == Envelope(Kind.DATA, 3, 4, 50, 7, len(BODY), 9_000, int.from_bytes(BODY[-4:], "little"))
    assert envelope.total_bytes == len(ENCODED) + len(BODY)


def test_other_kinds_hold_no_offsets() -> None:
    envelope = decode(encode_other(Kind.CURSOR, 3, 4, 9_000, BODY))
    assert envelope is not None
    assert (envelope.kind, envelope.base_offset, envelope.count) == (Kind.CURSOR, 0, 0)


def test_every_flipped_bit_of_an_envelope_is_seen() -> None:
    for bit in range(ENVELOPE_BYTES * 8):
        flipped = bytearray(ENCODED)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode(bytes(flipped)) is None


def test_truncated_envelope_is_none() -> None:
    assert all(decode(ENCODED[:length]) is None for length in range(ENVELOPE_BYTES))


def test_only_its_own_body_is_accepted() -> None:
    envelope = decode(ENCODED)
    assert envelope is not None
    assert is_body_of(envelope, BODY)
    assert not is_body_of(envelope, with_crc(b"yodb"))
    assert not is_body_of(envelope, BODY[:-1])
    for bit in range(len(BODY) * 8):
        flipped = bytearray(BODY)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not is_body_of(envelope, bytes(flipped))


def test_unknown_kinds_and_versions_are_none() -> None:
    for at, value in ((4, 2), (5, 0), (5, 4), (6, 1)):
        changed = bytearray(ENCODED[:-4])
        changed[at] = value
        assert decode(with_crc(bytes(changed))) is None


def test_the_body_of_a_batch_that_is_known_comes_back_from_the_middle_of_a_buffer() -> None:
    assert body_of_data(b"before" + ENCODED + BODY + b"behind", 6, SAYS) == BODY


def test_no_flipped_bit_of_a_batch_that_is_known_passes() -> None:
    for bit in range((ENVELOPE_BYTES + len(BODY)) * 8):
        flipped = bytearray(ENCODED + BODY)
        flipped[bit // 8] ^= 1 << bit % 8
        assert body_of_data(bytes(flipped), 0, SAYS) is None


def test_no_part_of_a_batch_passes_for_it() -> None:
    whole = ENCODED + BODY
    assert all(body_of_data(whole[:length], 0, SAYS) is None for length in range(len(whole)))


def test_a_sound_batch_in_the_place_of_another_is_not_taken_for_it() -> None:
    others = [
        encode_data(4, 4, range(50, 57), 9_000, BODY) + BODY,
        encode_data(3, 4, range(51, 58), 9_000, BODY) + BODY,
        encode_data(3, 4, range(50, 58), 9_000, BODY) + BODY,
        encode_data(3, 4, range(50, 57), 9_001, BODY) + BODY,
        encode_other(Kind.CURSOR, 3, 4, 9_000, BODY) + BODY,
        ENCODED + with_crc(b"yodb"),
    ]
    assert [body_of_data(other, 0, SAYS) for other in others] == [None] * len(others)

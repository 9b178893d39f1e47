"""Cursor records, and the cursors that wait to be written."""

import struct

from danube.model.limits.broker import CURSOR_FAILURES_MAX, CURSOR_RANGES_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange
from danube.runtime.checksum import with_crc
from danube.storage.batches.cursors import PendingCursors, decode_cursor, encode_cursor, encoded_bytes
from tests.golden.storage.reader import read_cursor
from tests.unit.storage.journal_world import Told

CURSOR = Cursor(5, (OffsetRange(7, 9), OffsetRange(12, 13)))
ENCODED = encode_cursor(99, CURSOR)
FAILED = Cursor(5, CURSOR.beyond, (FailedRange(5, 7, 1), FailedRange(9, 10, 3)))
FAILED_ENCODED = encode_cursor(99, FAILED)
NOBODY = None


def test_cursor_is_what_the_drawing_says() -> None:
    drawn = b"DnCu" + bytes([1, 0, 0, 0]) + struct.pack("<QQI", 99, 5, 2) + struct.pack("<QQQQ", 7, 9, 12, 13)
    assert with_crc(drawn + bytes(4)) == ENCODED
    assert encoded_bytes(CURSOR) == len(ENCODED)


def test_cursor_comes_back() -> None:
    assert decode_cursor(ENCODED) == (99, CURSOR)
    assert decode_cursor(encode_cursor(1, Cursor(0))) == (1, Cursor(0))


def test_counts_of_failures_are_what_the_drawing_says_and_come_back() -> None:
    drawn = b"DnCu" + bytes([1, 0, 0, 0]) + struct.pack("<QQI", 99, 5, 2) + struct.pack("<QQQQ", 7, 9, 12, 13)
    drawn += struct.pack("<I", 2) + struct.pack("<QQI", 5, 7, 1) + struct.pack("<QQI", 9, 10, 3)
    assert with_crc(drawn) == FAILED_ENCODED
    assert encoded_bytes(FAILED) == len(FAILED_ENCODED)
    assert decode_cursor(FAILED_ENCODED) == (99, FAILED)
    assert read_cursor(FAILED_ENCODED) == (99, 5, [(7, 9), (12, 13)])


def test_counts_of_failures_that_are_not_as_many_as_announced_are_none() -> None:
    for count in (0, 1, 3, CURSOR_FAILURES_MAX + 1):
        changed = bytearray(FAILED_ENCODED[:-4])
        changed[60:64] = count.to_bytes(4, "little")
        assert decode_cursor(with_crc(bytes(changed))) is None
    assert decode_cursor(with_crc(FAILED_ENCODED[:60])) is None


def test_counts_of_failures_past_the_bound_are_left_out_from_the_far_end() -> None:
    failed = tuple(FailedRange(2 * n, 2 * n + 1, 1) for n in range(CURSOR_FAILURES_MAX + 10))
    assert decode_cursor(encode_cursor(1, Cursor(0, failed=failed))) == (
        1,
        Cursor(0, failed=failed[:CURSOR_FAILURES_MAX]),
    )


def test_a_cursor_within_a_shorter_log_says_nothing_of_what_is_gone() -> None:
    assert FAILED.within(8) == Cursor(5, (OffsetRange(7, 8),), (FailedRange(5, 7, 1),))
    assert FAILED.within(4) == Cursor(4)


def test_every_flipped_bit_and_truncation_of_a_cursor_is_seen() -> None:
    for bit in range(len(ENCODED) * 8):
        flipped = bytearray(ENCODED)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_cursor(bytes(flipped)) is None
    assert all(decode_cursor(ENCODED[:length]) is None for length in range(len(ENCODED)))


def test_record_whose_count_is_not_its_length_is_none() -> None:
    for count in (1, 3, CURSOR_RANGES_MAX + 1):
        changed = bytearray(ENCODED[:-4])
        changed[24:28] = count.to_bytes(4, "little")
        assert decode_cursor(with_crc(bytes(changed))) is None


def test_ranges_past_the_bound_are_left_out_from_the_far_end() -> None:
    ranges = tuple(OffsetRange(2 * n, 2 * n + 1) for n in range(1, CURSOR_RANGES_MAX + 10))
    assert decode_cursor(encode_cursor(1, Cursor(0, ranges))) == (1, Cursor(0, ranges[:CURSOR_RANGES_MAX]))


def test_only_the_last_cursor_of_a_subscription_waits() -> None:
    pending = PendingCursors()
    for position in range(5):
        pending.put((1, 1), Cursor(position), 3, NOBODY)
    taken = pending.take(10_000)
    assert {key: (one.cursor, one.epoch) for key, one in taken.items()} == {(1, 1): (Cursor(4), 3)}
    assert not pending


def test_all_who_wait_for_a_cursor_are_kept_with_it() -> None:
    pending = PendingCursors()
    first, second = Told(), Told()
    pending.put((1, 1), Cursor(1), 0, first)
    pending.put((1, 1), Cursor(2), 0, second)
    assert pending.urgent
    assert pending.take(0)[1, 1].waiting == [first, second]
    assert not pending.urgent


def test_the_longest_waiting_go_first_and_the_rest_stays() -> None:
    pending = PendingCursors()
    for subscription in range(4):
        pending.put((1, subscription), Cursor(0), 0, NOBODY)
    pending.put((1, 0), Cursor(8), 0, NOBODY)
    assert list(pending.take(2 * encoded_bytes(Cursor(0)))) == [(1, 0), (1, 1)]
    assert len(pending) == 2


def test_large_cursor_does_not_ride_along_but_goes_when_it_is_due() -> None:
    pending = PendingCursors()
    pending.put((1, 1), CURSOR, 0, NOBODY)
    assert pending.take(encoded_bytes(CURSOR) - 1) == {}
    pending.hurry()
    assert list(pending.take(encoded_bytes(CURSOR) - 1)) == [(1, 1)]


def test_failed_cursor_waits_again_unless_a_newer_one_came() -> None:
    pending = PendingCursors()
    pending.put((1, 1), Cursor(1), 0, NOBODY)
    pending.put((1, 2), Cursor(1), 0, NOBODY)
    failed = pending.take(10_000)
    pending.put((1, 2), Cursor(5), 0, NOBODY)
    for key, one in failed.items():
        pending.put_back(key, one)
    assert {key: one.cursor for key, one in pending.take(10_000).items()} == {(1, 1): Cursor(1), (1, 2): Cursor(5)}

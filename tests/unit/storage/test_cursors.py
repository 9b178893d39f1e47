"""Cursor records, and the cursors that wait to be written."""

import msgspec
import pytest

from danube.model.errors import NewerDataFolderError
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
NOBODY = None


@pytest.mark.parametrize("cursor", [CURSOR, FAILED, Cursor(0), Cursor(2**63, (OffsetRange(2**63 + 1, 2**63 + 2),))])
def test_cursor_comes_back_as_the_documents_say(cursor: Cursor) -> None:
    encoded = encode_cursor(99, cursor)
    assert decode_cursor(encoded) == (99, cursor)
    assert read_cursor(encoded) == (99, cursor.position, list(cursor.beyond))
    assert len(encoded) <= encoded_bytes(cursor)


def sealed(*fields: object) -> bytes:
    return with_crc(b"DnCu\1\0" + msgspec.msgpack.encode(fields))


def test_what_no_danube_writes_is_no_cursor_even_with_the_right_checksum() -> None:
    assert decode_cursor(sealed(9, 1, [[2, 3]], [[4, 5, 6]])) == (9, Cursor(1, ((2, 3),), ((4, 5, 6),)))  # type: ignore[arg-type]
    many = [[n, n + 1] for n in range(0, 2 * CURSOR_RANGES_MAX + 2, 2)]
    failed = [[*one, 1] for one in many[: CURSOR_FAILURES_MAX + 1]]
    for fields in [(9, 1, []), (9, 1, [[2]], []), (9, 1, [], [[2, 3]]), (9, "1", [], []), (9, 1, many, [])]:
        assert decode_cursor(sealed(*fields)) is None
    assert decode_cursor(sealed(9, 1, [], failed)) is None


def test_a_cursor_of_another_version_is_refused() -> None:
    with pytest.raises(NewerDataFolderError, match="a cursor was written by another version"):
        decode_cursor(with_crc(ENCODED[:4] + b"\2" + ENCODED[5:-4]))


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

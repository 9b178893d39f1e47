"""Whatever is encoded comes back, by any range; whatever comes from outside is judged, never believed."""

from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import InvalidBatchError
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import Cursor
from danube.runtime.checksum import is_intact, with_crc
from danube.storage.batches.batch import BatchOrigin, RecordView, check, encode_messages, encode_payloads
from danube.storage.batches.cursors import decode_cursor, encode_cursor

U64 = st.integers(0, 2**64 - 1)
RECORDS = st.lists(st.binary(max_size=40), min_size=1, max_size=40)
ORIGINS = st.builds(
    lambda producer, sequence, times: BatchOrigin(
        producer_id=producer, base_sequence=sequence, first_publish_ms=min(times), last_publish_ms=max(times)
    ),
    U64,
    U64,
    st.tuples(U64, U64),
)


@given(st.binary(max_size=60), RECORDS, ORIGINS)
def test_payloads_come_back_with_all_that_was_said_of_them(
    shared: bytes, payloads: list[bytes], origin: BatchOrigin
) -> None:
    body = encode_payloads(shared, payloads, origin)
    header = check(body)
    said = (header.producer_id, header.base_sequence, header.first_publish_ms, header.last_publish_ms, header.count)
    assert said == (
        origin.producer_id,
        origin.base_sequence,
        origin.first_publish_ms,
        origin.last_publish_ms,
        len(payloads),
    )
    assert (RecordView(body).shared, RecordView(body).slice(0, len(payloads))) == (shared, payloads)


@given(RECORDS, st.data())
def test_any_range_of_messages_is_the_slice_of_the_list(messages: list[bytes], data: st.DataObject) -> None:
    view = RecordView(encode_messages(messages))
    for _ in range(3):
        first = data.draw(st.integers(0, len(messages)))
        last = data.draw(st.integers(first, len(messages)))
        assert view.slice(first, last) == messages[first:last]


@given(RECORDS, st.data())
def test_changed_body_with_a_sound_checksum_never_reads_outside_itself(
    messages: list[bytes], data: st.DataObject
) -> None:
    changed = bytearray(encode_messages(messages)[:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    body = with_crc(bytes(changed))
    try:
        header = check(body)
    except InvalidBatchError:
        return
    view = RecordView(body)
    found = view.slice(0, header.count)
    assert len(body) == 48 + len(view.shared) + 4 * len(found) + sum(map(len, found)) + 4


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    try:
        check(noise)
    except InvalidBatchError:
        return
    raise AssertionError("noise was accepted as a batch")


@given(st.binary(max_size=100))
def test_checksum_is_of_all_before_it(content: bytes) -> None:
    assert is_intact(with_crc(content))


@given(U64, st.integers(0, 2**32), st.lists(st.tuples(st.integers(1, 500), st.integers(1, 20)), max_size=30))
def test_cursors_come_back(subscription_id: int, position: int, pieces: list[tuple[int, int]]) -> None:
    ranges = RangeSet(OffsetRange(position + start, position + start + length) for start, length in pieces)
    cursor = Cursor(position, tuple(ranges))
    assert decode_cursor(encode_cursor(subscription_id, cursor)) == (subscription_id, cursor)

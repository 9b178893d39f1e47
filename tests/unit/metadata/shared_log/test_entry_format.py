"""Entries and snapshots of a shared log as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.metadata.commands import Applied
from danube.metadata.shared_log import entry_format
from danube.metadata.shared_log.entry_format import (
    ENTRY_OVERHEAD_BYTES,
    LogEntry,
    decode_entry,
    decode_snapshot,
    encode_entry,
    encode_snapshot,
    entry_bytes,
    link_of,
    pack_requests,
    packed_bytes,
)
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import LimitReachedError, MetadataError
from danube.runtime.checksum import with_crc

numbers = st.integers(0, 2**64 - 1)
requests = st.lists(st.binary(max_size=600) | st.just(bytes(3_000)), max_size=8)
ENTRY = (
    "446e4c65010083a6617574686f7201a46c696e6b02a4626f6479c41a446e4c62010081a872657175"
    "6573747391c403726571c179494c18cb9847"
)
IMAGE = StateSnapshot(
    7,
    1,
    tuple(Entry(f"/k/{number:04}", b"v", number + 1, number + 1) for number in range(500)),
    (),
    (("x", Applied(7)),),
)


@given(numbers, numbers, requests)
def test_an_entry_reads_back_as_it_was(author: int, link: int, batch: list[bytes]) -> None:
    assert decode_entry(encode_entry(author, link, pack_requests(batch))) == LogEntry(author, link, tuple(batch))


@given(numbers, numbers, requests)
def test_no_entry_is_larger_than_was_reckoned(author: int, link: int, batch: list[bytes]) -> None:
    reckoned = ENTRY_OVERHEAD_BYTES + sum(map(packed_bytes, batch))
    body = pack_requests(batch)
    assert len(encode_entry(author, link, body)) <= entry_bytes(body) <= reckoned


def test_entries_of_the_first_version_are_read_and_written_byte_by_byte() -> None:
    golden = bytes.fromhex(ENTRY)
    assert encode_entry(1, 2, pack_requests([b"req"])) == golden
    assert decode_entry(golden) == LogEntry(1, 2, (b"req",))
    assert link_of(b"danube") == 5065058256482702207


def test_what_shrinks_is_compressed_and_what_does_not_is_left_alone() -> None:
    noise = b"".join(link_of(b"%d" % number).to_bytes(8, "little") for number in range(500))
    assert len(pack_requests([bytes(100_000)])) < 1_000
    assert noise in pack_requests([noise])


def test_a_change_of_any_byte_changes_the_link() -> None:
    entry = encode_entry(1, 2, pack_requests([b"x"]))
    changed = {link_of(entry[:at] + bytes([entry[at] ^ 1]) + entry[at + 1 :]) for at in range(len(entry))}
    assert len(changed | {link_of(entry)}) == len(entry) + 1


@given(st.binary(max_size=80))
def test_other_bytes_are_refused(noise: bytes) -> None:
    for each in (noise, with_crc(b"DnLe\1\0" + noise), encode_entry(1, 2, noise)):
        with pytest.raises(MetadataError, match="restore the service's data"):
            decode_entry(each)


def test_a_body_that_unpacks_to_more_than_any_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = encode_entry(1, 2, pack_requests([bytes(10_000)]))
    monkeypatch.setattr(entry_format._BODY, "_bytes_max", 9_000)
    with pytest.raises(MetadataError, match="larger than 9000 bytes"):
        decode_entry(entry)


@pytest.mark.parametrize("size", [24, 100, 1_000, 1_000_000])
def test_a_snapshot_reads_back_from_pieces_of_any_size(size: int) -> None:
    pieces = encode_snapshot(3, 4, IMAGE, size)
    assert all(len(piece) == size for piece in pieces[:-1])
    assert decode_snapshot(pieces) == (4, IMAGE)


def test_a_snapshot_that_lacks_a_piece_is_refused() -> None:
    pieces = encode_snapshot(3, 4, IMAGE, 200)
    for gone in range(len(pieces)):
        with pytest.raises(MetadataError):
            decode_snapshot([*pieces[:gone], *pieces[gone + 1 :]])


def test_a_snapshot_of_too_many_pieces_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_format, "METADATA_LOG_SNAPSHOT_PIECES_MAX", 2)
    with pytest.raises(LimitReachedError, match="too large for a snapshot"):
        encode_snapshot(3, 4, IMAGE, 100)

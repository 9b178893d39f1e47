"""Snapshots of the state as bytes: whole, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.metadata.commands import (
    Applied,
    Conflicted,
    Lease,
    LeaseGiven,
    LeaseMissing,
    Outcome,
    TooManyLeases,
)
from danube.metadata.replication import snapshot_format
from danube.metadata.replication.snapshot_format import decode_state, encode_state
from danube.metadata.state import State, StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import MetadataError

numbers = st.integers(0, 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
leases = st.builds(Lease, numbers, st.floats(0.1, 100.0), numbers)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Applied, numbers),
    st.builds(Conflicted, names, numbers, numbers),
    st.builds(LeaseGiven, leases),
    st.builds(LeaseMissing, numbers),
    st.just(TooManyLeases()),
)
entries = st.builds(Entry, names.map("/".__add__), st.binary(max_size=40), numbers, numbers, numbers)
snapshots = st.builds(
    StateSnapshot,
    numbers,
    numbers,
    st.lists(entries, max_size=12, unique_by=lambda entry: entry.key).map(
        lambda found: tuple(sorted(found, key=lambda entry: entry.key))
    ),
    st.lists(leases, max_size=4, unique_by=lambda lease: lease.lease_id).map(tuple),
    st.lists(st.tuples(names, outcomes), max_size=6, unique_by=lambda pair: pair[0]).map(tuple),
)


def packed(snapshot: StateSnapshot) -> bytes:
    return b"".join(encode_state(snapshot))


@given(snapshots)
def test_an_image_reads_back_as_it_was(snapshot: StateSnapshot) -> None:
    assert decode_state(packed(snapshot)) == snapshot


GOLDEN = (
    "444e4249010001000e0000007f69ed6a78019bcacec8c8c80c0003b300a313000000d9d31b3678019b3875917ee2114643667646001b62035a"
    "120000007739233478019b3899f1b483080318300100192902473e000000097ff7f078019b3c7961c572c782829cccd414f6a90b2b5739e7e7"
    "a5e5642697a4a62cd24f64649abab06a954f6a6271aa7b66596a1ee369071106080000bc7d14930000000000000000"
)


def test_an_image_of_the_first_version_is_read() -> None:
    outcomes: tuple[tuple[str, Outcome], ...] = (
        ("x", Applied(7)),
        ("y", Conflicted("/a", 1, 2)),
        ("z", LeaseGiven(Lease(1, 5.0))),
    )
    expected = StateSnapshot(7, 1, (Entry("/a", b"1", 3, 7, 1),), (Lease(1, 5.0, 2),), outcomes)
    assert decode_state(bytes.fromhex(GOLDEN)) == expected


def test_one_of_many_blocks_reads_back_as_it_was() -> None:
    snapshot = StateSnapshot(
        5_000,
        3_000,
        tuple(Entry(f"/k/{number:05}", b"v" * (number % 50), number + 1, number + 1) for number in range(4_097)),
        tuple(Lease(number, 1.5, number) for number in range(2_001)),
        tuple((f"c{number}", Applied(number)) for number in range(4_000)),
    )
    assert len(list(encode_state(snapshot))) == 1 + 1 + 17 + 2 + 2 + 1
    assert decode_state(packed(snapshot)) == snapshot
    assert State.of(decode_state(packed(snapshot))).snapshot() == snapshot


@given(snapshots, st.data())
def test_damage_anywhere_is_noticed(snapshot: StateSnapshot, data: st.DataObject) -> None:
    whole = bytearray(packed(snapshot))
    position = data.draw(st.integers(0, len(whole) - 1))
    cut = bytes(whole[:position])
    whole[position] ^= 1 << data.draw(st.integers(0, 7))
    for damaged in (cut, bytes(whole)):
        if damaged[7:8] != packed(snapshot)[7:8]:
            continue  # a byte that is kept free
        with pytest.raises(MetadataError, match="take another copy"):
            decode_state(damaged)


def test_a_version_that_never_was_is_refused() -> None:
    whole = bytearray(packed(StateSnapshot(0, 0, (), (), ())))
    whole[4] = 0
    with pytest.raises(MetadataError, match="format 0"):
        decode_state(bytes(whole))


@given(st.binary(max_size=100))
def test_other_bytes_are_no_snapshot(noise: bytes) -> None:
    for each in (noise, b"DNBI\x01\x00\x01\x00" + noise):
        with pytest.raises(MetadataError):
            decode_state(each)


def test_what_follows_an_image_is_not_passed_over() -> None:
    with pytest.raises(MetadataError, match="something follows"):
        decode_state(packed(StateSnapshot()) + b"x")


def test_a_newer_format_is_refused_by_its_number() -> None:
    newer = bytearray(packed(StateSnapshot()))
    newer[4] = 2
    with pytest.raises(MetadataError, match="format 2"):
        decode_state(bytes(newer))


@pytest.mark.parametrize(
    "blocks",
    [
        [[0, 0, 1, 0, 0]],
        [[0, 0, 0, 0, 0], [1]],
        [[0, 0, 1, 0, 0], [["/a", b"", 1]]],
        [[0, 0, 0, 0, 1], [["id", "Nothing"]]],
        [[0, 0, 1, 0, 0], 7],
        [7],
        [[0]],
    ],
)
def test_blocks_that_say_something_else_than_they_hold_are_refused(blocks: list[object]) -> None:
    made = b"".join(
        [
            b"DNBI\x01\x00\x01\x00",
            *(snapshot_format._block(block) for block in blocks),  # type: ignore[arg-type]
            snapshot_format._BLOCK.pack(0, 0),
        ]
    )
    with pytest.raises(MetadataError):
        decode_state(made)


def test_a_block_that_unpacks_to_more_than_any_block_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    large = StateSnapshot(1, 0, (Entry("/a", bytes(2_000), 1, 1),))
    packed = b"".join(encode_state(large))
    monkeypatch.setattr(snapshot_format, "METADATA_SNAPSHOT_BLOCK_BYTES_MAX", 1_000)
    with pytest.raises(MetadataError, match="larger than 1000 bytes"):
        decode_state(packed)

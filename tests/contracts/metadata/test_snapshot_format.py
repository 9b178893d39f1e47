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
from danube.metadata.replication.snapshot_format import (
    _HEAD,
    _PART,
    _Head,
    _Part,
    _Remembered,
    decode_state,
    encode_state,
)
from danube.metadata.state import State, StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import MetadataError, NewerRecordError
from danube.runtime.checksum import with_crc
from danube.runtime.sealed import framed, unframed

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
    "3f000000446e4d73010085a87265766973696f6e07ad6c6173745f6c656173655f696401a7656e747269657301a66c656173657301a86f"
    "7574636f6d6573033a19d1d91e000000446e4d70010081a7656e74726965739195a22f61c401310307010a6bba041f000000446e4d7001"
    "0081a66c6561736573919301cb401400000000000002fff0405a3f000000446e4d70010081a86f7574636f6d65739396a1789107c0c0c0"
    "c096a179c093a22f610102c0c0c096a17ac0c0919301cb401400000000000000c0c027b41820"
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
    assert len(list(encode_state(snapshot))) == 1 + 17 + 2 + 2
    assert decode_state(packed(snapshot)) == snapshot
    assert State.of(decode_state(packed(snapshot))).snapshot() == snapshot


@given(snapshots, st.data())
def test_damage_anywhere_is_noticed(snapshot: StateSnapshot, data: st.DataObject) -> None:
    whole = bytearray(packed(snapshot))
    position = data.draw(st.integers(0, len(whole) - 1))
    cut = bytes(whole[:position])
    whole[position] ^= 1 << data.draw(st.integers(0, 7))
    for damaged in (cut, bytes(whole)):
        if damaged == packed(snapshot):
            continue
        with pytest.raises(MetadataError, match="take another copy"):
            decode_state(damaged)


@given(st.binary(max_size=100))
def test_other_bytes_are_no_snapshot(noise: bytes) -> None:
    for each in (noise, packed(StateSnapshot(0, 0, (), (), ())) + noise + b"x"):
        with pytest.raises(MetadataError):
            decode_state(each)


def test_what_follows_an_image_is_not_passed_over() -> None:
    with pytest.raises(MetadataError, match="something follows"):
        decode_state(packed(StateSnapshot()) + b"x")


@pytest.mark.parametrize("version", [0, 2])
def test_another_version_is_refused_by_its_number(version: int) -> None:
    sealed, _ = unframed(packed(StateSnapshot()))
    with pytest.raises(NewerRecordError, match=f"format {version}"):
        decode_state(framed(with_crc(sealed[:4] + bytes([version]) + sealed[5:-4])))


ENTRY = Entry("/a", b"", 1, 1)


@pytest.mark.parametrize(
    ("head", "parts"),
    [
        (_Head(0, 0, 1, 0, 0), []),
        (_Head(0, 0, 0, 0, 0), [_Part(entries=(ENTRY,))]),
        (_Head(0, 0, 1, 0, 0), [_Part(entries=(ENTRY,)), _Part(entries=(ENTRY,))]),
        (_Head(0, 0, 0, 0, 1), [_Part(outcomes=(_Remembered("id"),))]),
        (_Head(0, 0, 0, 0, 1), [_Part(outcomes=(_Remembered("id", Applied(1), too_many_leases=TooManyLeases()),))]),
    ],
)
def test_parts_that_hold_something_else_than_the_head_says_are_refused(head: _Head, parts: list[_Part]) -> None:
    made = b"".join([framed(_HEAD.seal(head)), *(framed(_PART.seal(part)) for part in parts)])
    with pytest.raises(MetadataError, match="take another copy"):
        decode_state(made)


def test_a_part_that_unpacks_to_more_than_any_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    large = packed(StateSnapshot(1, 0, (Entry("/a", bytes(2_000), 1, 1),)))
    monkeypatch.setattr(_PART, "_bytes_max", 1_000)
    with pytest.raises(MetadataError, match="larger than 1000 bytes"):
        decode_state(large)

"""Requests as bytes: what was written is what is read, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.metadata.commands import (
    Command,
    ExpireLease,
    GrantLease,
    RenewLease,
    RevokeLease,
    Transact,
)
from danube.metadata.replication.command_format import Request, decode_request, encode_request, packb, unpackb
from danube.metadata.store import Condition, Delete, DeletePrefix, Put, Transaction
from danube.model.errors import InvalidRequestError, MetadataError
from danube.model.limits.metadata import LEASE_TTL_S_MAX, METADATA_REQUEST_BYTES_MAX, METADATA_VALUE_BYTES_MAX

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
keys = st.text(st.sampled_from("abé日😀-%"), min_size=1, max_size=8).map(lambda name: f"/{name}")
numbers = st.integers(-(2**63), 2**63 - 1)
writes = st.one_of(
    st.builds(Put, keys, st.binary(max_size=30), numbers),
    st.builds(Delete, keys),
    st.builds(DeletePrefix, keys),
)
transactions = st.builds(
    Transaction,
    texts,
    st.lists(st.builds(Condition, keys, numbers), max_size=4).map(tuple),
    st.lists(writes, max_size=4).map(tuple),
)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(Transact, transactions),
    st.builds(GrantLease, texts, st.floats(0.001, LEASE_TTL_S_MAX)),
    st.builds(RenewLease, numbers),
    st.builds(RevokeLease, numbers),
    st.builds(ExpireLease, numbers, numbers),
)
requests = st.builds(Request, texts, commands)
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.floats() | st.text(max_size=3) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=12,
)


@given(requests)
def test_every_request_reads_back_as_it_was(request: Request) -> None:
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize(
    ("command", "golden"),
    [
        (GrantLease("g", 5.0), "95a17201a167a167cb4014000000000000"),
        (RenewLease(1), "94a17201a17201"),
        (RevokeLease(1), "94a17201a17601"),
        (ExpireLease(1, 2), "95a17201a1650102"),
        (
            Transact(
                Transaction("t", (Condition("/a", 0),), (Put("/a", b"1", 3), Delete("/b"), DeletePrefix("/c"))),
            ),
            "96a17201a154a1749192a22f61009394a170a22f61c401310392a164a22f6292a178a22f63",
        ),
    ],
)
def test_requests_of_the_first_version_are_read_and_written_byte_by_byte(command: Command, golden: str) -> None:
    assert encode_request(Request("r", command)).hex() == golden
    assert decode_request(bytes.fromhex(golden)) == Request("r", command)


@given(requests, st.data())
def test_a_request_that_was_cut_or_changed_is_refused_or_is_another_one(request: Request, data: st.DataObject) -> None:
    packed = bytearray(encode_request(request))
    position = data.draw(st.integers(0, len(packed) - 1))
    packed[position] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(packed), bytes(packed[:position])):
        try:
            read = decode_request(damaged)
        except MetadataError:
            continue
        assert read != request


@given(st.one_of(st.binary(max_size=60), plain.map(packb), st.lists(plain, max_size=6).map(packb)))
def test_anything_else_is_refused_and_never_breaks_the_reader(packed: bytes) -> None:
    with pytest.raises(MetadataError):
        decode_request(packed)


@pytest.mark.parametrize(
    "fields",
    [
        ["r", 1, "T", "x", [["/a", 0]], [["z", "/a"]]],
        ["r", 1, "T", "x", [["/a", 0]], [["p", "/a", "text", 0]]],
        ["r", 1, "T", "x", [["no-path", 0]], []],
        ["r", 1, "T", "x", [["/a", True]], []],
        ["r", 1, "g", "x", float("nan")],
        ["r", 1, "g", "x", 1e9],
        ["r", 1, "e", 1],
        ["r", 1, "?", 1],
        ["r", "1", "r", 1],
        [b"r", 1, "r", 1],
        [],
    ],
)
def test_what_no_rule_knows_is_refused(fields: list[object]) -> None:
    with pytest.raises(MetadataError):
        decode_request(packb(fields))


def test_extension_types_are_not_read() -> None:
    with pytest.raises(ValueError, match="extension type"):
        unpackb(b"\xd4\x01\x00")


def test_a_request_of_newer_rules_is_read_so_that_the_rules_can_refuse_it() -> None:
    command = RenewLease(1, version=99)
    assert decode_request(encode_request(Request("r", command))).command == command


def test_a_request_that_is_too_large_says_how_large_it_may_be() -> None:
    count = METADATA_REQUEST_BYTES_MAX // METADATA_VALUE_BYTES_MAX + 1
    puts = tuple(Put(f"/{number}", bytes(METADATA_VALUE_BYTES_MAX)) for number in range(count))
    with pytest.raises(InvalidRequestError, match=str(METADATA_REQUEST_BYTES_MAX)):
        encode_request(Request("r", Transact(Transaction("x", (), puts))))


@pytest.mark.parametrize(
    "command", [RenewLease(2**64), Transact(Transaction("\ud800", (), ())), ExpireLease(1, -(2**63) - 1)]
)
def test_what_cannot_be_written_down_is_the_callers_fault(command: Command) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be written down"):
        encode_request(Request("r", command))

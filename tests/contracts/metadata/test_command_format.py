"""Requests as bytes: what was written is what is read, and nothing else is taken for one."""

import msgspec
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
from danube.metadata.replication.command_format import Request, decode_request, encode_request
from danube.metadata.store import Condition, Delete, DeletePrefix, Put, Transaction
from danube.model.errors import InvalidRequestError, MetadataError
from danube.model.limits.metadata import LEASE_TTL_S_MAX, METADATA_REQUEST_BYTES_MAX, METADATA_VALUE_BYTES_MAX
from danube.runtime.checksum import with_crc

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


@given(requests)
def test_every_request_reads_back_as_it_was(request: Request) -> None:
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize(
    ("command", "golden"),
    [
        (
            GrantLease("g", 5.0),
            (
                "446e4d71010082aa726571756573745f6964a172a56772616e7482aa636f6d6d616e645f6964a167a574746c5f"
                "73cb4014000000000000226f93d8"
            ),
        ),
        (
            RenewLease(1),
            "446e4d71010082aa726571756573745f6964a172a572656e657781a86c656173655f696401c91d78f0",
        ),
        (
            RevokeLease(1),
            "446e4d71010082aa726571756573745f6964a172a67265766f6b6581a86c656173655f69640110a0ce2f",
        ),
        (
            ExpireLease(1, 2),
            "446e4d71010082aa726571756573745f6964a172a665787069726582a86c656173655f696401a872656e6577616c7302071e0a3a",
        ),
        (
            Transact(Transaction("t", (Condition("/a", 0),), (Put("/a", b"1", 3), Delete("/b"), DeletePrefix("/c")))),
            (
                "446e4d71010082aa726571756573745f6964a172a87472616e7361637483ae7472616e73616374696f6e5f6964"
                "a174aa636f6e646974696f6e739192a22f6100a67772697465739394a3707574a22f61c401310394a664656c65"
                "7465a22f62c4000094ad64656c6574655f707265666978a22f63c400009217e556"
            ),
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


def sealed(body: object) -> bytes:
    return with_crc(b"DnMq\1\0" + msgspec.msgpack.encode(body))


@given(st.binary(max_size=60))
def test_anything_else_is_refused_and_never_breaks_the_reader(noise: bytes) -> None:
    for each in (noise, with_crc(b"DnMq\1\0" + noise)):
        with pytest.raises(MetadataError):
            decode_request(each)


def transact(conditions: object, writes: object) -> object:
    return {"request_id": "r", "transact": {"transaction_id": "x", "conditions": conditions, "writes": writes}}


@pytest.mark.parametrize(
    "body",
    [
        transact([["/a", 0]], [["other", "/a", b"", 0]]),
        transact([["/a", 0]], [["put", "/a", "text", 0]]),
        transact([["no-path", 0]], []),
        transact([["/a", True]], []),
        transact([["/a"]], []),
        {"request_id": "r", "grant": {"command_id": "x", "ttl_s": float("nan")}},
        {"request_id": "r", "grant": {"command_id": "x", "ttl_s": 1e9}},
        {"request_id": "r", "expire": {"lease_id": 1}},
        {"request_id": "r", "other": {}},
        {"request_id": "r"},
        {"request_id": "r", "renew": {"lease_id": 1}, "revoke": {"lease_id": 1}},
        {"request_id": b"r", "renew": {"lease_id": 1}},
        [],
    ],
)
def test_what_no_rule_knows_is_refused(body: object) -> None:
    assert decode_request(sealed({"request_id": "r", "renew": {"lease_id": 1}})).command == RenewLease(1)
    with pytest.raises(MetadataError):
        decode_request(sealed(body))


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

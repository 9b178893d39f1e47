"""Header blocks: the cache of decoded blocks, and heads of requests and answers."""

import hpack
import pytest

from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol.frames import ErrorCode, ProtocolError
from danube.rpc.http2.protocol.header_blocks import HeaderDecoder, encode, encode_secret
from danube.rpc.http2.protocol.heads import (
    percent_decoded,
    percent_encoded,
    read_timeout_s,
    request_head,
    response_head,
    timeout_text,
)

Fields = list[tuple[bytes, bytes]]
REQUEST: Fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C")]


def decoder() -> HeaderDecoder[Fields]:
    return HeaderDecoder(list, 65_536)


def test_repeated_block_is_decoded_once() -> None:
    decoded, block = decoder(), encode(REQUEST)
    assert decoded.decode(block) == (REQUEST, None)
    assert decoded.decode(block) is decoded.decode(block)


def test_calls_with_other_deadlines_share_one_head() -> None:
    decoded, encoder = decoder(), hpack.Encoder()
    heads = []
    for number in range(200):
        timeout = b"%du" % (4_990_000 + number)
        head, read = decoded.decode(encoder.encode([*REQUEST, (b"grpc-timeout", timeout), (b"te", b"trailers")]))
        heads.append(head)
        assert read == timeout
    assert all(head is heads[0] for head in heads)
    assert decoded.cached <= 2


@pytest.mark.parametrize("timeouts", [[b"1x"], [b"123456789S"], [b""], [b"1\n"], [b"S"], [b"1S", b"2S"]])
def test_timeout_that_is_none_stays_among_the_fields(timeouts: list[bytes]) -> None:
    fields = [*REQUEST, *((b"grpc-timeout", timeout) for timeout in timeouts)]
    assert decoder().decode(encode(fields)) == (fields, None)


def test_block_that_changes_the_table_forgets_the_earlier_blocks() -> None:
    decoded = decoder()
    decoded.decode(b"\x40\x01a\x01a")
    assert decoded.decode(b"\xbe")[0] == [(b"a", b"a")]
    decoded.decode(b"\x40\x01b\x01b")
    assert decoded.decode(b"\xbe")[0] == [(b"b", b"b")]


def test_entry_inserted_twice_shifts_the_others() -> None:
    """A cache that compares the newest entry and the length sees no change."""
    decoded = decoder()
    for name in (b"a", b"b"):
        decoded.decode(b"\x40\x01" + name + b"\x01" + name)
    for _ in range(200):  # until each insertion evicts another entry
        decoded.decode(b"\x40\x01b\x01b")
    decoded.decode(b"\x40\x01a\x01a" + b"\x40\x01b\x01b")
    second = b"\xbf"  # the entry before the newest
    assert decoded.decode(second)[0] == [(b"a", b"a")]
    decoded.decode(b"\x40\x01b\x01b")
    assert decoded.decode(second)[0] == [(b"b", b"b")]


def test_table_that_is_emptied_and_grown_again_in_one_block_empties_the_cache() -> None:
    decoded = decoder()
    decoded.decode(b"\x40\x01a\x01a")
    assert decoded.decode(b"\xbe")[0] == [(b"a", b"a")]
    decoded.decode(b"\x20\x3f\xe1\x1f\x82")  # size 0, then 4,096
    with pytest.raises(ProtocolError):
        decoded.decode(b"\xbe")


def test_random_encoders_and_repeated_calls_are_understood() -> None:
    decoded, encoder = decoder(), hpack.Encoder()
    for number in range(500):
        fields = [*REQUEST, (b"x-%d" % (number % 7), b"%d" % (number % 3)), (b"y", b"z" * (number % 11))]
        assert decoded.decode(encoder.encode(fields))[0] == fields


def test_cache_is_bounded() -> None:
    decoded = decoder()
    for number in range(3 * limits.HTTP2_HEADER_CACHE_HEADS):
        decoded.decode(encode([(b"x", b"%d" % number)]))
    assert decoded.cached <= 2 * limits.HTTP2_HEADER_CACHE_HEADS
    decoded.decode(encode([(b"x", bytes(2 * limits.HTTP2_HEADER_CACHE_LIST_BYTES))]))
    assert decoded.cached <= 2 * limits.HTTP2_HEADER_CACHE_HEADS


def test_short_block_that_names_a_large_entry_of_the_table_is_not_kept() -> None:
    decoded = decoder()
    decoded.decode(b"\x40\x01x\x7f\xa1\x1e" + b"v" * 4_000)
    for count in range(1, 9):
        assert decoded.decode(b"\xbe" * count)[0] == [(b"x", b"v" * 4_000)] * count
    assert decoded.cached == 0


def test_long_values_and_secrets_are_encoded_as_hpack_reads_them() -> None:
    fields = [(b"x" * size, b"y" * size) for size in (0, 1, 126, 127, 128, 254, 255, 300, 20_000)]
    assert [(bytes(name), bytes(value)) for name, value in hpack.Decoder().decode(encode(fields), raw=True)] == fields
    (secret,) = hpack.Decoder().decode(encode_secret(b"authorization", b"token"), raw=True)
    assert (tuple(secret), secret.indexable) == ((b"authorization", b"token"), False)


@pytest.mark.parametrize("block", [b"\x80", b"\xff", b"\x40", b"\x00\x05ab", b"\x82\x3f\xe2\x1f", b"\x00\x81\xff\x00"])
def test_block_that_means_nothing_fails_the_connection(block: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decoder().decode(block)
    assert caught.value.code == ErrorCode.COMPRESSION_ERROR


def test_request_head_has_what_a_call_needs() -> None:
    more = [
        (b"content-type", b"application/grpc+proto"),
        (b"grpc-timeout", b"1500m"),
        (b"user-agent", b"grpc-go/1"),
        (b"grpc-accept-encoding", b"gzip"),
        (b"x-token", b"secret"),
        (b"x-data-bin", b"AAA"),
    ]
    head = request_head([*REQUEST, *more])
    assert (head.path, head.is_grpc, head.bad_timeout, head.user_agent) == (b"/a.B/C", True, False, "grpc-go/1")
    assert (dict(head.metadata), head.encoding, head.malformed) == ({"x-token": "secret"}, b"identity", "")
    assert head.list_bytes == sum(32 + len(name) + len(value) for name, value in [*REQUEST, *more])


def test_bytes_that_are_no_text_are_replaced_in_metadata_and_kept_in_the_path() -> None:
    head = request_head([(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/\xff\xfe"), (b"x", b"\xff")])
    assert (head.path, head.metadata["x"], head.malformed) == (b"/\xff\xfe", "\ufffd", "")


@pytest.mark.parametrize(("text", "wrong"), [(b"1x", True), (b"123456789S", True), (b"", True), (b"12345678n", False)])
def test_timeout_that_is_none_is_noticed(text: bytes, wrong: bool) -> None:
    assert request_head([*REQUEST, (b"grpc-timeout", text)]).bad_timeout is wrong


@pytest.mark.parametrize("timeout_s", [0.0, 1e-6, 0.05, 1.0, 10.0, 3_600.0, 1e6, 1e9])
def test_timeout_is_read_as_it_is_written(timeout_s: float) -> None:
    assert read_timeout_s(timeout_text(timeout_s)) == pytest.approx(timeout_s, rel=1e-6)


def test_answer_head_has_the_status() -> None:
    head = response_head([(b":status", b"200"), (b"grpc-status", b"5"), (b"grpc-message", b"no%20%E2%80%94 x%zz")])
    assert (head.http_status, head.grpc_status, head.message) == (200, 5, "no \u2014 x%zz")
    assert response_head([(b"grpc-status", b"abc")]).grpc_status == 2
    assert response_head([(b":status", b"abc")]).malformed
    assert not response_head([(b":status", b"100")]).is_final


@pytest.mark.parametrize("text", ["", "plain", "100 %", "\n\0", "caf\u00e9 \u2014"])
def test_message_survives_its_encoding(text: str) -> None:
    encoded = percent_encoded(text)
    assert percent_decoded(encoded) == text
    assert encoded.isascii()

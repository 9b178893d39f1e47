"""Header blocks by our decoder and by the `hpack` package: the same fields, or an error of both."""

from collections.abc import Sequence

import hpack
from hypothesis import given, settings
from hypothesis import strategies as st

from danube.rpc.http2.protocol.frames import ProtocolError
from danube.rpc.http2.protocol.header_blocks import HeaderDecoder

Fields = list[tuple[bytes, bytes]]

LIST_BYTES_MAX = 20_000
NAMES = st.sampled_from([b":path", b"te", b"user-agent", b"grpc-timeout", b"x", b"y" * 200, b"z" * 5_000])
VALUES = st.one_of(
    st.sampled_from([b"", b"trailers", b"/danube.ProducerService/SendMessage", b"1S", b"v" * 130, b"w" * 4_060]),
    st.integers(0, 99_999_999).map(lambda number: b"%du" % number),
    st.binary(max_size=12),
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=9)


def joined(head: Fields, timeout: bytes | None) -> Fields:
    return [(name, timeout if timeout is not None and name == b"grpc-timeout" else value) for name, value in head]


@st.composite
def encoded_blocks(draw: st.DrawFn) -> list[bytes]:
    """Blocks of one encoder, whose table changes its size between them."""
    encoder = hpack.Encoder()
    blocks = []
    for fields in draw(st.lists(FIELDS, min_size=1, max_size=12)):
        if draw(st.integers(0, 5)) == 0:
            encoder.header_table_size = draw(st.sampled_from([0, 40, 300, 4_096]))
        secret = draw(st.booleans())
        headers = [hpack.NeverIndexedHeaderTuple(*field) if secret else hpack.HeaderTuple(*field) for field in fields]
        blocks.append(encoder.encode(headers, huffman=draw(st.booleans())))
    return blocks


@st.composite
def written_blocks(draw: st.DrawFn) -> list[bytes]:
    """Blocks byte by byte: representations in any order, indices and lengths that may be wrong, cut ends."""
    pieces = st.one_of(
        st.integers(0x80, 0xFE).map(lambda first: bytes((first,))),
        st.sampled_from(
            [b"\xff\x00", b"\xff\x80\x80\x80\x80\x00", b"\xff\x80\x80\x80\x80\x80\x00", b"\x20", b"\x3f\xe1\x1f"]
        ),
        st.sampled_from(
            [b"\x3f\xe2\x1f", b"\x21", b"\x40\x01a\x01b", b"\x00\x01a\x01b", b"\x10\x01a\x01b", b"\x7e\x01c"]
        ),
        st.sampled_from(
            [
                b"\x40\x01c\x7f\x81\x1e" + bytes(4_000),
                b"\x40\x81\x1f\x81\xff",
                b"\x0f\x2f\x02ab",
                b"\x50\x83\x10\x82\x10",
            ]
        ),
        st.binary(max_size=6),
    )
    return [b"".join(block) for block in draw(st.lists(st.lists(pieces, max_size=8), min_size=1, max_size=8))]


def compare(blocks: Sequence[bytes]) -> None:
    reference = hpack.Decoder(max_header_list_size=LIST_BYTES_MAX)
    ours: HeaderDecoder[Fields] = HeaderDecoder(list, LIST_BYTES_MAX)
    for block in blocks:
        try:
            wanted = [(bytes(name), bytes(value)) for name, value in reference.decode(block, raw=True)]
        except hpack.HPACKError:
            wanted = None
        try:
            read = joined(*ours.decode(block))
        except ProtocolError:
            read = None
        assert read == wanted
        if wanted is None:
            return


@given(encoded_blocks())
def test_blocks_of_an_encoder_are_read_as_hpack_reads_them(blocks: list[bytes]) -> None:
    compare([*blocks, *blocks[-1:]])


@given(written_blocks())
@settings(max_examples=200)
def test_blocks_of_any_bytes_are_read_as_hpack_reads_them(blocks: list[bytes]) -> None:
    compare(blocks)

"""The index of a segment: its bytes, what is found in it, and that it has to agree with the footer."""

import struct
from dataclasses import replace

import pytest

from danube.runtime.checksum import checksum
from danube.storage.segment.block_index import ENTRY_BYTES, BlockEntry, decode_index, encode_index
from danube.storage.segment.format import FILE_HEADER_BYTES, Footer
from danube.storage.segment.manifest import Segment

ENTRIES = [
    BlockEntry(10, 14, 100, 103, FILE_HEADER_BYTES, 400, 500, 2),
    BlockEntry(14, 15, 103, 103, FILE_HEADER_BYTES + 400, 300, 300, 1),
    BlockEntry(15, 19, 105, 109, FILE_HEADER_BYTES + 700, 100, 400, 3),
]
ENCODED = encode_index(ENTRIES)
INDEX_POSITION = FILE_HEADER_BYTES + 800
FOOTER = Footer(
    topic_id=7,
    segment=Segment(10, 19, 4, 100, 109, 6, 1_200 - 6 * 56, INDEX_POSITION + len(ENCODED) + 88),
    index_position=INDEX_POSITION,
    blocks=3,
    index_crc=checksum([ENCODED]),
)


def test_an_entry_is_what_the_drawing_says() -> None:
    assert encode_index(ENTRIES[:1]) == struct.pack("<QQQQQIII", 10, 14, 100, 103, 36, 400, 500, 2)
    assert len(ENCODED) == 3 * ENTRY_BYTES


def test_blocks_are_found_by_offset_and_by_time() -> None:
    index = decode_index(ENCODED, FOOTER)
    assert index is not None
    assert [index[number] for number in range(len(index))] == ENTRIES
    assert [index.find(offset) for offset in (10, 13, 14, 15, 18)] == [0, 0, 1, 2, 2]
    assert [index.find_time(time_ms) for time_ms in (0, 103, 104, 109, 110)] == [0, 0, 2, 2, 3]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("field", BlockEntry._fields)
@pytest.mark.parametrize("step", [-7, 7])
def test_an_entry_that_does_not_fit_with_the_others_is_refused(number: int, field: str, step: int) -> None:
    entries = list(ENTRIES)
    entries[number] = entries[number]._replace(**{field: max(0, getattr(entries[number], field) + step)})
    assert decode_index(encode_index(entries), FOOTER) is None


@pytest.mark.parametrize("footer", [replace(FOOTER, blocks=2), replace(FOOTER, index_position=INDEX_POSITION + 1)])
def test_an_index_of_another_length_or_place_is_refused(footer: Footer) -> None:
    assert decode_index(ENCODED, footer) is None


def test_a_segment_without_blocks_is_none() -> None:
    assert decode_index(b"", replace(FOOTER, blocks=0)) is None

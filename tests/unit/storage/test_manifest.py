from dataclasses import replace

import msgpack
import pytest

from danube.model.errors import LimitReachedError, NewerDataFolderError
from danube.model.limits import broker as limits
from danube.model.limits import stream as stream_limits
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange
from danube.runtime.checksum import with_crc
from danube.storage.batches import cursors
from danube.storage.batches.producer_state import StoredNumbers
from danube.storage.segment import manifest_format
from danube.storage.segment.manifest import Manifest, Segment, manifest_name, segment_name
from danube.storage.segment.manifest_format import (
    decode_manifest,
    encode_manifest,
    refuse_other_manifest,
)
from tests.golden.storage.reader import read_manifest
from tests.unit.storage.manifests import FULL, NOW_MS, manifest_of, row, sizes

FAILED = replace(
    FULL, cursors={**FULL.cursors, 901: replace(FULL.cursors[901], failed=(FailedRange(2, 3, 4), FailedRange(4, 6, 1)))}
)
EMPTY = Manifest(topic_id=7, version=1)
BAD_ROWS = [
    ((),),
    (row(1, *[(1, 1, 1, 1)] * (stream_limits.DEDUPLICATION_BATCHES_MAX + 1)),),
    (row(1, (1, 1, 1, 1)) + row(2, (1, 1, 1, 1)),),
]


def forged(**changed: object) -> bytes:
    """FULL with other fields and the right checksum."""
    encoded = encode_manifest(FULL)
    fields = msgpack.unpackb(encoded[6:-4], strict_map_key=False) | changed
    return with_crc(encoded[:6] + msgpack.packb(fields))


@pytest.mark.parametrize("manifest", [FULL, FAILED, EMPTY, replace(EMPTY, start_offset=9, end_offset=9)])
def test_a_manifest_reads_back_as_written(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest)) == manifest


def test_the_documents_are_enough_to_read_a_manifest_with_failures() -> None:
    assert read_manifest(encode_manifest(FAILED)) == read_manifest(encode_manifest(FULL))


def test_the_order_of_cursors_and_journals_does_not_matter() -> None:
    turned = replace(
        FULL, cursors=dict(reversed([*FULL.cursors.items()])), journals=dict(reversed([*FULL.journals.items()]))
    )
    assert encode_manifest(turned) == encode_manifest(FULL)


def test_every_flip_and_every_truncation_is_detected() -> None:
    encoded = encode_manifest(FULL)
    for at in range(len(encoded)):
        assert decode_manifest(encoded[:at]) is None
        for bit in range(8):
            flipped = bytearray(encoded)
            flipped[at] ^= 1 << bit
            assert decode_manifest(bytes(flipped)) is None
    assert decode_manifest(encoded + b"\0") is None


@pytest.mark.parametrize(
    "changed",
    [
        {"later": 1},
        {"topic_id": "7"},
        {"end_offset": 165},
        {"segments": []},
        {"segments": [[1, 2, 3]]},
        {"cursors": {"1": [0, [], []]}},
        {"cursors": {1: [0, [[1, 2]] * (limits.CURSOR_RANGES_MAX + 1), []]}},
        {"cursors": {1: [0, [], [[1, 2, 3]] * (limits.CURSOR_FAILURES_MAX + 1)]}},
        {"producer_states": [[]]},
        {"producer_states": [[[[1, 1, 1, 1], 1], [[2, 1, 1, 1], 1]]]},
        {"journals": {1: -1.5}},
    ],
)
def test_what_no_danube_writes_is_no_manifest_even_with_the_right_checksum(changed: dict[str, object]) -> None:
    assert decode_manifest(forged()) == FULL
    assert decode_manifest(forged(**changed)) is None


def test_a_manifest_of_a_later_danube_is_known_as_one() -> None:
    encoded = encode_manifest(FULL)
    with pytest.raises(NewerDataFolderError, match="format 3; this one reads 1"):
        refuse_other_manifest("a manifest", with_crc(encoded[:4] + b"\3" + encoded[5:-4]))
    for other in (encode_manifest(FAILED), encoded, b"DnMf"):
        refuse_other_manifest("a manifest", other)


def test_a_segment_costs_at_most_64_bytes_of_manifest() -> None:
    one, two = (len(encode_manifest(manifest_of(sizes(*[9] * count)))) for count in (1, 2))
    assert two - one <= 64


@pytest.mark.parametrize("producer_states", BAD_ROWS)
def test_rows_that_cannot_be_are_not_written(producer_states: tuple[tuple[StoredNumbers, ...], ...]) -> None:
    with pytest.raises(ValueError, match="row"):
        encode_manifest(replace(EMPTY, producer_states=producer_states))


@pytest.mark.parametrize(
    ("manifest", "what"),
    [
        (replace(EMPTY, cursors=dict.fromkeys(range(limits.SUBSCRIPTIONS_PER_TOPIC_MAX + 1), Cursor(0))), "cursors"),
        (replace(EMPTY, journals=dict.fromkeys(range(limits.MANIFEST_JOURNALS_MAX + 1), 0)), "journals"),
        (
            replace(EMPTY, producer_states=(row(1, (1, 1, 1, 1)),) * (stream_limits.DEDUPLICATION_PRODUCERS_MAX + 1)),
            "rows of numbered batches",
        ),
    ],
)
def test_a_manifest_keeps_its_bounds(manifest: Manifest, what: str) -> None:
    with pytest.raises(LimitReachedError, match=f"topic 7 has \\d+ {what}"):
        encode_manifest(manifest)


def test_a_manifest_has_no_more_segments_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = manifest_format._BOUNDS | {"segments": 2}
    three = encode_manifest(manifest_of(sizes(1, 2, 3)))
    monkeypatch.setattr(manifest_format, "_BOUNDS", bounds)
    assert decode_manifest(encode_manifest(FULL)) == FULL
    assert decode_manifest(three) is None
    with pytest.raises(LimitReachedError, match="topic 7 has 3 segments and 2 is the most"):
        encode_manifest(manifest_of(sizes(1, 2, 3)))


def test_a_cursor_has_no_more_ranges_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_manifest(FULL)
    monkeypatch.setattr(manifest_format, "CURSOR_RANGES_MAX", 1)
    monkeypatch.setattr(cursors, "CURSOR_RANGES_MAX", 1)
    assert decode_manifest(encoded) is None
    decoded = decode_manifest(encode_manifest(FULL))
    assert decoded is not None
    assert decoded.cursors[901] == Cursor(2, (OffsetRange(3, 4),))


def test_of_very_many_ranges_each_cursor_keeps_its_lowest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_format, "MANIFEST_CURSOR_RANGES_MAX", 10)
    ranges = tuple(OffsetRange(start, start + 1) for start in range(1, 15, 2))
    manifest = replace(EMPTY, cursors={1: Cursor(0, ranges), 2: Cursor(0, ranges[:3])})
    assert decode_manifest(encode_manifest(manifest)) == manifest
    decoded = decode_manifest(encode_manifest(replace(manifest, cursors={1: Cursor(0, ranges), 2: Cursor(0, ranges)})))
    assert decoded is not None
    assert decoded.cursors == {1: Cursor(0, ranges[:5]), 2: Cursor(0, ranges[:5])}


@pytest.mark.parametrize(
    "segments",
    [
        (Segment(0, 10, 1, 5, 6, 1, 1, 1), Segment(11, 20, 1, 6, 7, 1, 1, 1)),
        (Segment(0, 10, 1, 5, 6, 1, 1, 1), Segment(10, 20, 1, 5, 7, 1, 1, 1)),
        (Segment(0, 10, 1, 5, 6, 1, 1, 1), Segment(10, 10, 1, 6, 7, 1, 1, 1)),
        (Segment(0, 10, 1, 6, 5, 1, 1, 1),),
    ],
)
def test_segments_that_are_no_unbroken_run_are_not_written(segments: tuple[Segment, ...]) -> None:
    with pytest.raises(ValueError, match="segment at offset"):
        encode_manifest(manifest_of(segments))


def test_names_sort_as_what_they_name() -> None:
    segments = [
        Segment(base, base + 1, manifest_version, NOW_MS, NOW_MS, 1, 1, 1)
        for base, manifest_version in ((9, 10), (10, 9))
    ]
    names = [segment_name(7, segment) for segment in segments]
    assert (
        names
        == sorted(names)
        == [
            "segments/7/00000000000000000009-0000000010.segment",
            "segments/7/00000000000000000010-0000000009.segment",
        ]
    )
    assert manifest_name(7, 9) < manifest_name(7, 10) == "segments/7/0000000010.manifest"

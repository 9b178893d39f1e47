"""Batches, segments and tiers that the tests of segments are made of."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import SEGMENT_BLOCK_BYTES
from danube.runtime.checksum import with_crc
from danube.runtime.disk import Disk
from danube.storage.batches.batch import encode_payloads
from danube.storage.batches.codec import BlockCodec, Codec
from danube.storage.batches.envelope import ENVELOPE_BYTES, Kind, encode_data
from danube.storage.batches.stored_batch import EncodedBatch, StoredBatch
from danube.storage.segment.manifest import segment_name
from danube.storage.segment.reader import SegmentReader
from danube.storage.segment.writer import encode_segment
from danube.storage.tiers.directory import DirectoryTier
from danube.storage.tiers.tier import Take
from danube.testing.simulated.disk import SimDisk

TOPIC = 7
GENERATION = 4


def encoded(base_offset: int, records: Sequence[bytes], time_ms: int = 1_000, topic: int = TOPIC) -> EncodedBatch:
    """A batch of these records, as the journal has it."""
    body = encode_payloads(b"", records)
    offsets = range(base_offset, base_offset + len(records))
    envelope = encode_data(topic, 2, offsets, time_ms, body)
    return EncodedBatch(offsets.start, offsets.stop, time_ms, len(body), envelope + body)


def _of_another_kind(batch: EncodedBatch) -> EncodedBatch:
    """With an envelope, its checksum included, that is a cursor's."""
    envelope, body = batch.encoded[:ENVELOPE_BYTES], batch.encoded[ENVELOPE_BYTES:]
    return batch._replace(encoded=with_crc(envelope[:5] + bytes([Kind.CURSOR]) + envelope[6:-4]) + body)


MISPLACED = [
    pytest.param(encoded(11, [b"b"], 1_001, topic=8), id="of another topic"),
    pytest.param(_of_another_kind(encoded(11, [b"b"], 1_001)), id="of another kind"),
    pytest.param(encoded(12, [b"b"], 1_001)._replace(base_offset=11, end_offset=12), id="of another offset"),
    pytest.param(encoded(11, [b"b", b"c"], 1_001)._replace(end_offset=12), id="with another count"),
    pytest.param(encoded(11, [b"b"], 1_003)._replace(append_time_ms=1_001), id="of a later time"),
    pytest.param(encoded(11, [b"b"], 999)._replace(append_time_ms=1_001), id="of an earlier time"),
]
"""Batches that are passed off as offset 11 of the topic, appended at 1,001 ms."""


def run(
    sizes: Sequence[int], first_offset: int = 10, *, count: int = 2, step_ms: int = 1, topic: int = TOPIC
) -> list[EncodedBatch]:
    """Batches of `count` records each, of these sizes; the first is appended at 1,000 ms, each next one later."""
    return [
        encoded(
            first_offset + count * number,
            [bytes([number & 255]) * size] * count,
            1_000 + step_ms * number,
            topic,
        )
        for number, size in enumerate(sizes)
    ]


def stored(batch: EncodedBatch) -> StoredBatch:
    """What a reader answers for it."""
    count = batch.end_offset - batch.base_offset
    return StoredBatch(batch.base_offset, count, batch.append_time_ms, batch.encoded[-batch.body_bytes :])


class ZlibCodec:
    """Stands in for a codec that may not be there."""

    def compress(self, plain: bytes) -> bytes:
        return zlib.compress(plain)

    def decompress(self, stored: bytes, plain_bytes: int) -> bytes:
        opened = zlib.decompressobj()
        try:
            plain = opened.decompress(stored, plain_bytes)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if len(plain) != plain_bytes or not opened.eof:
            raise ValueError(f"there should be {plain_bytes} bytes in it")
        return plain


def zlib_codecs(codec: Codec) -> BlockCodec:
    return ZlibCodec()


def no_codecs(codec: Codec) -> BlockCodec:
    raise StorageUnavailableError("there is none here")


class CountingTier(DirectoryTier):
    """Notes which bytes were asked for."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.pieces: list[tuple[int, int]] = []
        """Position and length of each piece that was read."""
        self.requests: list[int] = []
        """The bytes of each request."""
        self.expected: list[tuple[str, int, int]] = []
        """What was to be fetched ahead: name, position and length."""
        self.order: list[str | tuple[str, int, int]] = []
        """All of it and the names that were read from, as they came."""

    def expect(self, name: str, position: int, length: int) -> None:
        self.expected.append((name, position, length))
        self.order.append((name, position, length))
        super().expect(name, position, length)

    def read(self, name: str, position: int, length: int) -> bytes:
        self.requests.append(length)
        self.order.append(name)
        self.pieces.append((position, length))
        return super().read(name, position, length)

    def read_run(self, name: str, position: int, lengths: Sequence[int]) -> Iterator[bytes]:
        self.requests.append(sum(lengths))
        for number, length in enumerate(lengths):
            self.pieces.append((position + sum(lengths[:number]), length))
        return super().read_run(name, position, lengths)

    def open_run(self, name: str, position: int, length: int) -> Take:
        self.requests.append(length)
        take, at = super().open_run(name, position, length), position

        def counted(count: int) -> bytes:
            nonlocal at
            self.pieces.append((at, count))
            at += count
            return take(count)

        return counted

    @property
    def bytes_read_once(self) -> int:
        """Of all pieces together, none of which overlaps another."""
        pieces = sorted(self.pieces)
        assert all(position + length <= behind for (position, length), (behind, _) in pairwise(pieces))
        return sum(length for _, length in pieces)


class SegmentWorld:
    """One segment on a simulated disk, and a reader of it."""

    def __init__(
        self,
        batches: Sequence[EncodedBatch],
        codec: Codec = Codec.NONE,
        *,
        topic: int = TOPIC,
        disk: Disk | None = None,
        block_bytes: int = SEGMENT_BLOCK_BYTES,
    ) -> None:
        self.disk = disk if disk is not None else SimDisk()
        self.batches = list(batches)
        self.segment, chunks = encode_segment(
            topic, GENERATION, self.batches, codec, codecs=zlib_codecs, block_bytes=block_bytes
        )
        self.topic = topic
        self.name = segment_name(topic, self.segment)
        self.data = b"".join(chunks)
        self.tier = CountingTier(self.disk)
        self.tier.put(self.name, chunks)
        self.reader = SegmentReader(self.tier, codecs=zlib_codecs)

    def read(self, offset: int, bytes_max: int = 1 << 20) -> list[StoredBatch]:
        return self.reader.read(self.topic, (self.segment,), offset, bytes_max)

    def read_all(self, bytes_max: int) -> list[StoredBatch]:
        """As a consumer that goes on where the last answer ended."""
        found: list[StoredBatch] = []
        offset = self.segment.base_offset
        while offset < self.segment.end_offset:
            found += self.read(offset, bytes_max)
            offset = found[-1].end_offset
        return found

    def overwrite(self, data: bytes) -> None:
        """Have other bytes under the segment's name, as a reader that opens it afresh finds them."""
        self.disk.replace_file(self.name, data)
        self.reader.forget(self.topic)

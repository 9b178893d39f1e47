"""Scan of a segment file past whatever is damaged in it. It reads only, a block at a time.

Where blocks are is said by the index; when that is damaged, each block's header says where the next one begins. In a
block whose checksum is wrong, envelopes and bodies are read one after the other, each by its own checksums.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from danube.data_folder.findings import Finding, damage
from danube.model.errors import DamagedDataError
from danube.runtime.checksum import CRC_BYTES, checksum, is_intact
from danube.storage.batches.codec import Codec, CodecSource, open_codec
from danube.storage.batches.envelope import ENVELOPE_BYTES, Kind, decode, is_body_of
from danube.storage.batches.stored_batch import EncodedBatch
from danube.storage.segment.block import HEADER_BYTES as BLOCK_HEADER_BYTES
from danube.storage.segment.block import MAGIC as BLOCK_MAGIC
from danube.storage.segment.block_index import decode_index
from danube.storage.segment.format import FILE_HEADER_BYTES, FOOTER_BYTES, Footer, decode_footer, encode_file_header
from danube.storage.tiers.tier import SegmentTier

_BLOCK = struct.Struct("<4sBBHQQQIII")


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of a block, and the offsets that it is said to hold."""

    at: int
    end: int
    base_offset: int
    end_offset: int


class SegmentScan:
    """One segment file of one topic. Raises OSError; FileNotFoundError when it is not there."""

    def __init__(self, tier: SegmentTier, name: str, topic_id: int, *, codecs: CodecSource = open_codec) -> None:
        self._tier = tier
        self.name = name
        self.topic_id = topic_id
        self._codecs = codecs
        self.file_bytes = tier.size(name)
        self.findings: list[Finding] = []
        """What is wrong around the blocks; of the blocks themselves once `batches` was gone through."""
        self.footer = self._read_footer()
        self.blocks = list(self._indexed() or self._chained())

    def batches(self) -> Iterator[EncodedBatch]:
        """Every batch of the topic that is sound, in the order of the file."""
        self.findings = [finding for finding in self.findings if finding.first_offset is None]
        for block in self.blocks:
            yield from self._batches_of(block)

    def check_header(self, base_offset: int, manifest_version: int) -> None:
        """Note it when the file does not begin as the segment that its name speaks of."""
        if self._tier.read(self.name, 0, FILE_HEADER_BYTES) != encode_file_header(
            self.topic_id, base_offset, manifest_version
        ):
            self._find(0, FILE_HEADER_BYTES, "its header is not what was written")

    def _read_footer(self) -> Footer | None:
        at = max(0, self.file_bytes - FOOTER_BYTES)
        try:
            footer = decode_footer(self._tier.read(self.name, at, FOOTER_BYTES), self.name, self.file_bytes)
        except DamagedDataError:
            self._find(at, self.file_bytes, "its footer is not what was written, or the file was cut short")
            return None
        if footer.topic_id != self.topic_id:
            self._find(at, self.file_bytes, f"it is a segment of topic {footer.topic_id}")
            return None
        return footer

    def _indexed(self) -> list[Block] | None:
        if self.footer is None:
            return None
        at, end = self.footer.index_position, self.file_bytes - FOOTER_BYTES
        encoded = self._tier.read(self.name, at, max(end - at, 0)) if FILE_HEADER_BYTES <= at < end else b""
        index = decode_index(encoded, self.footer) if checksum([encoded]) == self.footer.index_crc else None
        if index is None:
            self._find(at, end, "its index is not what was written")
            return None
        entries = (index[number] for number in range(len(index)))
        return [Block(one.position, one.position + one.file_bytes, one.base_offset, one.end_offset) for one in entries]

    def _chained(self) -> Iterator[Block]:
        """The blocks as they follow on each other, as far as their headers can be."""
        at, offset = FILE_HEADER_BYTES, -1
        while True:
            header = self._tier.read(self.name, at, BLOCK_HEADER_BYTES)
            if len(header) < BLOCK_HEADER_BYTES:
                return
            magic, _, _, _, topic_id, base, end_offset, _, _, stored = _BLOCK.unpack(header)
            if magic != BLOCK_MAGIC or topic_id != self.topic_id or not offset <= base < end_offset:
                return
            end = at + BLOCK_HEADER_BYTES + stored + CRC_BYTES
            yield Block(at, min(end, self.file_bytes), base, end_offset)
            at, offset = end, end_offset

    def _batches_of(self, block: Block) -> Iterator[EncodedBatch]:
        content = self._tier.read(self.name, block.at, block.end - block.at)
        intact = is_intact(content) and content[:4] == BLOCK_MAGIC
        offset = block.base_offset
        for batch in sound_batches(self._plain(content, intact=intact), self.topic_id):
            if not offset <= batch.base_offset or batch.end_offset > block.end_offset:
                break
            self._find_gap(block, offset, batch.base_offset)
            yield batch
            offset = batch.end_offset
        self._find_gap(block, offset, block.end_offset)
        if not intact and offset == block.end_offset and not any(one.at == block.at for one in self.findings):
            self._find(block.at, block.end, "the checksum of a block is wrong, its messages are sound")

    def _find_gap(self, block: Block, first_offset: int, end_offset: int) -> None:
        if first_offset < end_offset:
            self._find(block.at, block.end, "a block is not what was written", range(first_offset, end_offset))

    def _plain(self, content: bytes, *, intact: bool) -> bytes:
        stored = content[BLOCK_HEADER_BYTES:-CRC_BYTES] if intact else content[BLOCK_HEADER_BYTES:]
        if not intact or content[5] == Codec.NONE:
            return stored
        plain_bytes = _BLOCK.unpack_from(content)[8]
        try:
            return self._codecs(Codec(content[5])).decompress(stored, plain_bytes)
        except ValueError:
            return b""

    def _find(self, at: int, end: int, what: str, offsets: range | None = None) -> None:
        self.findings.append(damage(self.name, what, range(at, end), topic_id=self.topic_id, offsets=offsets))


def sound_batches(plain: bytes, topic_id: int) -> Iterator[EncodedBatch]:
    """The sound batches of a topic, one after the other; it ends at an envelope that is not sound."""
    at = 0
    while (envelope := decode(plain, at)) is not None:
        encoded = plain[at : at + envelope.total_bytes]
        at += envelope.total_bytes
        if envelope.topic_id != topic_id or envelope.kind is not Kind.DATA or not envelope.count:
            continue
        if is_body_of(envelope, encoded[ENVELOPE_BYTES:]):
            base = envelope.base_offset
            yield EncodedBatch(base, base + envelope.count, envelope.append_time_ms, envelope.body_bytes, encoded)

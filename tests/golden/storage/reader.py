"""A reader of journals written from `docs/formats/` alone: it shares no code with `danube.storage`."""

import struct
from collections.abc import Iterator
from typing import NamedTuple


class Record(NamedTuple):
    """One envelope with its body."""

    kind: int
    topic_id: int
    epoch: int
    base_offset: int
    record_count: int
    append_time_ms: int
    body: bytes


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def checked(data: bytes) -> bytes:
    """`data` without the checksum at its end, which must be right."""
    assert struct.pack("<I", crc32c(data[:-4])) == data[-4:]
    return data[:-4]


def read_journal(files: list[bytes]) -> Iterator[Record]:
    """All records of a journal's files, in order."""
    position = number = 0
    for sequence, data in enumerate(files, 1):
        magic, journal_id, _, own_sequence, base, synced_to = struct.unpack("<8s5Q", checked(data[:52]))
        assert (magic, own_sequence, base, synced_to) == (b"DnJf\x01\0\0\0", sequence, position, position)
        at = 52
        while at < len(data):
            number += 1
            header = struct.unpack("<8s4Q2I", checked(data[at : at + 52]))
            assert header[:3] == (b"DnRd\x01\0\0\0", number, base + at)
            assert header[3] <= base + at
            assert header[4] == journal_id
            content = data[at + 52 : at + 52 + header[5]]
            found = list(read_envelopes(content))
            assert len(found) == header[6]
            yield from found
            at += 52 + header[5]
        position += len(data)


def read_envelopes(content: bytes) -> Iterator[Record]:
    at = 0
    while at < len(content):
        fields = checked(content[at : at + 56])
        magic, kind, reserved, topic, epoch, base, count, length, time_ms = struct.unpack("<5sBH3Q2IQ", fields[:48])
        assert (magic, reserved) == (b"DnEv\x01", 0)
        body = content[at + 56 : at + 56 + length]
        checked(body)
        assert body[-4:] == fields[48:52]
        yield Record(kind, topic, epoch, base, count, time_ms, body)
        at += 56 + length


def read_batch(body: bytes) -> tuple[int, bytes, list[bytes]]:
    """Record kind, what is shared, and the records."""
    content = checked(body)
    magic, codec, kind, _, _, _, _, _, count, shared_bytes = struct.unpack("<5s3B4Q2I", content[:48])
    assert (magic, codec) == (b"DnBt\x01", 0)
    shared, at = content[48 : 48 + shared_bytes], 48 + shared_bytes
    lengths = struct.unpack(f"<{count}I", content[at : at + 4 * count])
    at += 4 * count
    records = []
    for length in lengths:
        records.append(content[at : at + length])
        at += length
    assert at == len(content)
    return kind, shared, records


def read_cursor(body: bytes) -> tuple[int, int, list[tuple[int, int]]]:
    """Subscription id, position, ranges."""
    content = checked(body)
    magic, subscription_id, position, count = struct.unpack("<8sQQI", content[:28])
    assert magic == b"DnCu\x01\0\0\0"
    numbers = struct.unpack(f"<{2 * count}Q", content[28:])
    return subscription_id, position, list(zip(numbers[::2], numbers[1::2], strict=True))

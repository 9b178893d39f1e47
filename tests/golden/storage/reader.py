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


def read_first(data: bytes) -> tuple[int, int, int, int]:
    """Journal id, first sequence, its base position, rounds before it."""
    magic, journal_id, sequence, base, rounds = struct.unpack("<8s4Q", checked(data))
    assert magic == b"DnJ1\x01\0\0\0"
    return journal_id, sequence, base, rounds


def read_mark(data: bytes) -> tuple[int, ...]:
    """Journal id, file sequence, synced to."""
    magic, *numbers = struct.unpack("<8s3Q", checked(data))
    assert magic == b"DnJm\x01\0\0\0"
    return tuple(numbers)


class Index(NamedTuple):
    """What stands beside a closed file."""

    numbers: tuple[int, ...]
    """Sequence, base position, end, last round before, last round, oldest and newest append time."""
    topics: dict[int, list[tuple[int, int, int, int]] | None]
    """By topic id, of each batch: base offset, position, append time, length of the body."""
    ends: dict[int, int]
    cursors: list[tuple[int, int, bytes]]
    """Topic id, position, body."""
    sequenced: list[tuple[int, ...]]


def read_index(data: bytes) -> Index:
    """The index of a closed file."""
    content = checked(data)
    magic, _, *numbers, topics, cursors, sequenced = struct.unpack("<8s8Q3I", content[:84])
    assert magic == b"DnJx\x01\0\0\0"
    index, at = Index(tuple(numbers), {}, {}, [], []), 84
    for _ in range(topics):
        topic_id, count, end = struct.unpack("<QIQ", content[at : at + 20])
        at += 20
        if count == 2**32 - 1:
            index.topics[topic_id] = None
            continue
        columns = [
            struct.unpack(f"<{count}Q", content[at + 8 * count * n : at + 8 * count * (n + 1)]) for n in range(3)
        ]
        at += 24 * count
        lengths = struct.unpack(f"<{count}I", content[at : at + 4 * count])
        at += 4 * count
        index.topics[topic_id] = list(zip(*columns, lengths, strict=True))
        index.ends[topic_id] = end
    for _ in range(cursors):
        topic_id, position, length = struct.unpack("<QQI", content[at : at + 20])
        index.cursors.append((topic_id, position, content[at + 20 : at + 20 + length]))
        at += 20 + length
    for _ in range(sequenced):
        index.sequenced.append(struct.unpack("<4Q2I", content[at : at + 40]))
        at += 40
    assert at == len(content)
    return index


def read_cursor(body: bytes) -> tuple[int, int, list[tuple[int, int]]]:
    """Subscription id, position, ranges."""
    content = checked(body)
    magic, subscription_id, position, count = struct.unpack("<8sQQI", content[:28])
    assert magic == b"DnCu\x01\0\0\0"
    numbers = struct.unpack(f"<{2 * count}Q", content[28 : 28 + 16 * count])
    failed = content[28 + 16 * count :]
    assert len(failed) == 4 + 20 * int.from_bytes(failed[:4], "little")
    return subscription_id, position, list(zip(numbers[::2], numbers[1::2], strict=True))


def read_manifest(data: bytes) -> dict[str, object]:
    """What a manifest says, by the names that its page uses."""
    content = checked(data)
    magic, topic, manifest_version, start, end, last_ms, s, c, n, j = struct.unpack("<8s5Q4I", content[:64])
    assert magic == b"DnMf\x01\0\0\0"
    segments, at, base = [], 64, start
    for _ in range(s):
        until, of_manifest_version, first_ms, to_ms, body, file, count = struct.unpack("<6QI", content[at : at + 52])
        segments.append((base, until, of_manifest_version, first_ms, to_ms, body, file, count))
        base, at = until, at + 52
    assert base == end
    cursors = {}
    for _ in range(c):
        subscription, position, r = struct.unpack("<QQI", content[at : at + 20])
        numbers = struct.unpack(f"<{2 * r}Q", content[at + 20 : at + 20 + 16 * r])
        cursors[subscription] = (position, list(zip(numbers[::2], numbers[1::2], strict=True)))
        at += 20 + 16 * r
        at += 4 + 20 * int.from_bytes(content[at : at + 4], "little")
    rows = []
    for _ in range(n):
        producer_state, b = struct.unpack("<QI", content[at : at + 12])
        rows.append((producer_state, list(struct.iter_unpack("<QQII", content[at + 12 : at + 12 + 24 * b]))))
        at += 12 + 24 * b
    journals = dict(struct.iter_unpack("<QQ", content[at : at + 16 * j]))
    assert at + 16 * j == len(content)
    return {
        "topic": (topic, manifest_version, start, end, last_ms),
        "segments": segments,
        "cursors": cursors,
        "rows": rows,
        "journals": journals,
    }


def read_segment(data: bytes) -> tuple[dict[str, object], list[Record]]:
    """What a segment says of itself, by the names that its page uses, and all its batches."""
    footer = checked(data[-88:])
    magic, topic, base, end, manifest_version, first_ms, last_ms, body_bytes, index_at, batches, blocks, index_crc = (
        struct.unpack("<8s8Q3I", footer)
    )
    assert magic == b"DnSf\x01\0\0\0"
    assert checked(data[:36]) == struct.pack("<8s3Q", b"DnSg\x01\0\0\0", topic, base, manifest_version)
    index = data[index_at:-88]
    assert (crc32c(index), len(index)) == (index_crc, 52 * blocks)
    records: list[Record] = []
    position = 36
    for entry in struct.iter_unpack("<5Q3I", index):
        block_base, block_end, from_ms, to_ms, at, length, plain_bytes, count = entry
        assert at == position
        block = checked(data[at : at + length])
        header = struct.unpack("<5sBH3Q3I", block[:44])
        assert header == (b"DnSb\x01", 0, 0, topic, block_base, block_end, count, plain_bytes, len(block) - 44)
        found = list(read_envelopes(block[44:]))
        assert (len(found), found[0].base_offset, found[0].append_time_ms) == (count, block_base, from_ms)
        assert (found[-1].base_offset + found[-1].record_count, found[-1].append_time_ms) == (block_end, to_ms)
        records += found
        position = at + length
    assert (position, len(records), sum(len(one.body) for one in records)) == (index_at, batches, body_bytes)
    says = {"topic": topic, "offsets": (base, end), "generation": manifest_version, "times": (first_ms, last_ms)}
    return says, records

"""A reader of journals written from `docs/formats/` alone: it shares no code with `danube.storage`."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgpack


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


def sealed(data: bytes, magic: bytes) -> Any:
    """The body of a sealed record."""
    content = checked(data)
    assert content[:6] == magic + b"\x01\0"
    return msgpack.unpackb(content[6:], strict_map_key=False)


def read_first(data: bytes) -> tuple[int, int, int, int]:
    """Journal id, first sequence, its base position, rounds before it."""
    journal_id, sequence, base, rounds = sealed(data, b"DnJ1")
    return journal_id, sequence, base, rounds


def read_mark(data: bytes) -> tuple[int, ...]:
    """Journal id, file sequence, synced to."""
    return tuple(sealed(data, b"DnJm"))


class Index(NamedTuple):
    """What stands beside a closed file."""

    numbers: tuple[int, ...]
    """Sequence, base position, end, last round before, last round, oldest and newest append time."""
    topics: dict[int, list[tuple[int, int, int, int]] | None]
    """By topic id, of each batch: base offset, position, append time, length of the body."""
    ends: dict[int, int]
    cursors: list[list[Any]]
    """Topic id, subscription id, position of the record, cursor."""
    sequenced: list[tuple[int, ...]]


def read_index(data: bytes) -> Index:
    """The index of a closed file."""
    found = sealed(data, b"DnJx")
    start = found["start"]
    numbers = start["sequence"], start["base_position"], found["end_position"], start["rounds_before"]
    times = found["last_round"], found["oldest_append_ms"], found["newest_append_ms"]
    index = Index((*numbers, *times), {}, {}, found["cursors"], [])
    for topic_id, end, bases, *columns in found["topics"]:
        if bases is None:
            index.topics[topic_id] = None
            continue
        count = len(bases) // 8
        read = [struct.unpack(f"<{count}Q", one) for one in (bases, *columns[:2])]
        index.topics[topic_id] = list(zip(*read, struct.unpack(f"<{count}I", columns[2]), strict=True))
        index.ends[topic_id] = end
    index.sequenced.extend((topic_id, base, *batch) for topic_id, (batch, base) in found["numbers"])
    return index


def read_cursor(body: bytes) -> tuple[int, int, list[tuple[int, int]]]:
    """Subscription id, position, ranges."""
    subscription_id, position, ranges, _ = sealed(body, b"DnCu")
    return subscription_id, position, [(start, end) for start, end in ranges]


def read_manifest(data: bytes) -> dict[str, object]:
    """What a manifest says, by the names that its page uses."""
    found = sealed(data, b"DnMf")
    names = ("topic_id", "version", "start_offset", "end_offset", "last_append_time_ms")
    return {
        "topic": tuple(found.get(name, 0) for name in names),
        "segments": [tuple(segment) for segment in found.get("segments", ())],
        "cursors": {
            identity: (position, [tuple(one) for one in ranges])
            for identity, (position, ranges, _) in found["cursors"].items()
        },
        "rows": [[(*batch, base) for batch, base in row] for row in found.get("producer_states", ())],
        "journals": found["journals"],
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

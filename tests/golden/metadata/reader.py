"""A reader of backups that was made from `docs/formats/metadata-backup.md` alone. It believes all it reads."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import google_crc32c
import msgpack


def read_backup(content: bytes) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """The origin, the head of the snapshot, and its parts. Raises AssertionError where a checksum is wrong."""
    origin, head, *parts = _records(content)
    assert [origin[0], head[0], *{magic for magic, _ in parts}] == [b"DnMb", b"DnMs", b"DnMp"]
    return origin[1], head[1], [part for _, part in parts]


def _records(content: bytes) -> Iterator[tuple[bytes, Any]]:
    at = 0
    while at < len(content):
        (length,) = struct.unpack_from("<I", content, at)
        sealed = content[at + 4 : at + 4 + length]
        magic, version, codec = struct.unpack_from("<4sBB", sealed)
        assert version == 1
        assert google_crc32c.value(sealed[:-4]) == int.from_bytes(sealed[-4:], "little")
        body = sealed[6:-4]
        yield magic, msgpack.unpackb(zlib.decompress(body) if codec else body)
        at += 4 + length

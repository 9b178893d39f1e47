"""A reader of backups that was made from `docs/formats/metadata-backup.md` alone. It believes all it reads."""

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import google_crc32c
import msgpack


def read_backup(content: bytes) -> tuple[dict[str, Any], list[Any], list[list[Any]]]:
    """The origin, the first block, and the rows of all others. Raises AssertionError where a checksum is wrong."""
    magic, version, _, origin_bytes, snapshot_bytes, snapshot_crc = struct.unpack_from("<4sHHIQI", content)
    assert (magic, version) == (b"DNBB", 1)
    origin = content[24 : 24 + origin_bytes]
    (crc,) = struct.unpack_from("<I", content, 24 + origin_bytes)
    assert google_crc32c.value(content[: 24 + origin_bytes]) == crc
    snapshot = content[28 + origin_bytes :]
    assert (len(snapshot), google_crc32c.value(snapshot)) == (snapshot_bytes, snapshot_crc)
    first, *rest = _blocks(snapshot)
    return json.loads(origin), first, [row for block in rest for row in block]


def _blocks(snapshot: bytes) -> Iterator[list[Any]]:
    assert struct.unpack_from("<4sHBB", snapshot) == (b"DNBI", 1, 1, 0)
    at = 8
    while True:
        length, crc = struct.unpack_from("<II", snapshot, at)
        if not length:
            assert len(snapshot) == at + 8
            return
        packed = snapshot[at + 8 : at + 8 + length]
        assert google_crc32c.value(packed) == crc
        block: list[Any] = msgpack.unpackb(zlib.decompress(packed))
        yield block
        at += 8 + length

"""A reader of the folder `raft/` made from `docs/formats/raft.md` alone, with libraries of CRC-32C and MessagePack."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import google_crc32c
import msgpack

Entry = tuple[bytes, int, int]


@dataclass
class Found:
    """What a folder says."""

    node_id: int
    cluster_id: str
    term: int
    voted_for: str | None
    log: list[Entry]
    members: list[str]
    payload: bytes


def _checked(content: bytes, magic: bytes) -> bytes:
    body, crc = content[:-4], int.from_bytes(content[-4:], "little")
    assert google_crc32c.value(body) == crc
    assert (body[:4], body[4]) == (magic, 1)
    return body


def _sealed(content: bytes, magic: bytes) -> dict[str, Any]:
    body = _checked(content, magic)
    assert body[5] == 0
    fields: dict[str, Any] = msgpack.unpackb(body[6:])
    return fields


def read_folder(files: Mapping[str, bytes]) -> Found:
    """The folder whose files these are, which nothing is wrong with."""
    identity = _sealed(files["identity"], b"DnRn")
    own = _sealed(files["vote"], b"DnRv")
    node_id, vote = own["node_id"], own["vote"]
    assert node_id == identity["node_id"]
    prev, last, members, payload = _snapshot(files[max(name for name in files if name.startswith("image-"))])
    log = _log([files[name] for name in sorted(files) if name.startswith("log-")])
    assert log[-1][1:] == (vote["synced_index"], vote["synced_term"])
    assert last in log
    after = [entry for entry in log if entry[1] > last[1]]
    if "mark" in files:
        _check_mark(_sealed(files["mark"], b"DnRm"), node_id, files)
    entries = [prev, last, *after]
    cluster_id = identity.get("cluster_id", "")
    return Found(node_id, cluster_id, vote.get("term", 0), vote.get("voted_for"), entries, members, payload)


def _check_mark(mark: Mapping[str, int], node_id: int, files: Mapping[str, bytes]) -> None:
    name = f"log-{mark['sequence']:010d}"
    assert mark["node_id"] == node_id
    assert name == max(each for each in files if each.startswith("log-"))
    assert mark["file_id"] == struct.unpack_from("<Q", files[name], 40)[0]
    assert mark["synced_to"] <= len(files[name])


def _snapshot(content: bytes) -> tuple[Entry, Entry, list[str], bytes]:
    (length,) = struct.unpack_from("<I", content)
    head = _sealed(content[4 : 4 + length], b"DnRi")
    payload = content[4 + length :]
    assert (len(payload), google_crc32c.value(payload)) == (head["payload_bytes"], head["payload_crc"])
    return _entry(head["prev"]), _entry(head["last"]), head["members"], payload


def _entry(row: list[Any]) -> Entry:
    command, index, term = row
    return command, index, term


def _log(files: list[bytes]) -> list[Entry]:
    log: list[Entry] = []
    for content in files:
        _checked(content[:56], b"DnRf")
        first_index, file_id = struct.unpack_from("<QQ", content, 32)
        log = [] if content[48] else [entry for entry in log if entry[1] < first_index]
        log += _records(content, file_id)
    return log


def _records(content: bytes, file_id: int) -> list[Entry]:
    entries, at = [], 56
    while at < len(content):
        header = content[at : at + 52]
        assert google_crc32c.value(header[:48]) == int.from_bytes(header[48:], "little")
        owner, index, term, position, _, length, crc = struct.unpack_from("<QQQIIII", header, 8)
        assert (header[:5], owner, position) == (b"DnRr\1", file_id, at)
        command = content[at + 52 : at + 52 + length]
        assert google_crc32c.value(command) == crc
        entries.append((command, index, term))
        at += 52 + length
    return entries

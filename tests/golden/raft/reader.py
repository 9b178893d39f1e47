"""A reader of the folder `raft/` made from `docs/formats/raft.md` alone: nothing of ours but the checksum's library."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import google_crc32c

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


def read_folder(files: Mapping[str, bytes]) -> Found:
    """The folder whose files these are, which nothing is wrong with."""
    identity = _checked(files["identity"], b"DnRn")
    length, node_id = struct.unpack_from("<HQ", identity, 6)
    vote = _checked(files["vote"], b"DnRv")
    owner, term, synced_index, synced_term = struct.unpack_from("<QQQQ", vote, 8)
    assert owner == node_id
    prev, last, members, payload = _snapshot(files[max(name for name in files if name.startswith("image-"))])
    log = _log([files[name] for name in sorted(files) if name.startswith("log-")])
    assert log[-1][1:] == (synced_index, synced_term)
    assert last in log
    after = [entry for entry in log if entry[1] > last[1]]
    if "mark" in files:
        _check_mark(_checked(files["mark"], b"DnRm"), node_id, files)
    voted_for = vote[40:].decode() if vote[5] else None
    return Found(node_id, identity[16 : 16 + length].decode(), term, voted_for, [prev, last, *after], members, payload)


def _check_mark(mark: bytes, node_id: int, files: Mapping[str, bytes]) -> None:
    owner, sequence, file_id, synced_to = struct.unpack_from("<QQQQ", mark, 8)
    name = f"log-{sequence:010d}"
    assert owner == node_id
    assert name == max(each for each in files if each.startswith("log-"))
    assert file_id == struct.unpack_from("<Q", files[name], 40)[0]
    assert synced_to <= len(files[name])


def _snapshot(content: bytes) -> tuple[Entry, Entry, list[str], bytes]:
    index, term, prev_term, size, first, second, names, crc = struct.unpack_from("<QQQQIIII", content, 8)
    end = 56 + first + second + names
    _checked(content[: end + 4], b"DnRi")
    payload = content[end + 4 :]
    assert (len(payload), google_crc32c.value(payload)) == (size, crc)
    members, at = [], 56 + first + second
    while at < end:
        (length,) = struct.unpack_from("<H", content, at)
        members.append(content[at + 2 : at + 2 + length].decode())
        at += 2 + length
    before, command = content[56 : 56 + first], content[56 + first : 56 + first + second]
    return (before, index - 1, prev_term), (command, index, term), members, payload


def _log(files: list[bytes]) -> list[Entry]:
    log: list[Entry] = []
    for content in files:
        _checked(content[:52], b"DnRf")
        first_index, file_id = struct.unpack_from("<QQ", content, 32)
        log = [] if content[5] else [entry for entry in log if entry[1] < first_index]
        log += _records(content, file_id)
    return log


def _records(content: bytes, file_id: int) -> list[Entry]:
    entries, at = [], 52
    while at < len(content):
        header = content[at : at + 52]
        assert google_crc32c.value(header[:48]) == int.from_bytes(header[48:], "little")
        owner, index, term, position, _, length, crc = struct.unpack_from("<QQQIIII", header, 8)
        assert (header[:4], owner, position) == (b"DnRr", file_id, at)
        command = content[at + 52 : at + 52 + length]
        assert google_crc32c.value(command) == crc
        if header[4] == 1:
            entries.append((command, index, term))
        at += 52 + length
    return entries

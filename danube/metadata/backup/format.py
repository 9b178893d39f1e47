"""Format of a backup file: its origin as JSON, then a snapshot of the state with nothing left out.

Byte by byte: `docs/formats/metadata-backup.md`. A file that is shorter or longer than its numbers say is no backup.
"""

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from danube.metadata.replication.snapshot_format import decode_state, encode_state
from danube.metadata.state import State, StateSnapshot
from danube.model.errors import DamagedDataError, DataFolderError, InvalidRequestError, MetadataError, NewerRecordError
from danube.model.limits.metadata import METADATA_BACKUP_BYTES_MAX, METADATA_BACKUP_ORIGIN_BYTES_MAX
from danube.model.untrusted_json import decode_json
from danube.runtime.checksum import CRC_BYTES, crc_of, extended, is_intact, other_version, with_crc

BACKUP_VERSION = 1

_FIXED = struct.Struct("<4sHHIQI")
_MAGIC = b"DNBB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Source of a backup, and when it was taken."""

    kind: str
    """sqlite, raft, etcd or zookeeper."""
    place: str
    """The data folder, or the service and the root in it."""
    taken_ms: int
    danube: str
    """The version of Danube that took it."""
    cluster_id: str = ""
    """"" when the metadata has none yet."""
    broker_id: int = 0
    """Owner of the data folder; 0 for a service."""
    position: int = 0
    """Last position in the sequence of changes; 0 where there is no sequence."""
    agreed_position: int = 0
    """Last position known to be agreed on; a member that does not run knows no more."""
    members: tuple[str, ...] = ()
    """Voters of the Raft group."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup, read."""

    origin: Origin
    snapshot: StateSnapshot


def encode_backup(backup: Backup, told: Callable[[int], None] = lambda _keys: None) -> Sequence[bytes]:
    """The file in pieces; `told` is called with each number of keys that were done, roughly.

    Raises InvalidRequestError for an origin that is longer than any is.
    """
    pieces: list[bytes] = []
    crc = 0
    for piece in encode_state(backup.snapshot):
        pieces.append(piece)
        crc = extended(crc, piece)
        told(_KEYS_A_PIECE)
    origin = json.dumps(asdict(backup.origin), ensure_ascii=False, separators=(",", ":")).encode()
    if len(origin) > METADATA_BACKUP_ORIGIN_BYTES_MAX:
        raise InvalidRequestError(f"what a backup says of itself has {len(origin)} bytes: too many members or names")
    head = _FIXED.pack(_MAGIC, BACKUP_VERSION, 0, len(origin), sum(map(len, pieces)), crc) + origin
    return [with_crc(head), *pieces]


def decode_backup(content: bytes, name: str) -> Backup:
    """The backup in a file that is called `name`.

    Raises DamagedDataError when it is not what was written, and DataFolderError when it is no backup or of a newer
    format.
    """
    if content[:4] != _MAGIC:
        raise DataFolderError(
            f"{name} is no backup of metadata: name a file that `danube-broker metadata backup` wrote"
        )
    head = memoryview(content)
    try:
        _, version, _, origin_bytes, snapshot_bytes, snapshot_crc = _FIXED.unpack_from(head)
    except struct.error:
        raise _damaged(name, len(content), "it is cut off") from None
    if version != BACKUP_VERSION:
        raise other_version(name, version, BACKUP_VERSION)
    start = _FIXED.size + origin_bytes + CRC_BYTES
    if origin_bytes > METADATA_BACKUP_ORIGIN_BYTES_MAX or len(content) < start:
        raise _damaged(name, len(content), "it is cut off")
    if not is_intact(content[:start]):
        raise _damaged(name, 0, "its beginning is not what was written")
    if len(content) != start + snapshot_bytes or crc_of(content[start:]) != snapshot_crc:
        raise _damaged(name, start, "the snapshot is not what was written, or cut off")
    origin = _origin(content[_FIXED.size : start - CRC_BYTES], name)
    return Backup(origin, _snapshot(head[start:], name))


def check_size(size: int, name: str) -> None:
    """Raise DataFolderError for a file that is larger than any backup is, before it is read."""
    if size > METADATA_BACKUP_BYTES_MAX:
        raise DataFolderError(
            f"{name} has {size} bytes, and no backup of metadata has more than "
            f"{METADATA_BACKUP_BYTES_MAX}: name another file"
        )


_KEYS_A_PIECE = 256


def _snapshot(packed: memoryview, name: str) -> StateSnapshot:
    try:
        snapshot = decode_state(packed)
        State.of(snapshot).validate()
    except NewerRecordError:
        raise
    except (MetadataError, AssertionError) as error:
        raise DamagedDataError(f"{name}: {error}; use another backup") from error
    return snapshot


def _origin(packed: bytes, name: str) -> Origin:
    try:
        fields = decode_json(packed)
        known = {key: fields[key] for key in Origin.__slots__ if key in fields}
        origin = Origin(**{**known, "members": tuple(known.get("members", ()))})
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(name, _FIXED.size, f"what it says of itself cannot be read ({error})") from error
    if list(_wrong(origin)):
        raise _damaged(name, _FIXED.size, f"what it says of itself is wrong ({', '.join(_wrong(origin))})")
    return origin


def _wrong(origin: Origin) -> Iterator[str]:
    """Names of fields that hold something else than they should."""
    numbers = ("taken_ms", "broker_id", "position", "agreed_position")
    texts: dict[str, Any] = {key: getattr(origin, key) for key in ("kind", "place", "danube", "cluster_id")}
    yield from (key for key in numbers if type(getattr(origin, key)) is not int)
    yield from (key for key, value in texts.items() if not isinstance(value, str))
    if not all(isinstance(member, str) for member in origin.members):
        yield "members"


def _damaged(name: str, at: int, what: str) -> DamagedDataError:
    return DamagedDataError(f"{name}, byte {at}: {what}; use another backup")

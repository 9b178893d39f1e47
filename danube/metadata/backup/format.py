"""Format of a backup file: its origin, sealed, then a snapshot of the state with nothing left out.

Byte by byte: `docs/formats/metadata-backup.md`. A file that is shorter or longer than its numbers say is no backup.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from danube.metadata.raft.values.node import ALONE
from danube.metadata.replication.snapshot_format import decode_state, encode_state
from danube.metadata.state import State, StateSnapshot
from danube.model.errors import DamagedDataError, DataFolderError, InvalidRequestError, MetadataError, NewerRecordError
from danube.model.limits.metadata import METADATA_BACKUP_BYTES_MAX, METADATA_BACKUP_ORIGIN_BYTES_MAX
from danube.runtime.checksum import other_version
from danube.runtime.sealed import FRAME_BYTES, OtherVersionError, Sealed, UnsealError, framed, unframed


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Source of a backup, and when it was taken."""

    kind: str
    """raft, etcd or zookeeper."""
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

    @property
    def is_of_cluster(self) -> bool:
        """True if brokers share the metadata; one that stands alone is a Raft group without an address."""
        return self.kind != "raft" or any(not member.endswith(f"@{ALONE}") for member in self.members)


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup, read."""

    origin: Origin
    snapshot: StateSnapshot


def encode_backup(backup: Backup, told: Callable[[int], None] = lambda _keys: None) -> Sequence[bytes]:
    """The file in pieces; `told` is called with each number of keys that were done, roughly.

    Raises InvalidRequestError for an origin that is longer than any is.
    """
    origin = _ORIGIN.seal(backup.origin)
    if len(origin) > METADATA_BACKUP_ORIGIN_BYTES_MAX:
        raise InvalidRequestError(f"what a backup says of itself has {len(origin)} bytes: too many members or names")
    pieces = [framed(origin)]
    for piece in encode_state(backup.snapshot):
        pieces.append(piece)
        told(_KEYS_A_PIECE)
    return pieces


def decode_backup(content: bytes, name: str) -> Backup:
    """The backup in a file that is called `name`.

    Raises DamagedDataError when it is not what was written, and DataFolderError when it is no backup or of another
    format.
    """
    if content[FRAME_BYTES : FRAME_BYTES + 4] != _ORIGIN.magic:
        raise DataFolderError(
            f"{name} is no backup of metadata: name a file that `danube-broker metadata backup` wrote"
        )
    try:
        origin, end = unframed(content)
        return Backup(_ORIGIN.unseal(origin), _snapshot(memoryview(content)[end:], name))
    except OtherVersionError as error:
        raise other_version(name, error.found, error.known) from error
    except UnsealError as error:
        raise DamagedDataError(
            f"{name}: what it says of itself cannot be read ({error}); use another backup"
        ) from error


def check_size(size: int, name: str) -> None:
    """Raise DataFolderError for a file that is larger than any backup is, before it is read."""
    if size > METADATA_BACKUP_BYTES_MAX:
        raise DataFolderError(
            f"{name} has {size} bytes, and no backup of metadata has more than "
            f"{METADATA_BACKUP_BYTES_MAX}: name another file"
        )


_KEYS_A_PIECE = 256
_ORIGIN = Sealed(b"DnMb", Origin)


def _snapshot(packed: memoryview, name: str) -> StateSnapshot:
    try:
        snapshot = decode_state(packed)
        State.of(snapshot).validate()
    except NewerRecordError:
        raise
    except (MetadataError, AssertionError) as error:
        raise DamagedDataError(f"{name}: {error}; use another backup") from error
    return snapshot

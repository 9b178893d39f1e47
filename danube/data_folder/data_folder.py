"""Data folder of a broker: its lock, and the identity that tells it apart from any other folder.

`broker.json` is written last when a folder is made, in one step: a folder without it has never held a message, so a
start-up killed at any moment leaves one that starts again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from danube.data_folder.disk_reserve import DiskReserve
from danube.metadata.raft.folder.format import FOLDER as RAFT
from danube.model.errors import DamagedDataError, DataFolderError, DataFolderInUseError
from danube.model.untrusted_json import decode_json
from danube.runtime.checksum import crc_of, other_version
from danube.runtime.disk import Disk, DiskLock, LocalDisk, next_step_of
from danube.runtime.rng import Rng

FORMAT = 1
IDENTITY = "broker.json"
LOCK = "lock"
JOURNAL = "journal"
_FORMER_METADATA = "metadata.sqlite3"
_CHECKSUM = "crc32c"
REPAIRED = "repaired.json"
"""Manifests that a repair has made and the cluster's metadata does not name yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Content of `broker.json`."""

    broker_id: int
    cluster_id: str = ""
    """Cluster of the metadata that knows this folder's topics; "" while none is known."""
    is_shared: bool = False
    """True if several brokers share that metadata: those of a cluster, among themselves or in a service."""
    restore_id: str = ""
    """Last restore of that metadata that the broker started on; "" when it was never restored."""
    accepted_restore_id: str | None = None
    """Restore that may cost messages of this folder, accepted by a person (`metadata adopt`). "" is the
    metadata from before any restore."""
    has_journal: bool = False
    """True if a journal was begun in here, durably: should it be gone, the broker never begins another in silence."""

    def encode(self) -> bytes:
        """The file."""
        fields = {"format": FORMAT, **asdict(self), "broker_id": str(self.broker_id)}
        return json.dumps({**fields, _CHECKSUM: _checksum_of(fields)}).encode()


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A data folder that this process has locked."""

    path: Path
    disk: Disk
    lock: DiskLock
    identity: Identity
    """As it was when the folder was opened."""
    reserve: DiskReserve

    @property
    def broker_id(self) -> int:
        """Id of the broker that it belongs to."""
        return self.identity.broker_id

    def check(self, cluster_id: str, *, is_shared: bool) -> None:
        """Raise DataFolderError when that is not the metadata that knows what is in here.

        Topics that it does not know would be taken for deleted, so the broker does not start.
        """
        own = self.identity.cluster_id
        if own and own != cluster_id:
            raise DataFolderError(
                f"{self.path} holds messages of another cluster ({own}), and the metadata that this broker "
                f"is told to use is of {cluster_id}: mend `meta_store`, or choose another folder with --data-dir"
            )
        if is_shared and not own and self.disk.exists(JOURNAL):
            raise DataFolderError(
                f"{self.path} holds the topics of a broker that stood alone, and the cluster does not know them: carry "
                "them over first (danube-broker metadata backup, then restore), or choose another with --data-dir"
            )

    def adopt(
        self, cluster_id: str, *, is_shared: bool, restore_id: str | None = None, has_journal: bool = False
    ) -> None:
        """Write down, durably, which metadata knows what is in here, once it was checked.

        With `restore_id` also as of which restore: then what was accepted for it is over. With `has_journal` also that
        there is a journal, which has to be durable already.
        """
        adopted = replace(
            self.identity,
            cluster_id=cluster_id,
            is_shared=is_shared,
            has_journal=has_journal or self.identity.has_journal,
        )
        if restore_id is not None:
            adopted = replace(adopted, restore_id=restore_id, accepted_restore_id=None)
        if adopted != self.identity:
            self.disk.replace_file(IDENTITY, adopted.encode())


def open_data_folder(path: Path, rng: Rng, *, is_shared: bool = False) -> DataFolder:
    """Lock the folder, creating it where it is missing, and answer which broker it belongs to.

    `is_shared`: this broker is one of a cluster, which keeps the metadata.

    Raises:
        DataFolderInUseError: another broker has it.
        DamagedDataError: parts of it are damaged or missing.
        DataFolderError: it cannot be read or written, or is of a newer format.
    """
    disk = LocalDisk(path)
    try:
        disk.make_folder("")
        lock, reserve = disk.lock(LOCK), DiskReserve(path, disk)
        reserve.make_room()  # a start writes, too
        return DataFolder(path, disk, lock, _identified(disk, path, rng, is_shared=is_shared), reserve)
    except BlockingIOError:
        raise DataFolderInUseError(
            f"the data folder {path} is in use by another broker: stop that one, or choose another with --data-dir"
        ) from None
    except OSError as error:
        raise DataFolderError(
            f"cannot use the data folder {path}: {error.strerror}; {next_step_of(error)}, "
            "or choose another with --data-dir"
        ) from None


def _identified(disk: LocalDisk, path: Path, rng: Rng, *, is_shared: bool) -> Identity:
    if disk.exists(_FORMER_METADATA):
        raise DataFolderError(
            f"{path} is of a Danube that kept its metadata in SQLite ({_FORMER_METADATA}), which this version cannot"
            " read: choose another folder with --data-dir"
        )
    if not disk.exists(IDENTITY):
        if disk.exists(JOURNAL):
            raise DamagedDataError(
                f"{path} holds a journal but no {IDENTITY}: restore that file, or choose another folder with --data-dir"
            )
        disk.replace_file(IDENTITY, Identity(broker_id=rng.new_id(), is_shared=is_shared).encode())
    found = read_identity(path)
    if found.is_shared and not is_shared:
        raise DataFolderError(
            f"{path} is of a broker of a cluster, which keeps its metadata: start it with --mode cluster and that"
            " cluster's `meta_store`, or choose another folder with --data-dir"
        )
    if not is_shared and disk.exists(JOURNAL) and not disk.exists(RAFT):
        raise DamagedDataError(
            f"{path} holds a journal but no {RAFT}/: restore that folder, or choose another one with --data-dir"
        )
    return found


def _check_sum(fields: Mapping[str, object]) -> None:
    """Raise ValueError where a field is not what was written."""
    if fields.get(_CHECKSUM) != _checksum_of(fields):
        raise ValueError("its checksum is another")


def _checksum_of(fields: Mapping[str, object]) -> int:
    """The checksum of all fields but itself, in their order."""
    return crc_of(json.dumps({name: value for name, value in fields.items() if name != _CHECKSUM}).encode())


def forget_journal(disk: Disk, folder: Path) -> None:
    """Have the next start begin a journal when there is none: a repair has kept what was in the old one.

    Raises OSError, NewerDataFolderError, DamagedDataError.
    """
    identity = read_identity(folder)
    if identity.has_journal:
        disk.replace_file(IDENTITY, replace(identity, has_journal=False).encode())


def read_identity(folder: Path) -> Identity:
    """Content of `broker.json` in a data folder.

    Raises NewerDataFolderError, DamagedDataError, OSError.
    """
    path = folder / IDENTITY
    try:
        fields = decode_json(path.read_bytes())
        version, accepted = int(fields["format"]), fields.get("accepted_restore_id")
        if version != FORMAT:  # first: what else is in it nobody here knows
            raise other_version(str(folder), version, FORMAT)
        _check_sum(fields)
        return Identity(
            broker_id=int(fields["broker_id"]),
            cluster_id=str(fields.get("cluster_id", "")),
            is_shared=bool(fields.get("is_shared", False)),
            restore_id=str(fields.get("restore_id", "")),
            accepted_restore_id=None if accepted is None else str(accepted),
            has_journal=bool(fields.get("has_journal", False)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DamagedDataError(f"{path} is damaged: restore it, or choose another folder with --data-dir") from None

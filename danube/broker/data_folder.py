"""The data folder: who may use it, and what tells it apart from any other folder.

`broker.json` is written last when a folder is made, in one step: a folder without it has never held a message, so a
start-up killed at any moment leaves one that starts again.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from danube.model.errors import DataFolderError, DataFolderInUseError
from danube.runtime.disk import Disk, DiskLock, LocalDisk
from danube.runtime.rng import Rng

FORMAT = 1
IDENTITY = "broker.json"
LOCK = "lock"
METADATA = "metadata.sqlite3"
JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A data folder that this process has locked."""

    path: Path
    disk: Disk
    broker_id: int
    lock: DiskLock
    cluster_id: str = ""
    """Of the metadata that knows what is in here; "" while none was told."""
    is_shared: bool = False
    """Whether that metadata is kept elsewhere, by the brokers of a cluster or by a service."""

    @property
    def metadata_path(self) -> Path:
        """The file of the embedded metadata store."""
        return self.path / METADATA

    def adopt(self, cluster_id: str, *, is_shared: bool) -> None:
        """Write down, durably, which metadata knows what is in here; nothing to do when it is that one already.

        Raises:
            DataFolderError: it is another one. What it does not know of would be taken for deleted, so nobody begins.
        """
        if (self.cluster_id, self.is_shared) == (cluster_id, is_shared):
            return
        if self.cluster_id and self.cluster_id != cluster_id:
            raise DataFolderError(
                f"{self.path} holds messages of another cluster ({self.cluster_id}), and the metadata that this broker "
                f"is told to use is of {cluster_id}: mend `meta_store`, or choose another folder with --data-dir"
            )
        if is_shared and not self.cluster_id and self.disk.exists(JOURNAL):
            raise DataFolderError(
                f"{self.path} holds the topics of a broker that stood alone, and the cluster does not know them: carry "
                "them over first (danube-broker metadata backup, then restore), or choose another with --data-dir"
            )
        self.disk.replace_file(IDENTITY, _identity(self.broker_id, cluster_id, is_shared=is_shared))


def open_data_folder(path: Path, rng: Rng, *, is_shared: bool = False) -> DataFolder:
    """Lock the folder, creating it where it is missing, and answer which broker it belongs to.

    `is_shared`: the metadata of this broker is kept elsewhere.

    Raises:
        DataFolderInUseError: another broker has it.
        DataFolderError: it cannot be read or written, is of a newer format, or parts of it are missing.
    """
    disk = LocalDisk(path)
    try:
        disk.make_folder("")
        lock = disk.lock(LOCK)
        broker_id, cluster_id, was_shared = _identified(disk, path, rng, is_shared=is_shared)
        return DataFolder(path, disk, broker_id, lock, cluster_id, was_shared)
    except BlockingIOError:
        raise DataFolderInUseError(
            f"the data folder {path} is in use by another broker: stop that one, or choose another with --data-dir"
        ) from None
    except OSError as error:
        raise DataFolderError(
            f"cannot use the data folder {path}: {error.strerror}; check its owner and permissions, "
            "or choose another with --data-dir"
        ) from None


def _identified(disk: LocalDisk, path: Path, rng: Rng, *, is_shared: bool) -> tuple[int, str, bool]:
    """The broker, the cluster, and whether its metadata was kept elsewhere."""
    if not disk.exists(IDENTITY):
        if disk.exists(JOURNAL):
            raise DataFolderError(
                f"{path} holds a journal but no {IDENTITY}: restore that file, or choose another folder with --data-dir"
            )
        disk.replace_file(IDENTITY, _identity(rng.new_id(), "", is_shared=is_shared))
    found = _read_identity(path / IDENTITY)
    if found[2] and not is_shared:
        raise DataFolderError(
            f"{path} is of a broker of a cluster, which keeps its metadata: start it with that cluster's `meta_store`, "
            "or choose another folder with --data-dir"
        )
    if not is_shared and disk.exists(JOURNAL) and not disk.exists(METADATA):
        raise DataFolderError(
            f"{path} holds a journal but no {METADATA}: restore that file, or choose another folder with --data-dir"
        )
    return found


def _identity(broker_id: int, cluster_id: str, *, is_shared: bool) -> bytes:
    identity = {"format": FORMAT, "broker_id": str(broker_id), "cluster_id": cluster_id, "is_shared": is_shared}
    return json.dumps(identity).encode()


def _read_identity(path: Path) -> tuple[int, str, bool]:
    try:
        identity = json.loads(path.read_bytes())
        version, broker_id = int(identity["format"]), int(identity["broker_id"])
        cluster_id, is_shared = str(identity.get("cluster_id", "")), bool(identity.get("is_shared", False))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataFolderError(f"{path} is damaged: restore it, or choose another folder with --data-dir") from None
    if version > FORMAT:
        raise DataFolderError(f"{path.parent} was written by a newer version (format {version}): upgrade this broker")
    return broker_id, cluster_id, is_shared

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

    @property
    def metadata_path(self) -> Path:
        """The file of the embedded metadata store."""
        return self.path / METADATA


def open_data_folder(path: Path, rng: Rng) -> DataFolder:
    """Lock the folder, creating it where it is missing, and answer which broker it belongs to.

    Raises:
        DataFolderInUseError: another broker has it.
        DataFolderError: it cannot be read or written, is of a newer format, or parts of it are missing.
    """
    disk = LocalDisk(path)
    try:
        disk.make_folder("")
        lock = disk.lock(LOCK)
        return DataFolder(path, disk, _broker_id(disk, path, rng), lock)
    except BlockingIOError:
        raise DataFolderInUseError(
            f"the data folder {path} is in use by another broker: stop that one, or choose another with --data-dir"
        ) from None
    except OSError as error:
        raise DataFolderError(
            f"cannot use the data folder {path}: {error.strerror}; check its owner and permissions, "
            "or choose another with --data-dir"
        ) from None


def _broker_id(disk: LocalDisk, path: Path, rng: Rng) -> int:
    if not disk.exists(IDENTITY):
        if disk.exists(JOURNAL):
            raise DataFolderError(
                f"{path} holds a journal but no {IDENTITY}: restore that file, or choose another folder with --data-dir"
            )
        identity = {"format": FORMAT, "broker_id": str(rng.new_id())}
        disk.replace_file(IDENTITY, json.dumps(identity).encode())
    found = _read_identity(path / IDENTITY)
    if disk.exists(JOURNAL) and not disk.exists(METADATA):
        raise DataFolderError(
            f"{path} holds a journal but no {METADATA}: restore that file, or choose another folder with --data-dir"
        )
    return found


def _read_identity(path: Path) -> int:
    try:
        identity = json.loads(path.read_bytes())
        version, broker_id = int(identity["format"]), int(identity["broker_id"])
    except (ValueError, KeyError, TypeError):
        raise DataFolderError(f"{path} is damaged: restore it, or choose another folder with --data-dir") from None
    if version > FORMAT:
        raise DataFolderError(f"{path.parent} was written by a newer version (format {version}): upgrade this broker")
    return broker_id

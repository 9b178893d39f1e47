"""Files that a log begins, and the small file `mark` beside it. All of it blocks.

The mark names a position up to which the log is synced at least. Positions only grow and nothing that was synced is
written over, so an old mark says less and never anything wrong: one that cannot be read, or written, costs only that an
end that is lost may not be noticed.
"""

import contextlib
import logging
from typing import Generic, TypeVar

from danube.runtime.checksum import other_version
from danube.runtime.disk import Disk, File
from danube.runtime.sealed import OtherVersionError, Sealed, UnsealError

_log = logging.getLogger(__name__)

_BYTES_MAX = 4_096  # of a mark, in any version

M = TypeVar("M")


def begin_file(disk: Disk, folder: str, name: str, header: bytes) -> File:
    """Make a file and its header durable, its entry in the folder included. Raises OSError.

    This is before its first frame: a file that is longer than a header has a sound one, or is damaged.
    """
    file = disk.create(name)
    try:
        file.append([header])
        file.sync()
        disk.sync_folder(folder)
    except OSError:
        file.close()
        raise
    return file


class MarkFile(Generic[M]):
    """The file with the mark of one log."""

    def __init__(self, disk: Disk, name: str, sealed: Sealed[M]) -> None:
        self._disk = disk
        self._name = name
        self._sealed = sealed
        self._is_failing = False
        """True if the last mark could not be written: logged once, not at every try."""

    @property
    def exists(self) -> bool:
        """True if there is a mark, sound or not."""
        return self._disk.exists(self._name)

    def read(self) -> M | None:
        """The mark; None without a sound and readable one. Raises NewerDataFolderError."""
        if not self.exists:
            return None
        try:
            with contextlib.closing(self._disk.open_read(self._name)) as file:
                return self._sealed.unseal(file.read(0, _BYTES_MAX))
        except OSError as error:
            told = "could not be read, so an end that is missing may not be noticed"
            _log.warning("%s %s: %s", self._name, told, error)
        except OtherVersionError as error:
            raise other_version(self._name, error.found, error.known) from error
        except UnsealError:
            pass  # the next mark replaces it
        return None

    def write(self, mark: M) -> bool:
        """Write it durably; answers whether it is written. After an OSError the mark before it is still true."""
        try:
            self._disk.replace_file(self._name, self._sealed.seal(mark))
        except OSError as error:
            if not self._is_failing:
                _log.warning("%s could not be written, so it says less than it could for now: %s", self._name, error)
            self._is_failing = True
            return False
        self._is_failing = False
        return True

"""The folder in a data folder into which a repair moves what it takes out. Nothing is ever deleted."""

import contextlib
import errno
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from danube.runtime.disk import LocalDisk

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


class Aside:
    """One such folder, `lost-<time>`; made when it is first written to. Raises OSError."""

    def __init__(self, data_folder: Path, now_ms: int) -> None:
        stamp = datetime.fromtimestamp(now_ms / 1_000, UTC).strftime("%Y%m%dT%H%M%SZ")
        self._root = data_folder
        self._disk = LocalDisk(data_folder)
        self.name = f"lost-{stamp}"
        number = 1
        while (data_folder / self.name).exists():
            number += 1
            self.name = f"lost-{stamp}-{number}"

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._root / self.name

    def write(self, name: str, content: str) -> None:
        """Put a file of its own into it, durably, in the place of an older one."""
        self._disk.make_folder(self.name)
        self._disk.replace_file(f"{self.name}/{name}", content.encode())

    def keep(self, name: str) -> None:
        """Have a file in it as well, under the name it has in the data folder; it stays where it is for now."""
        target = self._root / self.name / name
        self._disk.make_folder(f"{self.name}/{name}".rpartition("/")[0])
        if target.exists():
            return
        try:
            target.hardlink_to(self._root / name)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(self._root / name, target)
            _sync(target)
        self._disk.sync_folder(f"{self.name}/{name}".rpartition("/")[0])

    def drop(self, name: str) -> None:
        """Have a file that was kept in it no more where it was."""
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(name)
        self._disk.sync_folder(name.rpartition("/")[0])

    def move(self, name: str) -> None:
        """Move a whole folder of the data folder into it."""
        self._disk.make_folder(self.name)
        (self._root / name).rename(self._root / self.name / name)
        self._disk.sync_folder(self.name)
        self._disk.sync_folder("")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

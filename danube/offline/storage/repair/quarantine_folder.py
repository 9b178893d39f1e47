"""Quarantine folder: a repair moves what it takes out of a data folder into it. Nothing is ever deleted."""

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from danube.model.errors import DataFolderError
from danube.model.untrusted_json import decode_json
from danube.offline.folder import stamped
from danube.runtime.disk import Disk, LocalDisk, content_of

PREFIX = "lost-"
"""Of the names of such folders."""

COVERED = "covered.json"
"""Beside the report: the journal that the repair takes care of."""

_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4  # which of the words of a line there
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


class QuarantineFolder:
    """One such folder, `lost-<time>`; made when it is first written to. Raises OSError."""

    def __init__(self, data_folder: Path, now_ms: int) -> None:
        self._root = data_folder
        self._disk = LocalDisk(data_folder)
        self.name = stamped(data_folder, PREFIX, now_ms)

    @property
    def path(self) -> Path:
        """Its path."""
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

    def check_movable(self, name: str) -> None:
        """Raise DataFolderError when a folder can never be moved into it, as it is a mount point. Writes nothing."""
        if _is_mount_point(self._root.resolve() / name):
            raise DataFolderError(
                f"{self._root / name} is a mount point, so a repair cannot set it aside as a whole; nothing was "
                f"changed. Copy what is in it, unmount it, put the copy in its place as a plain folder, and repeat "
                "this: afterwards an empty one can be mounted there"
            )

    def move(self, name: str) -> None:
        """Move a whole folder of the data folder into it; of one that is elsewhere, the link to it."""
        self._disk.make_folder(self.name)
        path, target = self._root / name, self._root / self.name / name
        if path.is_symlink():  # it may be relative, and would lead nowhere from in there
            target.symlink_to(path.resolve())
            self._disk.sync_folder(self.name)
            path.unlink()
        else:
            path.rename(target)
        self._disk.sync_folder(self.name)
        self._disk.sync_folder("")


def _is_mount_point(path: Path) -> bool:
    """Also of a folder of the same file system, which has no device of its own to be known by."""
    if path.is_symlink():
        return False
    with contextlib.suppress(OSError):  # a system without it
        lines = [line.split() for line in _MOUNTS.read_bytes().splitlines()]
        if os.fsencode(path) in {_unescaped(words[_MOUNT_POINT]) for words in lines if len(words) > _MOUNT_POINT}:
            return True
    return path.is_mount()


def _unescaped(mount_point: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), mount_point)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredJournal:
    """Up to where a repair takes care of the topics in a damaged journal; written down before anything is changed.

    A manifest that says so was made by that repair. Done again, it passes no offsets over for such a topic: nothing was
    written since, as no broker starts on that journal. The manifest alone does not tell: where the end of a journal is
    missing, a flush may have come further than what is left of it, too.
    """

    journal_id: int
    end_position: int
    """Where what is left of it ends: one that went on since is not the same."""
    covered: int
    """The position that the manifests of the repair say; no flush of this journal has come as far."""

    def encode(self) -> str:
        """The file."""
        return json.dumps(asdict(self)) + "\n"


def covered_to(disk: Disk, journal_id: int, end_position: int) -> int | None:
    """The position that an earlier repair of this journal has its manifests say; None when there was none.

    What cannot be read counts for none: then offsets are passed over once more, and none is given out twice.
    """
    wanted = journal_id, end_position
    own = (one.covered for one in _covered_journals(disk) if (one.journal_id, one.end_position) == wanted)
    return max((covered for covered in own if covered > end_position), default=None)


def _covered_journals(disk: Disk) -> Iterator[CoveredJournal]:
    for folder in disk.list(""):
        if not folder.startswith(PREFIX):
            continue
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            fields = decode_json(content_of(disk, f"{folder}/{COVERED}"))
            yield CoveredJournal(
                journal_id=int(fields["journal_id"]),
                end_position=int(fields["end_position"]),
                covered=int(fields["covered"]),
            )

"""The files of a journal: their names, how one is made, and which one holds a position."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.runtime.disk import Disk, File
from danube.storage.damage import next_step, next_step_shared
from danube.storage.journal.format import FIRST_NAME, FileHeader, encode_file_header, file_name, index_name
from danube.storage.journal.mark import MARK_NAME

FOLDER = "journal"
"""Of a broker's own journal within its data folder."""

FILE_GONE = "the file is missing"
FOLDER_GONE = "the folder is missing; if it is on a disk of its own, that may not be mounted"
ALL_GONE = "none of the journal's files is in this folder"
"""Of files that were removed once, as cut ones are, none is named where nothing tells them from those that count."""


def path(sequence: int, folder: str = FOLDER) -> str:
    """The name of a journal file within the data folder."""
    return f"{folder}/{file_name(sequence)}"


def index_path(sequence: int, folder: str = FOLDER) -> str:
    """The name of the index beside a journal file."""
    return f"{folder}/{index_name(sequence)}"


def first_path(folder: str = FOLDER) -> str:
    """The name of the file that says where the journal begins."""
    return f"{folder}/{FIRST_NAME}"


def mark_path(folder: str = FOLDER) -> str:
    """The name of the file that says how far the journal is synced."""
    return f"{folder}/{MARK_NAME}"


def create_file(disk: Disk, header: FileHeader, folder: str = FOLDER) -> File:
    """Make a file and its header durable, its entry in the folder included. Raises OSError.

    It is durable before the first round goes in: a file that is longer than a header has a sound one, or is damaged.
    """
    file = disk.create(path(header.sequence, folder))
    try:
        file.append([encode_file_header(header)])
        file.sync()
        disk.sync_folder(folder)
    except OSError:
        file.close()
        raise
    return file


def damaged(sequence: int, at: int, what: str, folder: str = FOLDER) -> DamagedDataError:
    """The error for bytes that cannot be what was written; a file that is missing is damaged at byte 0."""
    name = path(sequence, folder)
    return DamagedDataError(f"{name} is damaged at byte {at}: {what}. {next_step_in(folder, name if at else None)}")


def next_step_in(folder: str, file: str | None, lost: str = "file") -> str:
    """What to do about damage in a journal's folder, wherever that is; the words are those of `next_step`."""
    is_own = FOLDER in folder.split("/")
    return next_step(file, lost) if is_own else next_step_shared(folder, file, lost)


def folder_path(folder: str = FOLDER) -> str:
    """The name of a journal's folder in a sentence."""
    return f"{folder}/"


def first_gone(sequence: int) -> str:
    """What is wrong with `first` where nothing speaks of a file before this one."""
    return f"the file is missing, which says where the journal begins; or all before {file_name(sequence)} are"


@dataclass(frozen=True, slots=True)
class FileStart:
    """Where a file begins in its journal."""

    sequence: int
    base_position: int
    rounds_before: int
    """Rounds of the journal before its first one."""


class FileTable:
    """Which file holds which position: grows as the journal does, and shrinks at its front.

    It changes on the loop's thread; positions may be located from any other.
    """

    def __init__(self) -> None:
        self._table: tuple[list[FileStart], list[int]] = ([], [])
        """The files, and the base position of each."""

    def __len__(self) -> int:
        return len(self._table[0])

    @property
    def base_position(self) -> int:
        """Of the first file."""
        return self._table[1][0]

    @property
    def starts(self) -> list[FileStart]:
        """All of them, oldest first."""
        return self._table[0]

    def add(self, start: FileStart) -> None:
        """Note the next file."""
        self._table[0].append(start)
        self._table[1].append(start.base_position)

    def drop_below(self, base_position: int) -> None:
        """Forget the files that begin below a position; a reader in another thread sees all of that or nothing."""
        starts, bases = self._table
        count = bisect_left(bases, base_position)
        self._table = (starts[count:], bases[count:])

    def locate(self, position: int) -> tuple[int, int]:
        """The sequence of the file that holds `position`, and the byte in it.

        Raises StorageUnavailableError when the file was removed: a deleted topic may still be read by someone.
        """
        starts, bases = self._table
        number = self._number(bases, position)
        return starts[number].sequence, position - bases[number]

    def split(self, positions: Sequence[int]) -> list[tuple[FileStart, range]]:
        """Which of these positions, by their numbers, are in which file; they ascend. Raises as `locate`."""
        starts, bases = self._table
        found: list[tuple[FileStart, range]] = []
        first = 0
        while first < len(positions):
            number = self._number(bases, positions[first])
            is_last = number + 1 == len(bases)
            end = len(positions) if is_last else bisect_left(positions, bases[number + 1], first)
            found.append((starts[number], range(first, end)))
            first = end
        return found

    @staticmethod
    def _number(bases: Sequence[int], position: int) -> int:
        number = bisect_right(bases, position) - 1
        if number < 0:
            raise StorageUnavailableError(f"position {position} of the journal is in a file that was removed")
        return number

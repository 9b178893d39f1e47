"""The files of a journal: their names, how one is made, and which one holds a position."""

from bisect import bisect_right

from danube.model.errors import DamagedDataError
from danube.runtime.disk import Disk, File
from danube.storage.journal.format import FileHeader, encode_file_header, file_name

FOLDER = "journal"


def path(sequence: int) -> str:
    """The name of a journal file within the data folder."""
    return f"{FOLDER}/{file_name(sequence)}"


def create_file(disk: Disk, header: FileHeader) -> File:
    """Make a file and its header durable, its entry in the folder included. Raises OSError.

    It is durable before the first round goes in: a file that is longer than a header has a sound one, or is damaged.
    """
    file = disk.create(path(header.sequence))
    try:
        file.append([encode_file_header(header)])
        file.sync()
        disk.sync_folder(FOLDER)
    except OSError:
        file.close()
        raise
    return file


def damaged(sequence: int, at: int, what: str) -> DamagedDataError:
    """The error for bytes that cannot be what was written."""
    return DamagedDataError(
        f"{path(sequence)} is damaged at byte {at}: {what}. Restore the file from a backup, or move the data folder "
        "aside to start without it"
    )


class FileTable:
    """Which file holds which position; grows as the journal does."""

    def __init__(self) -> None:
        self._sequences: list[int] = []
        self._bases: list[int] = []

    def __len__(self) -> int:
        return len(self._sequences)

    @property
    def base_position(self) -> int:
        """Of the first file."""
        return self._bases[0]

    def add(self, sequence: int, base_position: int) -> None:
        """Note a file; noting the last one again changes nothing."""
        if not self._sequences or self._sequences[-1] != sequence:
            self._sequences.append(sequence)
            self._bases.append(base_position)

    def locate(self, position: int) -> tuple[int, int]:
        """The sequence of the file that holds `position`, and the byte in it."""
        number = bisect_right(self._bases, position) - 1
        return self._sequences[number], position - self._bases[number]

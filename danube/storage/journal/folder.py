"""What stands in a journal's folder beside the bytes of its rounds: where it begins, the indexes. All of it blocks."""

import contextlib
import logging

from danube.model.errors import DamagedDataError
from danube.runtime.disk import Disk
from danube.storage.damage import NEXT_STEP
from danube.storage.journal.file_index import FileIndex, decode_index, encode_index
from danube.storage.journal.files import FOLDER, first_path, index_path, path
from danube.storage.journal.format import (
    FIRST_BYTES,
    FirstFile,
    decode_first,
    encode_first,
    file_sequence,
    index_sequence,
)

_log = logging.getLogger(__name__)


class JournalFolder:
    """The folder of one journal. Raises OSError."""

    def __init__(self, disk: Disk, name: str = FOLDER) -> None:
        self.disk = disk
        self.name = name

    def path(self, sequence: int) -> str:
        """The name of a journal file within the data folder."""
        return path(sequence, self.name)

    def sequences(self) -> list[int]:
        """Of all journal files, ascending."""
        return sorted(found for name in self.disk.list(self.name) if (found := file_sequence(name)) is not None)

    def read_first(self) -> FirstFile | None:
        """Where the journal begins; None as long as no file was removed. Raises DamagedDataError."""
        name = first_path(self.name)
        if not self.disk.exists(name):
            return None
        with contextlib.closing(self.disk.open_read(name)) as file:
            first = decode_first(file.read(0, FIRST_BYTES + 1))
        if first is None:
            raise DamagedDataError(f"{name} is damaged: it should say where the journal begins. {NEXT_STEP}")
        return first

    def remove_before(self, first: FirstFile) -> int:
        """Say durably that the journal begins there, then remove what is before; answers how many bytes that frees.

        After an OSError it can be done again.
        """
        self.disk.replace_file(first_path(self.name), encode_first(first))
        return self.remove_leftovers(first.sequence)

    def remove_leftovers(self, sequence: int) -> int:
        """Remove the files before this one and the indexes of files that are not there; answers the bytes."""
        sequences = self.sequences()
        gone = [path(one, self.name) for one in sequences if one < sequence]
        kept = {one for one in sequences if one >= sequence}
        indexes = [(name, index_sequence(name)) for name in self.disk.list(self.name)]
        gone += [f"{self.name}/{name}" for name, of in indexes if of is not None and of not in kept]
        freed = sum(self._remove(name) for name in gone)
        if gone:
            self.disk.sync_folder(self.name)
        return freed

    def read_index(self, sequence: int, bytes_max: int) -> FileIndex | None:
        """The index of a file, or None when there is no valid one of at most `bytes_max`."""
        try:
            with contextlib.closing(self.disk.open_read(index_path(sequence, self.name))) as file:
                return decode_index(file.read(0, bytes_max)) if file.size() <= bytes_max else None
        except OSError:
            return None

    def write_index(self, index: FileIndex) -> None:
        """Write a file's index, unsynced: what is torn is not believed. A disk that fails costs only a slower start."""
        name = index_path(index.contents.start.sequence, self.name)
        try:
            if self.disk.exists(name):
                self.disk.remove(name)
            with contextlib.closing(self.disk.create(name)) as file:
                file.append([encode_index(index)])
        except OSError as error:
            _log.warning("%s could not be written, so the next start reads the whole file: %s", name, error)
            with contextlib.suppress(OSError):
                self.disk.remove(name)

    def _remove(self, name: str) -> int:
        with contextlib.closing(self.disk.open_read(name)) as file:
            size = file.size()
        self.disk.remove(name)
        return size

"""What stands in a journal's folder beside the bytes of its rounds: where it begins, the indexes. All of it blocks."""

import contextlib
import logging
from collections.abc import Sequence

from danube.model.errors import DamagedDataError
from danube.runtime.disk import Disk, is_full
from danube.storage.journal.file_index import FileIndex, decode_index, encode_index
from danube.storage.journal.files import FOLDER, first_path, index_path, mark_path, next_step_in, path
from danube.storage.journal.format import (
    FIRST_BYTES,
    FirstFile,
    decode_first,
    encode_first,
    file_sequence,
    index_sequence,
)
from danube.storage.journal.mark import MARK_BYTES, Mark, decode_mark, encode_mark

_log = logging.getLogger(__name__)


class JournalFolder:
    """The folder of one journal. Raises OSError."""

    def __init__(self, disk: Disk, name: str = FOLDER) -> None:
        self.disk = disk
        self.name = name
        self._is_mark_failing = False
        """Whether the last mark could not be written: said once, not at every try."""

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
            what = "it should say where the journal begins"
            raise DamagedDataError(f"{name} is damaged: {what}. {next_step_in(self.name, name)}")
        return first

    def indexed_sequences(self) -> list[int]:
        """Of the files that have an index, whether they are there or not, ascending."""
        return sorted(found for name in self.disk.list(self.name) if (found := index_sequence(name)) is not None)

    def read_mark(self) -> Mark | None:
        """How far the journal is synced at least; None when nothing says it.

        One that is not what was written says nothing, and neither does one that cannot be read: the journal is none the
        worse for it, and the next one mends it.
        """
        if not self.has_mark:
            return None
        name = mark_path(self.name)
        try:
            with contextlib.closing(self.disk.open_read(name)) as file:
                return decode_mark(file.read(0, MARK_BYTES + 1))
        except OSError as error:
            _log.warning("%s could not be read, so an end that is missing may not be noticed: %s", name, error)
            return None

    @property
    def has_mark(self) -> bool:
        """Whether there is a mark, sound or not."""
        return self.disk.exists(mark_path(self.name))

    def write_mark(self, mark: Mark) -> bool:
        """Say durably how far the journal is synced, which it has to be already; answers whether that is said.

        A disk that fails leaves the mark before, which is still true: so nothing is lost by it, and nothing waits.
        """
        name = mark_path(self.name)
        try:
            self.disk.replace_file(name, encode_mark(mark))
        except OSError as error:
            if not self._is_mark_failing:
                _log.warning("%s could not be written, so it says less than it could for now: %s", name, error)
            self._is_mark_failing = True
            return False
        self._is_mark_failing = False
        return True

    def remove_before(self, first: FirstFile) -> int:
        """Say durably that the journal begins there, then remove what is before; answers how many bytes that frees.

        After an OSError it can be done again. A disk that is so full that this cannot be said gets room from the
        indexes of what is to go: if it stays after all, the next start reads it whole.
        """
        freed = 0
        try:
            self._write_first(first)
        except OSError as error:
            if not is_full(error):
                raise
            indexed = [one for one in self.indexed_sequences() if one < first.sequence]
            freed = self._remove_all([index_path(one, self.name) for one in indexed])
            self._write_first(first)
        return freed + self.remove_leftovers(first.sequence)

    def remove_leftovers(self, sequence: int) -> int:
        """Remove the files before this one and the indexes of files that are not there; answers the bytes."""
        sequences = self.sequences()
        gone = [path(one, self.name) for one in sequences if one < sequence]
        kept = {one for one in sequences if one >= sequence}
        gone += [index_path(one, self.name) for one in self.indexed_sequences() if one not in kept]
        return self._remove_all(gone)

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

    def remove_index(self, sequence: int) -> None:
        """Have a file durably without an index: it is going to grow."""
        if self.disk.exists(index_path(sequence, self.name)):
            self.disk.remove(index_path(sequence, self.name))
            self.disk.sync_folder(self.name)

    def _write_first(self, first: FirstFile) -> None:
        self.disk.replace_file(first_path(self.name), encode_first(first))

    def _remove_all(self, names: Sequence[str]) -> int:
        """Have these files durably gone; answers how many bytes that frees. One that stays keeps no later one."""
        freed, faults = 0, list[OSError]()
        for name in names:
            try:
                freed += self._remove(name)
            except OSError as error:  # the later ones take up the room
                faults.append(error)
        if names:
            self.disk.sync_folder(self.name)
        if faults:
            raise faults[0]
        return freed

    def _remove(self, name: str) -> int:
        with contextlib.closing(self.disk.open_read(name)) as file:
            size = file.size()
        self.disk.remove(name)
        return size

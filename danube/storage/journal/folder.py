"""The folder of a journal: names, `first`, `mark`, indexes, removal, words for damage, and its fence. All of it blocks.

The fence of a journal in a shared folder is a file that ends its owner's right to acknowledge. The owner creates the
file, empty, with the journal. A broker that takes topics over writes into it and syncs it before it reads the journal;
the owner opens it afresh after each sync and before it acknowledges. Any byte in it is a fence, which is never taken
back, and a file that was removed counts as one. The new owners' records are drawn in `docs/formats/fence.md`.

The file is there from the beginning because network file systems cache absence for longer than the content of a file
that is opened anew.
"""

import contextlib
import logging
import re
from collections.abc import Sequence
from typing import NamedTuple

from danube.logfile.files import MarkFile, begin_file
from danube.model.errors import DamagedDataError
from danube.model.limits.broker import FENCE_BYTES_MAX
from danube.runtime.checksum import FixedRecord
from danube.runtime.disk import Disk, File, is_full
from danube.storage.damage import next_step, next_step_shared
from danube.storage.journal.contents import (
    INDEX_START_BYTES,
    FileIndex,
    decode_index,
    encode_index,
    is_other_index,
    refuse_other_index,
)
from danube.storage.journal.format import (
    FIRST_NAME,
    MARK,
    MARK_NAME,
    SMALL_FILE_BYTES_MAX,
    FileHeader,
    FirstFile,
    decode_first,
    encode_file_header,
    encode_first,
    file_name,
    file_sequence,
    index_name,
    index_sequence,
)

FOLDER = "journal"
"""Of a broker's own journal within its data folder."""

JOURNALS = "journals"
"""The folder of all brokers' journals within a shared folder; each has a folder of its own in it."""

_JOURNAL_FOLDER = re.compile(r"[0-9a-f]{16}")

FILE_GONE = "the file is missing"
FOLDER_GONE = "the folder is missing; if it is on a disk of its own, that may not be mounted"
ALL_GONE = "none of the journal's files is in this folder"
"""No file is named, as flushed files were removed and nothing tells them from those that count."""


_log = logging.getLogger(__name__)


def journal_folder(journal_id: int) -> str:
    """The folder of a journal, as storages name it."""
    return f"{JOURNALS}/{journal_id:016x}"


def listed_journals(disk: Disk) -> dict[int, str]:
    """The folders that are named as storages name them, by journal id, whatever is in them. Raises OSError."""
    if not disk.exists(JOURNALS):
        return {}
    return {int(name, 16): f"{JOURNALS}/{name}" for name in disk.list(JOURNALS) if _JOURNAL_FOLDER.fullmatch(name)}


class JournalFolder:
    """The folder of one journal. Raises OSError."""

    def __init__(self, disk: Disk, name: str = FOLDER) -> None:
        self.disk = disk
        self.name = name
        self.mark = MarkFile(disk, mark_path(name), MARK)

    def path(self, sequence: int) -> str:
        """The name of a journal file within the data folder."""
        return path(sequence, self.name)

    def sequences(self) -> list[int]:
        """Sequences of all journal files, ascending."""
        return sorted(found for name in self.disk.list(self.name) if (found := file_sequence(name)) is not None)

    def read_first(self) -> FirstFile | None:
        """Begin of the journal; None as long as no file was removed. Raises DamagedDataError, NewerDataFolderError."""
        name = first_path(self.name)
        if not self.disk.exists(name):
            return None
        with contextlib.closing(self.disk.open_read(name)) as file:
            content = file.read(0, SMALL_FILE_BYTES_MAX)
        first = decode_first(content, name)
        if first is None:
            what = "it should say where the journal begins"
            raise DamagedDataError(f"{name} is damaged: {what}. {next_step_in(self.name, name)}")
        return first

    def indexed_sequences(self) -> list[int]:
        """Sequences of the files that have an index, present or not, ascending."""
        return sorted(found for name in self.disk.list(self.name) if (found := index_sequence(name)) is not None)

    def remove_before(self, first: FirstFile) -> int:
        """Write the new begin durably, then remove the files before it; answers the bytes that this frees.

        After an OSError it can be done again. On a disk without room for `first` the indexes of those files go first:
        a file that stays after all is read whole at the next start.
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
        """The index of a file, or None when there is no valid one of at most `bytes_max`.

        Raises NewerDataFolderError.
        """
        name = index_path(sequence, self.name)
        try:
            with contextlib.closing(self.disk.open_read(name)) as file:
                size = file.size()
                is_read = size <= bytes_max or is_other_index(file.read(0, INDEX_START_BYTES))
                content = file.read(0, size) if is_read else b""
        except OSError:
            return None
        refuse_other_index(name, content)
        return decode_index(content)

    def write_index(self, index: FileIndex) -> None:
        """Write a file's index, unsynced: a torn one is not used. A disk that fails costs only a slower start."""
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
        """Remove the index of a file durably: the file is going to grow."""
        if self.disk.exists(index_path(sequence, self.name)):
            self.disk.remove(index_path(sequence, self.name))
            self.disk.sync_folder(self.name)

    def _write_first(self, first: FirstFile) -> None:
        self.disk.replace_file(first_path(self.name), encode_first(first))

    def _remove_all(self, names: Sequence[str]) -> int:
        """Remove files durably; answers the bytes that this frees. One that stays stops no later one."""
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


def path(sequence: int, folder: str = FOLDER) -> str:
    """The name of a journal file within the data folder."""
    return f"{folder}/{file_name(sequence)}"


def index_path(sequence: int, folder: str = FOLDER) -> str:
    """The name of the index beside a journal file."""
    return f"{folder}/{index_name(sequence)}"


def first_path(folder: str = FOLDER) -> str:
    """The name of the file with the journal's begin."""
    return f"{folder}/{FIRST_NAME}"


def mark_path(folder: str = FOLDER) -> str:
    """The name of the file with the synced position."""
    return f"{folder}/{MARK_NAME}"


def create_file(disk: Disk, header: FileHeader, folder: str = FOLDER) -> File:
    """Begin a file, as `begin_file`."""
    return begin_file(disk, folder, path(header.sequence, folder), encode_file_header(header))


def damaged(sequence: int, at: int, what: str, folder: str = FOLDER) -> DamagedDataError:
    """The error for bytes that are not what was written; a missing file is damaged at byte 0."""
    name = path(sequence, folder)
    return DamagedDataError(f"{name} is damaged at byte {at}: {what}. {next_step_in(folder, name if at else None)}")


def next_step_in(folder: str, file: str | None, lost: str = "file") -> str:
    """Advice about damage in a journal's folder, wherever that is, in the words of `next_step`."""
    is_own = FOLDER in folder.split("/")
    return next_step(file, lost) if is_own else next_step_shared(folder, file, lost)


def folder_path(folder: str = FOLDER) -> str:
    """The name of a journal's folder in a sentence."""
    return f"{folder}/"


def first_gone(sequence: int) -> str:
    """The fault of `first` where nothing names a file before this one."""
    return f"the file is missing, which says where the journal begins; or all before {file_name(sequence)} are"


FENCE_NAME = "fence"
FENCE_RECORD_BYTES = 20


class _NewOwner(NamedTuple):
    broker_id: int


_FENCE_RECORD = FixedRecord(b"DnFe", 1, "Q", _NewOwner._make)


class Fence:
    """The fence of the journal in `folder`. All of it blocks, and raises OSError.

    One that was `made` before is never made again: where it is missing, the journal was removed.
    """

    def __init__(self, disk: Disk, folder: str, *, made: bool = False) -> None:
        self._disk = disk
        self._made = made
        self._folder = folder
        self._name = f"{folder}/{FENCE_NAME}"

    @property
    def refusal(self) -> str:
        """The reason that a broker with a fenced journal writes no more."""
        return (
            f"another broker has taken over the topics of {self._folder}, and nothing more is written to it. This "
            "broker goes on in a new journal once it is restarted"
        )

    def prepare(self) -> None:
        """For the owner: create the file, empty, before the journal's first file. Idempotent."""
        if self._made:
            return
        self._disk.make_folder(self._folder)
        if not self._disk.exists(self._name):
            with contextlib.suppress(FileExistsError), contextlib.closing(self._disk.create(self._name)) as file:
                file.sync()
        self._disk.sync_folder(self._folder)

    def is_up(self, *, counts_missing: bool = True) -> bool:
        """True if the journal is fenced, by the file as it is now; `counts_missing` is for a missing file."""
        try:
            with contextlib.closing(self._disk.open_read(self._name)) as file:
                return bool(file.read(0, 1))
        except FileNotFoundError:
            return counts_missing

    def put_up(self, broker_id: int) -> None:
        """For the new owner: once this returns, nothing that the owner syncs later is ever acknowledged. Idempotent."""
        with contextlib.closing(self._open()) as file:
            if file.size() + FENCE_RECORD_BYTES <= FENCE_BYTES_MAX:
                file.append([_FENCE_RECORD.encode(_NewOwner(broker_id))])
            file.sync()  # that of another broker, too: it may have died before its own sync
        self._disk.sync_folder(self._folder)

    def new_owners(self) -> list[int]:
        """Broker ids of the new owners, as far as their records are whole; for people. Raises NewerDataFolderError."""
        with contextlib.closing(self._disk.open_read(self._name)) as file:
            content = file.read(0, FENCE_BYTES_MAX)
        records = [content[at : at + FENCE_RECORD_BYTES] for at in range(0, len(content), FENCE_RECORD_BYTES)]
        for record in records:
            _FENCE_RECORD.refuse_other_version(self._name, record)
        return [found.broker_id for record in records if (found := _FENCE_RECORD.decode(record)) is not None]

    def _open(self) -> File:
        try:
            return self._disk.open_append(self._name)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                self._disk.create(self._name).close()
            return self._disk.open_append(self._name)

"""A `Disk` over an object store: what the journal, its fence and its takeover need, so that they are the same code.

    journals/<journal id>/log/<number>   what an owner synced: one object a sync, each number taken once
    journals/<journal id>/first, mark    as beside the files of any journal
    journals-removed/<journal id>        a journal whose topics are all in segments; its last object, a fence, stays
    segments/<topic id>/                 segments and manifests
    metadata/<revision>                  a copy of the metadata (`metadata_copy.py`)
    cluster                              the id of the cluster that the prefix belongs to

A file of a journal is the bytes of its objects one after the other. A copy of it is on `scratch`, a disk that may be
lost: the owner reads what it wrote there, and a new owner what it downloaded. Indexes of files are on `scratch` alone.
"""

import errno
import threading
from collections.abc import Sequence
from pathlib import PurePosixPath

from danube.model.limits.objects import OBJECT_READS_AHEAD
from danube.objects.bill import Cause
from danube.objects.retrying import Patience, RetryingStore
from danube.runtime.disk import Buffer, Disk, DiskLock, DiskRoom, File
from danube.runtime.rng import Rng
from danube.storage.journal.folder import FENCE_NAME, JOURNALS
from danube.storage.journal.format import FIRST_NAME, file_name, file_sequence, index_sequence
from danube.storage.object_store.files import (
    FenceFile,
    JournalObjectFile,
    LocalJournalFile,
    ReadJournalFile,
    WholeFile,
)
from danube.storage.object_store.journal_parts import JournalParts
from danube.storage.object_store.local_parts import LocalParts
from danube.storage.object_store.side_by_side import SideBySide

REMOVED = "journals-removed"
_WHOLE_FOLDERS = {"", JOURNALS, "segments"}


class ObjectDisk:
    """One process's view of the store.

    `scratch` is emptied by its owner before; with `is_local`, but for this broker's own journals, which its sync
    acknowledges.
    """

    def __init__(
        self,
        store: RetryingStore,
        scratch: Disk,
        rng: Rng,
        *,
        round_patience: Patience,
        threads: int = OBJECT_READS_AHEAD,
        is_local: bool = False,
    ) -> None:
        self.store = store
        self._parts = LocalParts if is_local else JournalParts
        self.scratch = scratch
        self._recovery = store.charged_to(Cause.RECOVERY)
        self._rounds = store.charged_to(Cause.JOURNAL, round_patience)
        self._writer = rng.new_id()
        self.ahead = SideBySide(threads)
        self._journals: dict[str, JournalParts] = {}
        self._lock = threading.Lock()

    def journal(self, folder: str) -> JournalParts:
        """The numbered objects of a journal."""
        with self._lock:
            found = self._journals.get(folder)
            if found is None:
                found = self._journals[folder] = self._parts(
                    folder, self._recovery, self._rounds, self.scratch, writer=self._writer, ahead=self.ahead
                )
            return found

    # A journal on the disk, with uploads behind

    def upload(self) -> None:
        """Upload all that this process's journals have synced by now. Raises PartTakenError, OSError."""
        for parts in self._local():
            parts.upload()

    @property
    def waiting_bytes(self) -> int:
        """Acknowledged and not yet uploaded."""
        return sum(parts.waiting_bytes for parts in self._local())

    @property
    def has_leaving(self) -> bool:
        """True while files that are not needed wait for their removal."""
        return any(parts.has_leaving for parts in self._local())

    def _local(self) -> list[LocalParts]:
        with self._lock:
            return [one for one in self._journals.values() if isinstance(one, LocalParts)]

    def _is_on_scratch(self, name: str) -> bool:
        """True for a small file beside a journal on the disk."""
        return self._parts is LocalParts and name.startswith(f"{JOURNALS}/") and self.scratch.exists(name)

    # Files

    def create(self, name: str) -> File:
        folder, last = _split(name)
        if last == FENCE_NAME and folder.startswith(JOURNALS):
            return FenceFile(self.journal(folder), claims=True)
        if index_sequence(last) is not None:
            self.scratch.make_folder(folder)
            return self.scratch.create(name)
        sequence = file_sequence(last)
        if sequence is None:
            raise OSError(errno.ENOTSUP, "the object store keeps whole objects alone", name)
        if self.journal(folder).size(sequence) is not None:
            raise FileExistsError(errno.EEXIST, "the journal has this file", name)
        self.scratch.make_folder(folder)
        if self.scratch.exists(name):  # of a put that failed before
            self.scratch.remove(name)
        return self._file(folder, sequence, self.scratch.create(name), stored=0)

    def open_append(self, name: str) -> File:
        folder, last = _split(name)
        if last == FENCE_NAME:
            return FenceFile(self.journal(folder), claims=False)
        sequence = file_sequence(last)
        stored = self.journal(folder).size(sequence) if sequence is not None else None
        if sequence is None or stored is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
        return self._file(folder, sequence, self.scratch.open_append(name), stored=stored)

    def _file(self, folder: str, sequence: int, copy: File, *, stored: int) -> File:
        parts = self.journal(folder)
        if isinstance(parts, LocalParts):
            return LocalJournalFile(parts, sequence, copy)
        return JournalObjectFile(parts, sequence, copy, stored=stored)

    def open_read(self, name: str) -> File:
        folder, last = _split(name)
        if last == FENCE_NAME and folder.startswith(JOURNALS):
            return FenceFile(self.journal(folder), claims=False)
        if index_sequence(last) is not None:
            return self.scratch.open_read(name)
        sequence = file_sequence(last)
        if sequence is None:
            return self.scratch.open_read(name) if self._is_on_scratch(name) else WholeFile(self._recovery.get(name))
        parts = self.journal(folder)
        if parts.size(sequence) is None:
            parts.refresh()
        if parts.size(sequence) is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
        return ReadJournalFile(parts, sequence, self.scratch.open_read(name))

    def exists(self, name: str) -> bool:
        if name in _WHOLE_FOLDERS:
            return True
        folder, last = _split(name)
        if folder == JOURNALS:
            return self.journal(name).exists()
        if last == FENCE_NAME and folder.startswith(JOURNALS):
            return self.journal(folder).owned
        if index_sequence(last) is not None:
            return self.scratch.exists(name)
        sequence = file_sequence(last)
        if sequence is not None:
            return self.journal(folder).size(sequence) is not None
        return self._is_on_scratch(name) or self._is_stored(name)

    def _is_stored(self, name: str) -> bool:
        try:
            self._recovery.size(name)
        except FileNotFoundError:
            return False
        return True

    def list(self, folder: str) -> list[str]:
        if folder == JOURNALS:
            return [*self._list_journals()]
        if folder in _WHOLE_FOLDERS:
            return self.store.charged_to(Cause.SEGMENT).folders(f"{folder}/" if folder else "")
        parts = self.journal(folder)
        parts.refresh()
        indexes = self.scratch.list(folder) if self.scratch.exists(folder) else []
        files = [file_name(one) for one in parts.sequences()]
        return sorted([FENCE_NAME, *files, *(one for one in indexes if index_sequence(one) is not None)])

    def replace_file(self, name: str, data: bytes) -> None:
        folder, last = _split(name)
        parts = self.journal(folder) if folder.startswith(f"{JOURNALS}/") else None
        if isinstance(parts, LocalParts):
            self.scratch.replace_file(name, data)
            if last == FIRST_NAME:
                parts.note_first()
            return
        self.store.charged_to(Cause.JOURNAL).put(name, [data])

    def create_whole(self, name: str, chunks: Sequence[Buffer]) -> None:
        self.store.put_if_absent(name, chunks)

    def rewrite(self, name: str, position: int) -> None:
        """Nothing for objects: one that is there is durable."""
        if self._is_on_scratch(name):
            self.scratch.rewrite(name, position)

    def remove(self, name: str) -> None:
        folder, last = _split(name)
        sequence = file_sequence(last)
        if index_sequence(last) is not None:
            self.scratch.remove(name)
        elif sequence is not None:
            if self.journal(folder).size(sequence) is None:
                raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
            self.journal(folder).remove(sequence)
            if self._parts is JournalParts and self.scratch.exists(name):
                self.scratch.remove(name)
        elif last != FENCE_NAME:
            self.store.delete([name])

    def remove_journal(self, folder: str) -> None:
        """Remove a journal that is not needed any more, but for the fence at its end."""
        self.journal(folder).remove_all()
        self.store.delete([f"{folder}/first", f"{folder}/mark"])
        self.store.put(f"{REMOVED}/{_split(folder)[1]}", [b""])
        self._forget(folder)

    def remove_folder(self, name: str) -> None:
        """Nothing: there are no folders in an object store."""

    def make_folder(self, name: str) -> None:
        """Nothing, as above."""

    def sync_folder(self, name: str) -> None:
        if self._is_on_scratch(name):
            self.scratch.sync_folder(name)

    def lock(self, name: str) -> DiskLock:
        return self.scratch.lock(name)

    def has_links(self) -> bool:
        return True

    def room(self) -> DiskRoom:
        return self.scratch.room()

    def close(self) -> None:
        """End the threads."""
        self.ahead.close()

    def _list_journals(self) -> Sequence[str]:
        removed = {name.rpartition("/")[2] for name, _ in self._recovery.listing(f"{REMOVED}/")}
        found = [one for one in self._recovery.folders(f"{JOURNALS}/") if one not in removed]
        for folder in [one for one in self._journals if _split(one)[1] in removed]:
            self._forget(folder)
        return found

    def _forget(self, folder: str) -> None:
        """Drop the copy of a journal that was removed."""
        parts = self._journals.get(folder)
        if parts is None or parts.owned:
            return
        with self._lock:
            self._journals.pop(folder, None)
        if self.scratch.exists(folder):
            for name in self.scratch.list(folder):
                self.scratch.remove(f"{folder}/{name}")


def _split(name: str) -> tuple[str, str]:
    path = PurePosixPath(name)
    return ("" if str(path.parent) == "." else str(path.parent)), path.name

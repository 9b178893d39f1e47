"""Recovery of the journal when it is opened: read it, refuse damage, cut a torn end. All of it blocks.

Torn and damaged are told apart by `walker.py`. A crash in here changes nothing of that: each step can be done again.
The last file is read whole. Of a closed one that has a sound index beside it, the index is enough: its records are
checked when they are read.
"""

import contextlib
import logging
from collections.abc import Callable, Container, Mapping

from danube.model.errors import DataFolderError, JournalFencedError
from danube.runtime.disk import Disk, File
from danube.storage.damage import fault_of
from danube.storage.journal.contents import FileContents, FileIndex, Recovered
from danube.storage.journal.folder import (
    FOLDER,
    FOLDER_GONE,
    Fence,
    JournalFolder,
    create_file,
    damaged,
    folder_path,
    mark_path,
)
from danube.storage.journal.format import FIRST_SEQUENCE, HEADER_BYTES, FileHeader
from danube.storage.journal.index import FileStart, TopicBase
from danube.storage.journal.walker import FileBegun, JournalWalker, SoundRound, Torn
from danube.storage.journal.writer import JournalEnd

_log = logging.getLogger(__name__)


class Recovery:
    """One opening of the journal in a data folder."""

    def __init__(
        self,
        disk: Disk,
        broker_id: int,
        new_id: Callable[[], int],
        known_topics: Container[int] | None,
        *,
        bases: Mapping[int, TopicBase] | None = None,
        folder: str = FOLDER,
        has_begun: bool = False,
        detached: dict[int, int] | None = None,
    ) -> None:
        """`detached` as in `Recovered`; `has_begun` says that a journal that is not there is missing."""
        self._disk = disk
        self._folder = JournalFolder(disk, folder)
        self._broker_id = broker_id
        self._new_id = new_id
        self._has_begun = has_begun
        self._walker = JournalWalker(self._folder, has_begun=has_begun, broker_id=broker_id)
        self._end: JournalEnd | None = None
        self._is_indexed = False
        """True if the file at hand was added by its index."""
        self.recovered = Recovered(known_topics, bases or {}, detached)

    def run(self) -> tuple[File, JournalEnd]:
        """Read everything; answers the last file, open for appends and synced, and where the journal goes on.

        Raises DamagedDataError, DataFolderError.
        """
        try:
            return self._run()
        except OSError as error:
            raise DataFolderError(f"the journal cannot be opened: {fault_of(error)}") from error

    def _run(self) -> tuple[File, JournalEnd]:
        folder, walker = self._folder, self._walker
        if self._has_begun and not self._disk.exists(folder.name):  # a disk that is not mounted stays as it is
            raise walker.gone(folder_path(folder.name), FOLDER_GONE, "folder")
        self._disk.make_folder(folder.name)
        self._disk.sync_folder(folder.name)  # who named or removed what is seen may have died before doing so
        walker.list_files()
        if walker.is_mark_unknown:
            name = mark_path(folder.name)
            _log.warning("%s is not what was written: this once, a missing end of the journal may go unnoticed", name)
        folder.remove_leftovers(walker.first_sequence)
        self.recovered.begin()
        bare = None
        for event in walker.events():
            if isinstance(event, SoundRound):
                self._add_round(event)
            elif isinstance(event, FileBegun):
                self._enter(event)
            elif isinstance(event, Torn) and not event.at:
                bare = event
        if self._end is not None:
            self._end.file_bytes = walker.end_position - self._end.base_position
            folder.remove_index(self._end.sequence)  # durably, before the next file may go: a closed one has a next one
        if bare is not None:
            self._disk.remove(bare.file)  # made durable by what follows
        file, end = self._begin() if self._end is None else (self._settle_end(self._end), self._end)
        if end.mark == walker.mark or folder.mark.write(end.mark):
            end.marked_to = end.synced_to
        self.recovered.finish()
        return file, end

    def _enter(self, begun: FileBegun) -> None:
        """Go on with a file: the one before it is closed."""
        before, recovered, start = self._end, self.recovered, begun.start
        if before is not None and recovered.contents is not None:
            before.file_bytes = begun.base_position - before.base_position
            recovered.closed.append(recovered.contents.closed(begun.base_position))
            if not self._is_indexed:
                self._write_index(before)
        assert begun.header is not None  # noqa: S101 - it was checked
        self._end = JournalEnd.of_file(begun.header, begun.header.synced_to, begun.rounds_before, before)
        recovered.journal_id = begun.header.journal_id
        recovered.contents = FileContents(start)
        recovered.files.add(start)
        self._is_indexed = not begun.is_last and self._add_index(self._end, begun.file_bytes)

    def _add_index(self, end: JournalEnd, file_bytes: int) -> bool:
        """Add a closed file by its index instead of its rounds; answers whether there is one that fits."""
        index = self._folder.read_index(end.sequence, file_bytes)
        if index is None or index.contents.start != end.start or index.journal_id != end.journal_id:
            return False
        if index.end_position != end.base_position + file_bytes or not self.recovered.add_index(index):
            return False
        self._walker.pass_over(index.last_round)
        self.recovered.contents = index.contents
        end.file_bytes = file_bytes
        end.round_number = index.last_round
        end.content_end = end.position
        return True

    def _write_index(self, end: JournalEnd) -> None:
        """Spare the next start the reading of this file."""
        contents = self.recovered.contents
        assert contents is not None  # noqa: S101 - set by _enter
        runs = {topic_id: self.recovered.run(topic_id, contents, end.position) for topic_id in sorted(contents.topics)}
        self._folder.write_index(FileIndex(end.journal_id, end.position, end.round_number, contents, runs))

    def _add_round(self, found: SoundRound) -> None:
        end, contents = self._end, self.recovered.contents
        assert end is not None  # noqa: S101 - set by _enter, as the contents are
        assert contents is not None  # noqa: S101
        end.round_number = found.header.number
        end.claimed_to = found.header.synced_to
        if found.header.content_bytes:
            end.content_end = found.header.end_position
        for envelope, position, body in found.entries:
            try:
                self.recovered.add_record(contents, envelope, position, body)
            except ValueError as error:
                what = f"topic {envelope.topic_id}: {error}"
                raise damaged(end.sequence, position - end.base_position, what, self._folder.name) from error

    def _settle_end(self, end: JournalEnd) -> File:
        """Cut the torn end and sync: what was read may not be durable yet, and is shown to nobody before it is.

        What no header says is synced is written once more: a sync of it may have failed, and then no other sync helps.
        The same goes for the length: a torn end may be cut already, by one whose sync failed, and still be on the disk.
        """
        name = self._folder.path(end.sequence)
        file = self._disk.open_append(name)
        try:
            torn = file.size() - end.file_bytes
            if torn:
                _log.warning("%s: cutting %d bytes that were never synced", name, torn)
            file.truncate(end.file_bytes)
            file.sync()
            if end.claimed_to < end.position:
                self._disk.rewrite(name, max(end.claimed_to - end.base_position, 0))
            self._disk.sync_folder(self._folder.name)
        except OSError:
            file.close()
            raise
        end.synced_to = end.position
        return file

    def _begin(self) -> tuple[File, JournalEnd]:
        header = FileHeader(self._new_id(), self._broker_id, FIRST_SEQUENCE, base_position=0, synced_to=0)
        file = create_file(self._disk, header, self._folder.name)
        start = FileStart(FIRST_SEQUENCE, base_position=0, rounds_before=0)
        self.recovered.journal_id = header.journal_id
        self.recovered.files.add(start)
        self.recovered.contents = FileContents(start)
        return file, JournalEnd.of_file(header, synced_to=HEADER_BYTES)


def run_unfenced(recovery: Recovery, fence: Fence) -> tuple[File, JournalEnd]:
    """Recover a journal that other brokers reach. Raises JournalFencedError when one of them took its topics over.

    What was found is shown only if there is no fence after it was synced: then every new owner will find it, too.
    """
    try:
        fence.prepare()
        if fence.is_up():  # do not touch it at all
            raise JournalFencedError(fence.refusal)
        file, end = recovery.run()
        with contextlib.ExitStack() as unless_shown:
            unless_shown.callback(file.close)
            if not fence.is_up():
                unless_shown.pop_all()
                return file, end
    except OSError as error:
        raise DataFolderError(f"the fence of the journal cannot be read: {error}. Check the shared folder") from error
    raise JournalFencedError(fence.refusal)

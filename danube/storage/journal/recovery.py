"""Opening a journal: read it, tell a torn end from damage, cut the one and refuse the other. All of it blocks.

A round that fails its checks is *damaged* when a sound header after it says that the journal was known to be synced
beyond it, or when it is not in the last file (the next one is created only after a sync). Otherwise it is *torn*: it
was being written when the power went, and is cut together with what follows. A crash in here changes nothing of that:
each step can be done again.

What is sound has to reach the position that the file `mark` names (`format.py`), or its end is missing: that is damage.

The last file is read whole. Of a closed one that has a sound index beside it, the index is enough: its records are
checked when they are read.
"""

import contextlib
import logging
from collections.abc import Callable, Container, Mapping

from danube.model.errors import DamagedDataError, DataFolderError, JournalFencedError
from danube.runtime.disk import Disk, File
from danube.storage.damage import fault_of
from danube.storage.journal.contents import FileContents
from danube.storage.journal.fence import Fence
from danube.storage.journal.file_index import FileIndex
from danube.storage.journal.folder import (
    ALL_GONE,
    FILE_GONE,
    FOLDER,
    FOLDER_GONE,
    JournalFolder,
    create_file,
    damaged,
    first_gone,
    first_path,
    folder_path,
    mark_path,
    next_step_in,
)
from danube.storage.journal.format import (
    FIRST_SEQUENCE,
    HEADER_BYTES,
    FileHeader,
    FirstFile,
    Mark,
    decode_file_header,
    newer_version,
)
from danube.storage.journal.index import FileStart, TopicBase
from danube.storage.journal.recovered import Recovered
from danube.storage.journal.scan import FileScan, Round
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
    ) -> None:
        """`has_begun` says that there was a journal before: then one that is not there is missing."""
        self._disk = disk
        self._folder = JournalFolder(disk, folder)
        self._broker_id = broker_id
        self._new_id = new_id
        self._has_begun = has_begun
        self._end: JournalEnd | None = None
        self._first: FirstFile | None = None
        self._mark: Mark | None = None
        self._is_mark_unknown = False
        """Whether there is a mark that cannot be read, at least not now."""
        self.recovered = Recovered(known_topics, bases or {})

    def run(self) -> tuple[File, JournalEnd]:
        """Read everything; answers the last file, open for appends and synced, and where the journal goes on.

        Raises DamagedDataError, DataFolderError.
        """
        try:
            return self._run()
        except OSError as error:
            raise DataFolderError(f"the journal cannot be opened: {fault_of(error)}") from error

    def _run(self) -> tuple[File, JournalEnd]:
        if self._has_begun and not self._disk.exists(self._folder.name):  # a disk that is not mounted stays as it is
            raise self._gone(folder_path(self._folder.name), FOLDER_GONE, "folder")
        self._disk.make_folder(self._folder.name)
        self._disk.sync_folder(self._folder.name)  # who named or removed what is seen may have died before doing so
        self._first, self._mark = self._folder.read_first(), self._read_mark()
        self.recovered.begin()
        sequences = self._sequences()
        last = sequences[-1] if sequences else 0
        begun = self._start_of_begun(last) if sequences else None
        whole = sequences if begun is None else sequences[:-1]
        for sequence in whole:
            self._read_file(sequence, is_last=sequence == last, will_grow=sequence == whole[-1])
        self._check_mark(sequences)
        if whole:
            self._folder.remove_index(whole[-1])  # durably, before the next file may go: a closed one has a next one
        if begun is not None:
            if decode_file_header(begun) is not None:
                self._check_header(last, begun)
            self._disk.remove(self._folder.path(last))  # made durable by what follows
        file, end = self._begin() if self._end is None else (self._settle_end(self._end), self._end)
        if end.mark == self._mark or self._folder.write_mark(end.mark):
            end.marked_to = end.synced_to
        self.recovered.finish()
        return file, end

    def _read_mark(self) -> Mark | None:
        mark = self._folder.read_mark()
        self._is_mark_unknown = mark is None and self._folder.has_mark
        if self._is_mark_unknown:
            name = mark_path(self._folder.name)
            _log.warning("%s is not what was written: this once, a missing end of the journal may go unnoticed", name)
        return mark

    def _sequences(self) -> list[int]:
        """The journal's files; those that were about to be removed are."""
        first = self._first.sequence if self._first is not None else FIRST_SEQUENCE
        found = [sequence for sequence in self._folder.sequences() if sequence >= first]
        self._check_begin(found)
        for expected, sequence in enumerate(found, first):
            if sequence != expected:
                raise self._damaged(expected, 0, FILE_GONE)
        self._check_last(found[-1] if found else first - 1)
        self._folder.remove_leftovers(first)
        return found

    def _check_begin(self, found: list[int]) -> None:
        """Raise DamagedDataError when there should be files, or one that says which was the first."""
        if self._first is not None:
            if not found:
                raise self._damaged(self._first.sequence, 0, FILE_GONE)
            return
        spoken_of = [*found, *self._folder.indexed_sequences()]
        if not found and (self._has_begun or self._mark is not None or spoken_of):
            raise self._gone(folder_path(self._folder.name), ALL_GONE, "folder")
        if spoken_of and min(spoken_of) > FIRST_SEQUENCE:
            raise self._gone(first_path(self._folder.name), first_gone(min(spoken_of)), "file")

    def _check_last(self, last: int) -> None:
        """Raise DamagedDataError when something speaks of a file behind the last one.

        The index of a file is made when the next one is there. In folders from before there were marks, the last file
        may have one all the same: it was closed once, and the next one made anew.
        """
        indexed = self._folder.indexed_sequences()
        spoken_of = [sequence for sequence in indexed if sequence > last]
        if self._mark is not None:
            spoken_of += [self._mark.sequence, *(each + 1 for each in indexed if each == last)]
        if any(sequence > last for sequence in spoken_of):
            raise self._damaged(last + 1, 0, FILE_GONE)

    def _check_mark(self, sequences: list[int]) -> None:
        """Raise DamagedDataError when what is sound ends before what was synced, or is another journal's."""
        mark, end = self._mark, self._end
        if mark is None or end is None:
            return
        if mark.journal_id != end.journal_id:
            raise self._damaged(sequences[0], 0, f"{mark_path(self._folder.name)} is of another journal")
        if end.position < mark.synced_to:
            byte = mark.synced_to - end.base_position
            raise self._damaged(end.sequence, end.file_bytes, f"what is sound ends here, though byte {byte} was synced")

    def _start_of_begun(self, sequence: int) -> bytes | None:
        """The bytes of the last file if it holds no round: the broker died while creating it, or its sync failed.

        Then even a header that looks sound may never reach the disk, so the file is made again; but not the one that
        the journal is said to have begun with, to begin with now, or to be marked in: it was synced before that was
        said. Nor one that may be marked, as long as the mark cannot be read.
        """
        said = {one.sequence for one in (self._first, self._mark) if one is not None}
        if sequence in said or (self._has_begun and sequence == FIRST_SEQUENCE):
            return None
        with contextlib.closing(self._disk.open_read(self._folder.path(sequence))) as file:
            start = file.read(0, HEADER_BYTES + 1)
        if (sequence == FIRST_SEQUENCE or self._is_mark_unknown) and decode_file_header(start) is not None:
            return None  # metadata may name its journal id, or the mark it: the header is written again where it is
        return start if len(start) <= HEADER_BYTES and newer_version(start) is None else None

    def _read_file(self, sequence: int, *, is_last: bool, will_grow: bool) -> None:
        with contextlib.closing(self._disk.open_read(self._folder.path(sequence))) as file:
            end = self._enter(sequence, file.read(0, HEADER_BYTES))
            if not is_last and self._take_index(end, file.size()):
                return
            self._scan(file, end, is_last=is_last)
        if not will_grow:
            self._write_index(end)

    def _scan(self, file: File, end: JournalEnd, *, is_last: bool) -> None:
        scan = FileScan(file, end.journal_id, end.base_position)
        while (found := scan.next(end.round_number + 1)) is not None:
            self._take(end, found)
        end.file_bytes = scan.at
        if scan.at == scan.size:
            return
        if not is_last:
            raise self._damaged(end.sequence, scan.at, "a round is not what was written, and later files exist")
        if (claimed := scan.claimed_beyond()) is not None:
            raise self._damaged(
                end.sequence, scan.at, f"a round is not what was written, though byte {claimed} was synced"
            )

    def _take_index(self, end: JournalEnd, file_bytes: int) -> bool:
        """Take a closed file's index instead of the file; answers whether there is one that fits."""
        index = self._folder.read_index(end.sequence, file_bytes)
        if index is None or index.contents.start != end.start or index.journal_id != end.journal_id:
            return False
        if index.end_position != end.base_position + file_bytes or not self.recovered.take_index(index):
            return False
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

    def _check_header(self, sequence: int, start: bytes) -> FileHeader:
        """A file's header, which has to go on where the file before it ended."""
        version = newer_version(start)
        if version is not None:
            raise DataFolderError(
                f"{self._folder.path(sequence)} has format version {version}: use the Danube that wrote it"
            )
        header = decode_file_header(start)
        if header is None:
            raise self._damaged(sequence, 0, "its header is not what was written")
        if header.broker_id != self._broker_id:
            raise DataFolderError(
                f"{self._folder.path(sequence)} belongs to broker {header.broker_id}, this is broker "
                f"{self._broker_id}: give each broker a data folder of its own"
            )
        before = self._end or self._first
        journal_id = before.journal_id if before else header.journal_id
        base = self._end.position if self._end else self._first.base_position if self._first else 0
        if self._end is not None and (header.sequence, header.journal_id) == (sequence, journal_id):
            missing_bytes = header.base_position - base
            if missing_bytes > 0:
                what = f"the file ends {missing_bytes} bytes too early"
                raise self._damaged(sequence - 1, self._end.file_bytes, what)
        if (header.sequence, header.base_position, header.journal_id) != (sequence, base, journal_id):
            raise self._damaged(sequence, 0, "it does not go on where the file before it ended")
        return header

    def _enter(self, sequence: int, start: bytes) -> JournalEnd:
        """Go on with a file."""
        header = self._check_header(sequence, start)
        before, recovered = self._end, self.recovered
        if before is not None and recovered.contents is not None:
            recovered.closed.append(recovered.contents.closed(header.base_position))
        rounds = before.round_number if before else self._first.rounds_before if self._first else 0
        self._end = JournalEnd(
            journal_id=header.journal_id,
            broker_id=self._broker_id,
            sequence=sequence,
            base_position=header.base_position,
            file_bytes=HEADER_BYTES,
            synced_to=header.synced_to,
            round_number=rounds,
            claimed_to=header.synced_to,
            content_end=before.content_end if before else 0,
            rounds_before=rounds,
        )
        recovered.journal_id = header.journal_id
        recovered.contents = FileContents(self._end.start)
        recovered.files.add(self._end.start)
        return self._end

    def _take(self, end: JournalEnd, found: Round) -> None:
        contents = self.recovered.contents
        assert contents is not None  # noqa: S101 - set by _enter
        end.round_number = found.header.number
        end.claimed_to = found.header.synced_to
        if found.header.content_bytes:
            end.content_end = found.header.end_position
        for envelope, position, body in found.entries:
            try:
                self.recovered.take_envelope(contents, envelope, position, body)
            except ValueError as error:
                raise self._damaged(
                    end.sequence, position - end.base_position, f"topic {envelope.topic_id}: {error}"
                ) from error

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
        return file, JournalEnd(
            journal_id=header.journal_id,
            broker_id=self._broker_id,
            sequence=FIRST_SEQUENCE,
            base_position=0,
            file_bytes=HEADER_BYTES,
            synced_to=HEADER_BYTES,
            round_number=0,
            claimed_to=0,
            content_end=0,
        )

    def _damaged(self, sequence: int, at: int, what: str) -> DamagedDataError:
        return damaged(sequence, at, what, self._folder.name)

    def _gone(self, name: str, what: str, lost: str) -> DamagedDataError:
        return DamagedDataError(f"{name} is damaged: {what}. {next_step_in(self._folder.name, None, lost)}")


def run_unfenced(recovery: Recovery, fence: Fence) -> tuple[File, JournalEnd]:
    """Recover a journal that other brokers reach. Raises JournalFencedError when one of them took its topics over.

    What was found is shown only if there is no fence after it was synced: then every taker will find it, too.
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

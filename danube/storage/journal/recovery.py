"""Opening a journal: read all of it, tell a torn end from damage, cut the one and refuse the other. All of it blocks.

A round that fails its checks is *damaged* when a sound header after it says that the journal was known to be synced
beyond it, or when it is not in the last file (the next one is created only after a sync). Otherwise it is *torn*: it
was being written when the power went, and is cut together with what follows. A crash in here changes nothing of that:
each step can be done again.
"""

import contextlib
import logging
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from danube.model.errors import DataFolderError
from danube.model.subscription import Cursor
from danube.runtime.disk import Disk, File
from danube.storage.cursors import CursorKey, decode_cursor
from danube.storage.envelope import Envelope, Kind
from danube.storage.journal.files import FOLDER, FileTable, create_file, damaged, path
from danube.storage.journal.format import (
    FIRST_SEQUENCE,
    HEADER_BYTES,
    FileHeader,
    decode_file_header,
    file_sequence,
    newer_version,
)
from danube.storage.journal.index import Located, TopicIndex
from danube.storage.journal.scan import FileScan, Round
from danube.storage.journal.writer import JournalEnd
from danube.storage.numbering import StoredNumberings, numbered_batch

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """What a journal held."""

    files: FileTable = field(default_factory=FileTable)
    topics: dict[int, TopicIndex] = field(default_factory=dict)
    cursors: dict[CursorKey, Cursor] = field(default_factory=dict)
    numberings: dict[int, StoredNumberings] = field(default_factory=dict)
    """By topic, of those that have numbered batches."""
    skipped: set[int] = field(default_factory=set)
    """Topics that have records but were not known."""


class Recovery:
    """One opening of the journal in a data folder."""

    def __init__(
        self, disk: Disk, broker_id: int, new_id: Callable[[], int], known_topics: Container[int] | None
    ) -> None:
        self._disk = disk
        self._broker_id = broker_id
        self._new_id = new_id
        self._known = known_topics
        self._end: JournalEnd | None = None
        self.recovered = Recovered()

    def run(self) -> tuple[File, JournalEnd]:
        """Read everything; answers the last file, open for appends and synced, and where the journal goes on.

        Raises DamagedDataError, DataFolderError.
        """
        try:
            return self._run()
        except OSError as error:
            raise DataFolderError(
                f"the journal cannot be opened: {error}. Check the data folder and its disk"
            ) from error

    def _run(self) -> tuple[File, JournalEnd]:
        self._disk.make_folder(FOLDER)
        sequences = self._sequences()
        last = sequences[-1] if sequences else 0
        begun = self._start_of_begun(last) if sequences else None
        for sequence in sequences if begun is None else sequences[:-1]:
            self._read_file(sequence, is_last=sequence == last)
        if begun is not None:
            if decode_file_header(begun) is not None:
                self._check_header(last, begun)
            self._disk.remove(path(last))  # made durable by what follows
        if self._end is None:
            return self._begin()
        return self._settle_end(self._end), self._end

    def _sequences(self) -> list[int]:
        found = [sequence for name in self._disk.list(FOLDER) if (sequence := file_sequence(name)) is not None]
        for expected, sequence in enumerate(sorted(found), FIRST_SEQUENCE):
            if sequence != expected:
                raise damaged(expected, 0, "the file is missing")
        return sorted(found)

    def _start_of_begun(self, sequence: int) -> bytes | None:
        """The bytes of the last file if it holds no round: the broker died while creating it, or its sync failed.

        Then even a header that looks sound may never reach the disk, so the file is made again.
        """
        with contextlib.closing(self._disk.open_read(path(sequence))) as file:
            start = file.read(0, HEADER_BYTES + 1)
        return start if len(start) <= HEADER_BYTES and newer_version(start) is None else None

    def _read_file(self, sequence: int, *, is_last: bool) -> None:
        with contextlib.closing(self._disk.open_read(path(sequence))) as file:
            end = self._enter(sequence, file.read(0, HEADER_BYTES))
            scan = FileScan(file, end.journal_id, end.base_position)
            while (found := scan.next(end.round_number + 1)) is not None:
                self._take(sequence, found)
            end.file_bytes = scan.at
            if scan.at == scan.size:
                return
            if not is_last:
                raise damaged(sequence, scan.at, "a round is not what was written, and later files exist")
            if (claimed := scan.claimed_beyond()) is not None:
                raise damaged(sequence, scan.at, f"a round is not what was written, though byte {claimed} was synced")

    def _check_header(self, sequence: int, start: bytes) -> FileHeader:
        """A file's header, which has to go on where the file before it ended."""
        version = newer_version(start)
        if version is not None:
            raise DataFolderError(f"{path(sequence)} has format version {version}: use the Danube that wrote it")
        header = decode_file_header(start)
        if header is None:
            raise damaged(sequence, 0, "its header is not what was written")
        if header.broker_id != self._broker_id:
            raise DataFolderError(
                f"{path(sequence)} belongs to broker {header.broker_id}, this is broker {self._broker_id}: "
                "give each broker a data folder of its own"
            )
        before = self._end
        journal_id = before.journal_id if before else header.journal_id
        base = before.position if before else 0
        if (header.sequence, header.base_position, header.journal_id) != (sequence, base, journal_id):
            raise damaged(sequence, 0, "it does not go on where the file before it ended")
        return header

    def _enter(self, sequence: int, start: bytes) -> JournalEnd:
        """Go on with a file."""
        header = self._check_header(sequence, start)
        before = self._end
        self.recovered.files.add(sequence, header.base_position)
        self._end = JournalEnd(
            journal_id=header.journal_id,
            broker_id=self._broker_id,
            sequence=sequence,
            base_position=header.base_position,
            file_bytes=HEADER_BYTES,
            synced_to=header.synced_to,
            round_number=before.round_number if before else 0,
            claimed_to=header.synced_to,
            content_end=before.content_end if before else 0,
        )
        return self._end

    def _take(self, sequence: int, found: Round) -> None:
        end = self._end
        assert end is not None  # noqa: S101 - set by _enter
        end.round_number = found.header.number
        end.claimed_to = found.header.synced_to
        if found.header.content_bytes:
            end.content_end = found.header.end_position
        for envelope, position, body in found.entries:
            try:
                self._take_envelope(envelope, position, body)
            except ValueError as error:
                raise damaged(sequence, position - end.base_position, f"topic {envelope.topic_id}: {error}") from error

    def _take_envelope(self, envelope: Envelope, position: int, body: bytes) -> None:
        topic_id = envelope.topic_id
        if self._known is not None and topic_id not in self._known:
            self.recovered.skipped.add(topic_id)
        elif envelope.kind is Kind.DATA:
            index = self.recovered.topics.setdefault(topic_id, TopicIndex())
            base, end = envelope.base_offset, envelope.base_offset + envelope.count
            index.append(Located(base, end, position, envelope.body_bytes, envelope.append_time_ms))
            if (numbered := numbered_batch(body)) is not None:
                self.recovered.numberings.setdefault(topic_id, StoredNumberings()).add(numbered, base)
        elif envelope.kind is Kind.CURSOR:
            decoded = decode_cursor(body)
            if decoded is None:
                raise ValueError("a cursor is not what was written")
            self.recovered.cursors[topic_id, decoded[0]] = decoded[1]

    def _settle_end(self, end: JournalEnd) -> File:
        """Cut the torn end and sync: what was read may not be durable yet, and is shown to nobody before it is.

        What no header says is synced is written once more: a sync of it may have failed, and then no other sync helps.
        """
        file = self._disk.open_append(path(end.sequence))
        try:
            torn = file.size() - end.file_bytes
            if torn:
                _log.warning("%s: cutting %d bytes that were never synced", path(end.sequence), torn)
                file.truncate(end.file_bytes)
            file.sync()
            if end.claimed_to < end.position:
                self._disk.rewrite(path(end.sequence), max(end.claimed_to - end.base_position, 0))
            self._disk.sync_folder(FOLDER)
        except OSError:
            file.close()
            raise
        end.synced_to = end.position
        return file

    def _begin(self) -> tuple[File, JournalEnd]:
        header = FileHeader(self._new_id(), self._broker_id, FIRST_SEQUENCE, base_position=0, synced_to=0)
        file = create_file(self._disk, header)
        self.recovered.files.add(FIRST_SEQUENCE, 0)
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

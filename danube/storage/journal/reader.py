"""Reads batches back from journal files and checks every byte. All of it blocks."""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.model.limits.broker import JOURNAL_OPEN_FILES_MAX, KIB
from danube.runtime.disk import Disk, File
from danube.storage.batches.envelope import ENVELOPE_BYTES, DataFields, Kind, body_of_data, decode, is_data
from danube.storage.batches.stored_batch import EncodedBatch, StoredBatch
from danube.storage.journal.folder import FOLDER, damaged, path
from danube.storage.journal.index import FileTable, IndexRun, Located

_GAP_BYTES_MAX = 4 * KIB  # reading over a small gap costs less than a second read
_RUN_BYTES_MAX = 256 * KIB  # of one read, gaps included, unless a single batch is larger: memory that is used again
_ROWS_MAX = 1_024  # of a run, made at once
_ALONE_BYTES = 32 * KIB  # a read for such a body alone costs less than copying it out of a larger one

_Row = tuple[int, int, int, int, int]
"""Of one batch: base offset, end offset, byte of the file at which it begins, length of its body, append time."""

_AT, _LENGTH = 2, 3


class JournalReader:
    """Reads from journal files, of which it keeps a few open. Owned by one thread at a time."""

    def __init__(self, disk: Disk, folder: str = FOLDER) -> None:
        self._disk = disk
        self._folder = folder
        self._open: OrderedDict[int, File] = OrderedDict()

    def read_run(self, topic_id: int, run: IndexRun, files: FileTable, *, needs_all: bool = False) -> list[StoredBatch]:
        """The batches of a run. A fault is raised only when nothing is sound before it, or when it `needs_all`.

        Raises DamagedDataError, StorageUnavailableError.
        """
        found: list[StoredBatch] = []
        try:
            for sequence, rows in _rows(run, files):
                for are_alone, stretch in _stretches(rows, _ALONE_BYTES):
                    (self._add_alone if are_alone else self._add_together)(found, topic_id, sequence, stretch)
        except (DamagedDataError, StorageUnavailableError):
            if needs_all or not found:
                raise
        return found

    def encoded(self, topic_id: int, run: IndexRun, files: FileTable) -> Iterator[list[EncodedBatch]]:
        """The batches of a run with their envelopes, byte for byte as they stand in the journal; some at a time.

        Raises DamagedDataError, StorageUnavailableError: that as well where a file of them was removed.
        """
        for first in range(0, len(run), _ROWS_MAX):
            part = run.part(range(first, min(first + _ROWS_MAX, len(run))))
            for sequence, rows in _rows(part, files):
                for _, stretch in _stretches(rows, None):
                    yield self._encoded(topic_id, sequence, stretch)

    def encoded_at(self, topic_id: int, batches: Sequence[Located], files: FileTable) -> list[EncodedBatch]:
        """The same of single batches in the order of their positions, at once."""
        found: list[EncodedBatch] = []
        for file, inside in files.split([one.position for one in batches]):
            start = file.base_position
            rows = [(*one[:2], one.position - start, *one[3:]) for one in batches[inside.start : inside.stop]]
            for _, stretch in _stretches(rows, None):
                found += self._encoded(topic_id, file.sequence, stretch)
        return found

    def close_below(self, sequence: int) -> None:
        """Close the files before this one: they were removed, and take up room while they are open."""
        for gone in [one for one in self._open if one < sequence]:
            self._close(self._open.pop(gone))

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._close_oldest()

    @contextlib.contextmanager
    def _reading(self, sequence: int, at: int) -> Iterator[File]:
        """One open file; its faults become StorageUnavailableError."""
        try:
            yield self._file(sequence)
        except OSError as error:
            name, reason = path(sequence, self._folder), error.strerror or error
            raise StorageUnavailableError(f"{name} could not be read at byte {at}: {reason}. Check the disk") from error

    def _file(self, sequence: int) -> File:
        file = self._open.get(sequence)
        if file is None:
            file = self._disk.open_read(path(sequence, self._folder))
            self._open[sequence] = file
            if len(self._open) > JOURNAL_OPEN_FILES_MAX:
                self._close_oldest()
        self._open.move_to_end(sequence)
        return file

    def _close_oldest(self) -> None:
        self._close(self._open.popitem(last=False)[1])

    @staticmethod
    def _close(file: File) -> None:
        with contextlib.suppress(OSError):
            file.close()

    def _add_alone(self, found: list[StoredBatch], topic_id: int, sequence: int, rows: Sequence[_Row]) -> None:
        """Batches read one by one: a body is what the file answers, and is not copied again."""
        with self._reading(sequence, rows[0][_AT]) as file:
            read = file.read
            for base, end, at, length, time_ms in rows:
                envelope, body, count = read(at, ENVELOPE_BYTES), read(at + ENVELOPE_BYTES, length), end - base
                if not is_data(envelope, body, (topic_id, base, count, length, time_ms)):
                    raise self._damage(sequence, at, DataFields(topic_id, base, count, length, time_ms), envelope)
                found.append(StoredBatch(base, count, time_ms, body))

    def _add_together(self, found: list[StoredBatch], topic_id: int, sequence: int, rows: Sequence[_Row]) -> None:
        """Batches read at once, each copied out."""
        begin, content = self._stretch(sequence, rows)
        for base, end, at, length, time_ms in rows:
            count, start = end - base, at - begin
            body = body_of_data(content, start, (topic_id, base, count, length, time_ms))
            if body is None:
                says = DataFields(topic_id, base, count, length, time_ms)
                raise self._damage(sequence, at, says, content[start : start + ENVELOPE_BYTES])
            found.append(StoredBatch(base, count, time_ms, body))

    def _encoded(self, topic_id: int, sequence: int, rows: Sequence[_Row]) -> list[EncodedBatch]:
        begin, content = self._stretch(sequence, rows)
        found: list[EncodedBatch] = []
        for base, end, at, length, time_ms in rows:
            says, start = DataFields(topic_id, base, end - base, length, time_ms), at - begin
            if body_of_data(content, start, says) is None:
                raise self._damage(sequence, at, says, content[start : start + ENVELOPE_BYTES])
            found.append(EncodedBatch(base, end, time_ms, length, content[start : start + ENVELOPE_BYTES + length]))
        return found

    def _stretch(self, sequence: int, rows: Sequence[_Row]) -> tuple[int, bytes]:
        """The first byte of neighbouring batches, and the bytes from there to the end of the last."""
        begin = rows[0][_AT]
        with self._reading(sequence, begin) as file:
            return begin, file.read(begin, _end(rows[-1]) - begin)

    def _damage(self, sequence: int, at: int, says: DataFields, envelope: bytes) -> DamagedDataError:
        """The error for a place that holds something else than its batch."""
        found = decode(envelope)
        what = f"the checksum of offset {says.base_offset} is wrong"
        if found is None or found.kind is not Kind.DATA:
            what = "there should be an envelope"
        elif (found.topic_id, found.base_offset, found.count, found.body_bytes, found.append_time_ms) != says:
            what = f"there should be offset {says.base_offset} of topic {says.topic_id}"
        return damaged(sequence, at, what, self._folder)


def _rows(run: IndexRun, files: FileTable) -> Iterator[tuple[int, list[_Row]]]:
    """The batches of a run by the file that they are in, whose sequence comes first."""
    ends = run.ends
    for file, inside in files.split(run.positions):
        part, start = slice(inside.start, inside.stop), file.base_position
        ats = [position - start for position in run.positions[part]]
        yield (
            file.sequence,
            list(zip(run.bases[part], ends[part], ats, run.lengths[part], run.times[part], strict=True)),
        )


def _end(row: _Row) -> int:
    return row[_AT] + ENVELOPE_BYTES + row[_LENGTH]


def _stretches(rows: Sequence[_Row], alone_bytes: int | None) -> Iterator[tuple[bool, Sequence[_Row]]]:
    """Split `rows` where one read cannot serve both sides, and where bodies of `alone_bytes` begin or end: those are
    marked, and read one by one."""
    first, begin, end = 0, rows[0][_AT], rows[0][_AT]
    were_alone = False
    for number, (_, _, at, length, _) in enumerate(rows):
        is_alone = alone_bytes is not None and length >= alone_bytes
        row_end = at + ENVELOPE_BYTES + length
        is_far = not is_alone and (at - end > _GAP_BYTES_MAX or row_end - begin > _RUN_BYTES_MAX)
        if number and (is_far or is_alone != were_alone):
            yield were_alone, rows[first:number]
            first, begin = number, at
        were_alone, end = is_alone, row_end
    yield were_alone, rows[first:]

"""Reading batches back from journal files: every byte is checked. All of it blocks."""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.model.limits import JOURNAL_OPEN_FILES_MAX, KIB
from danube.runtime.disk import Disk, File
from danube.storage.envelope import ENVELOPE_BYTES, DataFields, Envelope, Kind, body_of_data, decode
from danube.storage.journal.files import FOLDER, damaged, path
from danube.storage.journal.index import Located
from danube.storage.log import StoredBatch
from danube.storage.segment.format import EncodedBatch

_GAP_BYTES_MAX = 4 * KIB  # reading over a small gap costs less than a second read
_RUN_BYTES_MAX = 256 * KIB  # of one read, gaps included, unless a single batch is larger: memory that is used again


class Place(NamedTuple):
    """One batch and the bytes of the file it is in."""

    batch: Located
    sequence: int
    at: int

    @property
    def end(self) -> int:
        """The byte after it."""
        return self.at + ENVELOPE_BYTES + self.batch.body_bytes


class JournalReader:
    """Reads from journal files, of which it keeps a few open. Owned by one thread at a time."""

    def __init__(self, disk: Disk, folder: str = FOLDER) -> None:
        self._disk = disk
        self._folder = folder
        self._open: OrderedDict[int, File] = OrderedDict()

    def read(self, topic_id: int, places: Sequence[Place]) -> list[StoredBatch]:
        """The batches at `places`, in that order. Raises DamagedDataError, StorageUnavailableError."""
        found: list[StoredBatch] = []
        for run in _runs(places):
            content = self._content(run[0].sequence, run[0].at, run[-1].end - run[0].at)
            found += [self._batch(topic_id, place, content, place.at - run[0].at) for place in run]
        return found

    def read_encoded(self, topic_id: int, places: Sequence[Place]) -> list[EncodedBatch]:
        """The same with their envelopes, byte for byte as they stand in the journal."""
        found: list[EncodedBatch] = []
        for run in _runs(places):
            content = self._content(run[0].sequence, run[0].at, run[-1].end - run[0].at)
            found += [self._encoded(topic_id, place, content, place.at - run[0].at) for place in run]
        return found

    def forget_below(self, sequence: int) -> None:
        """Let go of the files before this one: they are removed, and while they are open they take up room."""
        for gone in [one for one in self._open if one < sequence]:
            self._close(self._open.pop(gone))

    def close(self) -> None:
        """Let go of the files."""
        while self._open:
            self._close_oldest()

    def _content(self, sequence: int, at: int, length: int) -> bytes:
        try:
            return self._file(sequence).read(at, length)
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

    def _encoded(self, topic_id: int, place: Place, content: bytes, start: int) -> EncodedBatch:
        batch = self._batch(topic_id, place, content, start)
        encoded = content[start : start + ENVELOPE_BYTES + len(batch.body)]
        return EncodedBatch(batch.base_offset, batch.end_offset, batch.append_time_ms, len(batch.body), encoded)

    def _batch(self, topic_id: int, place: Place, content: bytes, start: int) -> StoredBatch:
        base_offset, end_offset, _, body_bytes, append_time_ms = place.batch
        says = DataFields(topic_id, base_offset, end_offset - base_offset, body_bytes, append_time_ms)
        body = body_of_data(content, start, says)
        if body is None:
            raise self._damage(place, says, decode(content, start))
        return StoredBatch(base_offset, says.records, append_time_ms, body)

    def _damage(self, place: Place, says: DataFields, found: Envelope | None) -> DamagedDataError:
        """The error for a place that holds something else than its batch: what is wrong there."""
        what = f"the checksum of offset {says.base_offset} is wrong"
        if found is None or found.kind is not Kind.DATA:
            what = "there should be an envelope"
        elif (found.topic_id, found.base_offset, found.count, found.body_bytes, found.append_time_ms) != says:
            what = f"there should be offset {says.base_offset} of topic {says.topic_id}"
        return damaged(place.sequence, place.at, what, self._folder)


def _runs(places: Sequence[Place]) -> Iterator[Sequence[Place]]:
    """Cut `places` where one read cannot serve both sides."""
    first = begin = end = 0
    sequence = None
    for number, place in enumerate(places):
        place_end = place.end
        is_far = place.at - end > _GAP_BYTES_MAX or place_end - begin > _RUN_BYTES_MAX
        if is_far or place.sequence != sequence:
            if number:
                yield places[first:number]
            first, begin, sequence = number, place.at, place.sequence
        end = place_end
    if places:
        yield places[first:]

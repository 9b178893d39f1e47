"""A part of a topic's log that is in the journal of a former owner, until it is cut into segments."""

from collections.abc import Sequence

from danube.runtime.blocking import BlockingRunner
from danube.storage.journal.files import FileTable
from danube.storage.journal.index import IndexRun, TopicIndex
from danube.storage.journal.reader import JournalReader, Place
from danube.storage.log.protocol import StoredBatch
from danube.storage.takeover.journal_reader import FoundEpoch, FoundJournal


class PreviousOwnerTail:
    """A `LogPart` over another's journal: one epoch of a topic, sealed at `end_offset`.

    The runner's thread owns the reader, which several parts of one journal may share. No file stays open after a read:
    the journal's folder goes when everything in it is in segments, and this is read from until then only.
    """

    def __init__(
        self,
        topic_id: int,
        journal: FoundJournal,
        found: FoundEpoch,
        end_offset: int,
        *,
        reader: JournalReader,
        runner: BlockingRunner,
    ) -> None:
        self._topic_id = topic_id
        self._folder = journal.folder
        self._files = journal.files
        self._index: TopicIndex = found.index
        self._end_offset = max(min(end_offset, found.index.end_offset), found.index.start_offset)
        self._body_bytes = sum(self.run().lengths)  # column by column: live messages wait for it
        self._reader = reader
        self._runner = runner

    @property
    def start_offset(self) -> int:
        """As `LogPart`."""
        return self._index.start_offset

    @property
    def end_offset(self) -> int:
        """As `LogPart`."""
        return self._end_offset

    @property
    def body_bytes(self) -> int:
        """As `LogPart`."""
        return self._body_bytes

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        """As `LogPart`. Raises DamagedDataError, StorageUnavailableError."""
        places = self._places(offset, bytes_max)
        return await self._runner.run(lambda: self._read(places))

    async def offset_at(self, append_time_ms: int) -> int:
        """As `LogPart`."""
        number = self._index.find_time(append_time_ms)
        return min(self._index.base_offset(number), self._end_offset) if number < len(self._index) else self._end_offset

    async def append_time_ms(self, offset: int) -> int:
        """As `LogPart`."""
        return self._index[self._index.find(offset)].append_time_ms

    def append_time_at_hand(self, offset: int) -> int | None:
        """As `LogPart`."""
        return self._index[self._index.find(offset)].append_time_ms

    @property
    def folder(self) -> str:
        """Of the journal."""
        return self._folder

    @property
    def files(self) -> FileTable:
        """Of the journal."""
        return self._files

    def run(self) -> IndexRun:
        """All of it, for a `JournalReader`."""
        return self._index.up_to(self._end_offset)

    def _read(self, places: Sequence[Place]) -> list[StoredBatch]:
        try:
            return self._reader.read_sound(self._topic_id, places)
        finally:
            self._reader.close()

    def _places(self, offset: int, bytes_max: int) -> list[Place]:
        places: list[Place] = []
        room = bytes_max
        for number in range(self._index.find(offset), len(self._index)):
            batch = self._index[number]
            room -= batch.body_bytes
            if batch.base_offset >= self._end_offset or (places and room < 0):
                break
            places.append(Place(batch, *self._files.locate(batch.position)))
        return places

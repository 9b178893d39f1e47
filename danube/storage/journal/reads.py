"""The way to a topic's batches: memory first, then the files, in a thread that the writer does not wait for."""

from danube.model.errors import StorageUnavailableError
from danube.runtime.blocking import BlockingRunner
from danube.storage.journal.backlog import TopicState
from danube.storage.journal.files import FileTable
from danube.storage.journal.reader import JournalReader
from danube.storage.log.cache import BatchCache
from danube.storage.log.protocol import StoredBatch


class JournalReads:
    """Finds batches by offset. Only what is in an index is found, and only what is durable gets there."""

    def __init__(self, cache: BatchCache, files: FileTable, reader: JournalReader, runner: BlockingRunner) -> None:
        self._cache = cache
        self._files = files
        self._reader = reader
        self._runner = runner
        self._closed = False

    def hot(self, topic: TopicState, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        """As `TopicLog.read_hot`."""
        index = topic.index
        if index is None or offset >= index.end_offset:
            return []
        if offset < index.start_offset:
            return None
        found: list[StoredBatch] = []
        room = bytes_max
        for number in range(index.find(offset), len(index)):
            batch = self._cache.get(topic.topic_id, index.base_offset(number))
            if batch is None:
                break
            room -= len(batch.body)
            if found and room < 0:
                break
            found.append(batch)
        return found or None

    async def read(self, topic: TopicState, offset: int, bytes_max: int) -> list[StoredBatch]:
        """As `TopicLog.read`, of what is in the journal; what is not any more raises StorageUnavailableError."""
        found = self.hot(topic, offset, bytes_max)
        if found is not None:
            return found
        if self._closed:
            raise StorageUnavailableError("the journal is closed: open it to read")
        if topic.index is None:
            return []
        try:
            run = topic.index.run_at(offset, bytes_max)
        except IndexError as error:  # of a deleted topic: its files may go while somebody still reads
            raise StorageUnavailableError(f"offset {offset} of topic id {topic.topic_id} is gone: {error}") from error
        return await self._runner.run(lambda: self._reader.read_run(topic.topic_id, run, self._files))

    def release(self, topic: TopicState) -> None:
        """Let go of what memory holds of a topic's batches."""
        number = len(topic.index) - 1 if topic.index is not None else -1
        while topic.index is not None and number >= 0:
            if not self._cache.drop(topic.topic_id, topic.index.base_offset(number)):
                return
            number -= 1

    async def forget_files(self, below_sequence: int) -> None:
        """Let go of files that were removed."""
        if not self._closed:
            await self._runner.run(lambda: self._reader.forget_below(below_sequence))

    async def close(self) -> None:
        """Let go of the files; batches in memory stay readable."""
        self._closed = True
        await self._runner.run(self._reader.close)

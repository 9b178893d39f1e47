"""The write-ahead log of a broker: the logs of all its topics, written together and recovered after a restart."""

from collections.abc import Callable, Container, Mapping
from functools import partial

from danube.model.errors import StorageUnavailableError
from danube.model.plans.durability import Durability
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.runtime.disk import Disk
from danube.runtime.rng import Rng
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.journal.commit import GroupCommit
from danube.storage.journal.contents import Recovered
from danube.storage.journal.durable import BatchCache, ClosedFiles, DurableTopics
from danube.storage.journal.folder import FOLDER, Fence, JournalFolder
from danube.storage.journal.index import ClosedFile, FileTable, TopicBase
from danube.storage.journal.reader import JournalReader
from danube.storage.journal.recovery import Recovery, run_unfenced
from danube.storage.journal.round import TopicState
from danube.storage.journal.writer import RoundWriter
from danube.storage.read_throttle import SyncWatch
from danube.storage.settings import JournalSettings, JournalStats


class JournalReads:
    """Finds batches by offset: memory first, then the files, in a thread that the writer does not wait for.

    Only what is in an index is found, and only what is durable gets there.
    """

    def __init__(self, cache: BatchCache, files: FileTable, reader: JournalReader, runner: BlockingRunner) -> None:
        self._cache = cache
        self._files = files
        self._reader = reader
        self._runner = runner
        self._closed = False

    def hot(self, topic: TopicState, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        """Batches from the one that holds `offset`, as far as they are in memory; None when that one is not."""
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
        """The same, from memory or a file. Raises StorageUnavailableError for an offset that is not in the journal."""
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

    def drop_cached(self, topic: TopicState) -> None:
        """Drop a topic's batches from memory."""
        number = len(topic.index) - 1 if topic.index is not None else -1
        while topic.index is not None and number >= 0:
            if not self._cache.drop(topic.topic_id, topic.index.base_offset(number)):
                return
            number -= 1

    async def close_files(self, below_sequence: int) -> None:
        """Close files that were removed."""
        if not self._closed:
            await self._runner.run(lambda: self._reader.close_below(below_sequence))

    async def close(self) -> None:
        """Close the files; batches in memory stay readable."""
        self._closed = True
        await self._runner.run(self._reader.close)


_DEFAULTS = JournalSettings()
_NO_BASES: Mapping[int, TopicBase] = {}


class Journal(DurableTopics):
    """The durable topics of one broker, and what writes and reads them. Made by `open`.

    The caller has locked the data folder. All calls are made, and all callbacks run, on the event loop's thread, but
    for those marked as callable from any.
    """

    def __init__(
        self,
        recovered: Recovered,
        writer: RoundWriter,
        disk: Disk,
        clock: Clock,
        *,
        runner: BlockingRunner,
        read_runner: BlockingRunner,
        settings: JournalSettings,
        folder: str,
    ) -> None:
        super().__init__(recovered, BatchCache(settings.cache_bytes_max), writer.end.position)
        self._writer = writer
        self.reads = JournalReads(self.cache, self.files, JournalReader(disk, folder), read_runner)
        self.commit = GroupCommit(clock, settings, runner, writer, self.apply)
        self._closed = ClosedFiles(
            recovered.closed, self, JournalFolder(disk, folder), read_runner, writer.end.journal_id
        )
        self.on_closed, self.is_in_closed_file = self._closed.add, self._closed.has_topic
        self.topics_in_closed_files = self._closed.topic_ids
        self.commit.start()

    @classmethod
    async def open(
        cls,
        disk: Disk,
        clock: Clock,
        *,
        rng: Rng,
        runner: BlockingRunner,
        read_runner: BlockingRunner,
        settings: JournalSettings = _DEFAULTS,
        broker_id: int,
        known_topics: Container[int] | None = None,
        bases: Mapping[int, TopicBase] = _NO_BASES,
        folder: str = FOLDER,
        fence: Fence | None = None,
        journal_id: int | None = None,
        has_begun: bool = False,
        detached: dict[int, int] | None = None,
    ) -> "Journal":
        """Recover the journal of the folder, or start a new one, and be ready for appends.

        `known_topics` holds the ids of the topics that exist; records of others are skipped. None keeps all. `bases`
        are the topics' states in segments, from which the journal goes on.
        A journal that other brokers reach has a `fence`: it is read before anything is shown or acknowledged.
        `journal_id` is that of a new journal; None has one chosen at random. With `has_begun` no new one is started.
        `detached` gets the topics whose records do not follow on their base, and are left out; None has them damaged.
        The runners stay the caller's: close them after `close()`.

        Raises:
            JournalFencedError: another broker has taken the journal's topics over; go on in another folder.
            DamagedDataError: bytes that were known to be synced are not there, or not what was written, or do not
                follow the bases.
            DataFolderError: the folder cannot be read or written, or is another broker's, or of a newer format.
        """
        new_id = rng.new_id if journal_id is None else lambda: journal_id
        recovery = Recovery(
            disk,
            broker_id,
            new_id,
            known_topics,
            bases=bases,
            folder=folder,
            has_begun=has_begun,
            detached=detached,
        )
        file, end = await runner.run(recovery.run if fence is None else partial(run_unfenced, recovery, fence))
        writer = RoundWriter(disk, file, end, settings.file_bytes_max, folder, fence=fence, clock=clock)
        return cls(
            recovery.recovered,
            writer,
            disk,
            clock,
            runner=runner,
            read_runner=read_runner,
            settings=settings,
            folder=folder,
        )

    @property
    def journal_id(self) -> int:
        """Chosen at random when the journal began."""
        return self._writer.end.journal_id

    @property
    def base_position(self) -> int:
        """Begin of the first file."""
        return self.files.base_position

    @property
    def last_file_position(self) -> int:
        """Begin of the last file."""
        return self.files.starts[-1].base_position

    @property
    def synced_to(self) -> int:
        """Position up to which everything is synced, as far as the loop's thread knows."""
        return self._writer.end.synced_to

    @property
    def stopped(self) -> str | None:
        """The reason that nothing more is written (file and cause), or None. Reads go on."""
        return self.commit.stopped

    @property
    def sync_watch(self) -> SyncWatch:
        """Cold reads ask it before they go to the disk."""
        return self._writer.sync_watch

    @property
    def stats(self) -> JournalStats:
        """Counters for the metrics."""
        commit = self.commit
        return JournalStats(
            rounds=commit.rounds,
            failed_rounds=commit.failed_rounds,
            bytes_written=commit.bytes_written,
            syncs=self._writer.syncs,
            files=len(self.files),
            size_bytes=self._writer.end.position - self.files.base_position,
            backlog_bytes=commit.backlog_bytes,
            cache_bytes=self.cache.bytes,
            last_round_ms=commit.last_round_ms,
            round_seconds=commit.round_seconds,
            sync_seconds=self._writer.sync_seconds,
        )

    def open_topic(self, topic_id: int, epoch: int, durability: Durability | None = None) -> TopicState:
        """The state of a topic for a log, empty or as recovered. Records are written under `epoch` from now on.

        `durability` says when its appends are acknowledged; None is the journal's. All of a round waits for the sync
        when one topic in it does. Raises ValueError for an unknown or forgotten id that has records here.
        """
        return self.start_topic(topic_id, epoch, durability or self.commit.durability)

    def forget(self, topic_id: int) -> None:
        """Drop a deleted topic from memory; its id is not opened again as long as it has records here.

        A topic that is another broker's now is dropped, too, and `adopt` may bring it back.
        """
        topic = self.drop(topic_id)
        if topic is not None:
            self.commit.forget_cursors(topic_id)
            self.reads.drop_cached(topic)

    def closed_files(self) -> list[ClosedFile]:
        """The closed files, oldest first."""
        return self._closed.all

    def on_file_closed(self, listener: Callable[[], None]) -> None:
        """Have `listener` called whenever there is another closed file."""
        self._closed.on_closed(listener)

    async def rotate(self) -> None:
        """Begin a new file, unless the last one is empty. Raises StorageUnavailableError, ShuttingDownError."""
        await self.commit.rotate()
        await self._closed.settled()

    async def remove_files(self, below_sequence: int) -> int:
        """Remove the closed files below; answers the bytes that this frees.

        Raises ValueError when a topic has batches in them that were not flushed, StorageUnavailableError when the disk
        fails, or the journal has stopped; it can be done again.
        """
        if self.commit.stopped is not None:
            raise StorageUnavailableError(self.commit.stopped)
        freed = await self._closed.remove(below_sequence)
        await self.reads.close_files(below_sequence)
        return freed

    async def close(self) -> None:
        """Refuse appends, write what is pending, the last cursors and the mark; then end.

        Never raises for the disk's faults: they are logged, and `stopped` names them.
        """
        await self.commit.close()
        await self._closed.close()
        await self.reads.close()

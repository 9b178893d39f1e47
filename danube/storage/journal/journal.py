"""One journal per broker: the logs of all its topics, written together and found again after a restart."""

from collections.abc import Callable, Container, Mapping
from functools import partial

from danube.model.errors import StorageUnavailableError
from danube.model.plans.durability import Durability
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.runtime.disk import Disk
from danube.runtime.rng import Rng
from danube.storage.journal.closing import ClosedFiles
from danube.storage.journal.commit import GroupCommit
from danube.storage.journal.durable import DurableTopics
from danube.storage.journal.fence import Fence
from danube.storage.journal.files import FOLDER, FileTable
from danube.storage.journal.folder import JournalFolder
from danube.storage.journal.index import IndexRun, TopicIndex
from danube.storage.journal.reader import JournalReader
from danube.storage.journal.reads import JournalReads
from danube.storage.journal.recovery import Recovery, run_unfenced
from danube.storage.journal.settings import JournalSettings, JournalStats
from danube.storage.journal.sync_watch import SyncWatch
from danube.storage.journal.topic_base import ClosedFile, TopicBase, TopicSnapshot
from danube.storage.journal.writer import RoundWriter
from danube.storage.log.cache import BatchCache
from danube.storage.log.topic_log import JournalTopicLog

_DEFAULTS = JournalSettings()
_NO_BASES: Mapping[int, TopicBase] = {}


class Journal:
    """The journal of one broker, in a folder of a data folder that the caller has locked.

    Made by `open`. All calls are made, and all callbacks run, on the event loop's thread, but for those that say that
    they may be made from any.
    """

    def __init__(
        self, durable: DurableTopics, reads: JournalReads, writer: RoundWriter, commit: GroupCommit, closed: ClosedFiles
    ) -> None:
        self._durable = durable
        self._reads = reads
        self._writer = writer
        self._commit = commit
        self._closed = closed
        self._durability = commit.durability

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
    ) -> "Journal":
        """Recover what is in the folder, or start a new journal, and be ready for appends.

        `known_topics` holds the ids of the topics that exist; records of others are skipped. None keeps all. `bases`
        says by topic id what of a topic is in segments: it goes on from there.
        A journal that other brokers reach has a `fence`: it is looked at before anything is shown or acknowledged.
        `journal_id` is that of a new journal; None has one chosen at random. With `has_begun` there is none to begin.
        The runners stay the caller's: close them after `close()`.

        Raises:
            JournalFencedError: another broker has taken the journal's topics over; go on in another folder.
            DamagedDataError: bytes that were known to be synced are not there, or not what was written, or do not
                follow the bases.
            DataFolderError: the folder cannot be read or written, or is another broker's, or of a newer format.
        """
        new_id = rng.new_id if journal_id is None else lambda: journal_id
        recovery = Recovery(disk, broker_id, new_id, known_topics, bases=bases, folder=folder, has_begun=has_begun)
        file, end = await runner.run(recovery.run if fence is None else partial(run_unfenced, recovery, fence))
        recovered = recovery.recovered
        durable = DurableTopics(recovered, BatchCache(settings.cache_bytes_max), end.position)
        reads = JournalReads(durable.cache, durable.files, JournalReader(disk, folder), read_runner)
        writer = RoundWriter(disk, file, end, settings.file_bytes_max, folder, fence=fence, clock=clock)
        commit = GroupCommit(clock, settings, runner, writer, durable.take_in)
        closed = ClosedFiles(recovered.closed, durable, JournalFolder(disk, folder), read_runner, end.journal_id)
        durable.on_file_closed, durable.is_in_closed_file = closed.take, closed.hold
        commit.start()
        return cls(durable, reads, writer, commit, closed)

    @property
    def journal_id(self) -> int:
        """Chosen at random when the journal began."""
        return self._writer.end.journal_id

    @property
    def base_position(self) -> int:
        """Of the first file that is there."""
        return self._durable.files.base_position

    @property
    def last_file_position(self) -> int:
        """At which the last file begins."""
        return self._durable.files.starts[-1].base_position

    @property
    def end_position(self) -> int:
        """Behind the last round that is durable."""
        return self._durable.end_position

    @property
    def newest_append_ms(self) -> int | None:
        """When the newest message of all topics was appended, in segments too; None when there never was one."""
        return self._durable.newest_append_ms

    @property
    def synced_to(self) -> int:
        """Up to which position everything is synced, as far as the loop's thread knows."""
        return self._writer.end.synced_to

    @property
    def stopped(self) -> str | None:
        """Why nothing more is written (file and cause), or None. Reads go on."""
        return self._commit.stopped

    @property
    def sync_watch(self) -> SyncWatch:
        """What cold reads ask before they go to the disk."""
        return self._writer.sync_watch

    @property
    def stats(self) -> JournalStats:
        """Counters for the metrics."""
        commit = self._commit
        return JournalStats(
            rounds=commit.rounds,
            failed_rounds=commit.failed_rounds,
            bytes_written=commit.bytes_written,
            syncs=self._writer.syncs,
            files=len(self._durable.files),
            size_bytes=self._writer.end.position - self._durable.files.base_position,
            backlog_bytes=commit.backlog_bytes,
            cache_bytes=self._durable.cache.bytes,
            last_round_ms=commit.last_round_ms,
            round_seconds=commit.round_seconds,
            sync_seconds=self._writer.sync_seconds,
        )

    def topic(self, topic_id: int, epoch: int, durability: Durability | None = None) -> JournalTopicLog:
        """The log of a topic, empty or as recovered. Records are written under `epoch` from now on.

        `durability` says when its appends are acknowledged; None is the journal's. What shares a round with a topic
        that waits for the sync waits for it, too.
        Raises ValueError for an id that was not among the known topics, or was forgotten, though it has records here.
        """
        return JournalTopicLog(
            self._durable.open(topic_id, epoch, durability or self._durability),
            self._commit,
            self._reads,
            self._durable.forget_cursor,
        )

    def adopt(self, base: TopicBase) -> None:
        """Begin with a topic that another broker, or another journal, kept so far: it goes on where `base` ends.

        Whatever of it stands in this journal already is of an epoch that is over. Raises ValueError when it is open.
        """
        self._durable.adopt(base)

    def release(self, topic_id: int) -> None:
        """Drop what memory holds of a topic that is somebody else's now; `adopt` may bring it back."""
        self.forget(topic_id)

    def forget(self, topic_id: int) -> None:
        """Drop what memory holds of a deleted topic; its id is not opened again as long as it has records here."""
        topic = self._durable.forget(topic_id)
        if topic is not None:
            self._commit.forget_cursors(topic_id)
            self._reads.release(topic)

    # For those who cut the journal into segments

    def closed_files(self) -> list[ClosedFile]:
        """The files that are written no more, oldest first."""
        return self._closed.all

    def bytes_in_last_file(self, is_meant: Callable[[int], bool]) -> int:
        """Of the records of the topics that are meant, in the file that is written now."""
        return self._durable.bytes_in_last_file(is_meant)

    def on_file_closed(self, listener: Callable[[], None]) -> None:
        """Have `listener` called whenever there is another closed file."""
        self._closed.on_closed(listener)

    async def rotate(self) -> None:
        """Begin a new file, unless nothing is in the last one; then the old one is among the closed ones.

        Raises StorageUnavailableError, ShuttingDownError.
        """
        await self._commit.rotate()
        await self._closed.settled()

    @property
    def files(self) -> FileTable:
        """Which of them holds which position, for a `JournalReader`."""
        return self._durable.files

    def run(self, topic_id: int, below_position: int) -> IndexRun:
        """A topic's batches in this journal below that position. From any thread, for the end of a closed file."""
        index = self._durable.index(topic_id) or TopicIndex()
        return index.between(0, below_position)

    def snapshot(self, topic_id: int) -> TopicSnapshot:
        """Where a topic's subscriptions and numberings stand, durably; reading the journal over it changes nothing."""
        return self._durable.snapshot(topic_id)

    def let_go(self, topic_id: int, end_offset: int) -> None:
        """A topic's batches below this offset are kept elsewhere: they are not looked for in here any more."""
        self._durable.let_go(topic_id, end_offset)

    async def remove_files(self, below_sequence: int) -> int:
        """Remove the closed files below; answers how many bytes that frees. What was let go is gone with them.

        Raises ValueError when a topic has batches in them that were not let go, StorageUnavailableError when the disk
        fails, or the journal has stopped; it can be done again.
        """
        if self._commit.stopped is not None:
            raise StorageUnavailableError(self._commit.stopped)
        freed = await self._closed.remove(below_sequence)
        await self._reads.forget_files(below_sequence)
        return freed

    async def close(self) -> None:
        """Write what is pending, the last cursors and the mark; then end. Appends are refused from the first moment.

        Never raises for the disk's faults: they are logged, and `stopped` names them.
        """
        await self._commit.close()
        await self._closed.close()
        await self._reads.close()

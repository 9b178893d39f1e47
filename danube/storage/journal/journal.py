"""One journal per broker: the logs of all its topics, written together and found again after a restart."""

from collections.abc import Container

from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.runtime.disk import Disk
from danube.runtime.rng import Rng
from danube.storage.cache import BatchCache
from danube.storage.journal.commit import GroupCommit
from danube.storage.journal.durable import DurableTopics
from danube.storage.journal.reader import JournalReader
from danube.storage.journal.reads import JournalReads
from danube.storage.journal.recovery import Recovery
from danube.storage.journal.settings import JournalSettings, JournalStats
from danube.storage.journal.writer import RoundWriter
from danube.storage.topic_log import JournalTopicLog

_DEFAULTS = JournalSettings()


class Journal:
    """The journal of one broker, in the folder `journal/` of a data folder that the caller has locked.

    Made by `open`. All calls are made, and all callbacks run, on the event loop's thread.
    """

    def __init__(self, durable: DurableTopics, reads: JournalReads, writer: RoundWriter, commit: GroupCommit) -> None:
        self._durable = durable
        self._reads = reads
        self._writer = writer
        self._commit = commit

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
    ) -> "Journal":
        """Recover what is in the folder, or start a new journal, and be ready for appends.

        `known_topics` holds the ids of the topics that exist; records of others are skipped. None keeps all.
        The runners stay the caller's: close them after `close()`.

        Raises:
            DamagedDataError: bytes that were known to be synced are not what was written.
            DataFolderError: the folder cannot be read or written, or is another broker's, or of a newer format.
        """
        recovery = Recovery(disk, broker_id, rng.new_id, known_topics)
        file, end = await runner.run(recovery.run)
        durable = DurableTopics(recovery.recovered, BatchCache(settings.cache_bytes_max))
        reads = JournalReads(durable.cache, durable.files, JournalReader(disk), read_runner)
        writer = RoundWriter(disk, file, end, settings.file_bytes_max)
        commit = GroupCommit(clock, settings, runner, writer, durable.take_in)
        commit.start()
        return cls(durable, reads, writer, commit)

    @property
    def stopped(self) -> str | None:
        """Why nothing more is written (file and cause), or None. Reads go on."""
        return self._commit.stopped

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
        )

    def topic(self, topic_id: int, epoch: int) -> JournalTopicLog:
        """The log of a topic, empty or as recovered. Records are written under `epoch` from now on.

        Raises ValueError for an id that was not among the known topics though it has records, or that was forgotten.
        """
        return JournalTopicLog(self._durable.open(topic_id, epoch), self._commit, self._reads)

    def forget(self, topic_id: int) -> None:
        """Drop what memory holds of a deleted topic; its id can never be opened again."""
        topic = self._durable.forget(topic_id)
        if topic is not None:
            self._commit.forget_cursors(topic_id)
            self._reads.release(topic)

    async def close(self) -> None:
        """Write what is pending, the last cursors and the mark; then end. Appends are refused from the first moment.

        Never raises for the disk's faults: they are logged, and `stopped` names them.
        """
        await self._commit.close()
        await self._reads.close()

"""The storage of one broker in a folder that all brokers share, with topics that change their owners.

Below the folder:

    journals/<journal id>/    a broker's journal, with its fence; other brokers only read it, and at last remove it
    segments/<topic id>/      a topic's segments and manifests, of any broker
    cluster                   the id of the cluster that the folder belongs to

The metadata says which topics this broker owns, where they begin and end, and which journals there are.
"""

import contextlib
from collections.abc import Iterable

from danube.model.errors import DataFolderError
from danube.model.limits.broker import JOURNALS_LOOK_S
from danube.model.topic import TopicName
from danube.runtime.disk import Disk
from danube.storage.flush.deletion import sweep_unknown_folders
from danube.storage.journal.folder import JOURNALS
from danube.storage.log.histories import TopicHistories
from danube.storage.log.topic_log import TopicLog
from danube.storage.segment.manifest import SEGMENTS
from danube.storage.store import Storage
from danube.storage.stored_topics import StoredTopics
from danube.storage.takeover.journal_removal import JournalRemover
from danube.storage.takeover.own_journal import OwnJournal, SharedEnvironment, open_own_journal
from danube.storage.takeover.ownership import MayOwn, Ownership
from danube.storage.takeover.release import Stop

_CLUSTER = "cluster"
"""The file that holds the id of the cluster that a shared folder belongs to."""


class SharedStorage(Storage):
    """A `Storage` in a shared folder, whose topics move between brokers. Made by `open_shared`.

    A topic is this broker's from `acquire` until `release`, or until another broker takes it over by force: then this
    broker's journal is fenced, appends to all its topics fail, and `stopped` says so. Closed and opened again, it goes
    on in a new journal, with no topics.
    """

    shares_logs = True

    def __init__(self, environment: SharedEnvironment, own: OwnJournal) -> None:
        topics = StoredTopics(TopicHistories(own.found.histories), own.found.refused)
        ownership = Ownership(environment, own, topics)
        super().__init__(environment, topics, own.journal, folder=own.folder, named=ownership.named_in_own)
        self._ownership = ownership
        self._journal_remover = JournalRemover(
            environment.disk,
            environment.records,
            environment.journals,
            environment.flush_runner,
            own_id=own.journal.journal_id,
            remove_folder=environment.remove_journal,
        )
        self._look_s = 0.0

    @classmethod
    async def open_shared(cls, environment: SharedEnvironment) -> "SharedStorage":
        """Reopen this broker's journal with the topics in it, or start a new journal without any.

        The caller ensures that one process at a time has this broker id. Every round is synced before it is
        acknowledged, whatever durability is set.

        Raises as `Storage.open`, and DataFolderError for a folder that cannot be shared.
        """
        is_new = not await environment.journals.all()
        await environment.tier_runner.run(
            lambda: _check_folder(environment.disk, environment.place, environment.cluster_id, is_new=is_new)
        )
        storage = cls(environment, await open_own_journal(environment))
        await storage.check_space()
        return storage

    async def is_fenced(self) -> bool:
        """True once others have taken over the topics of this broker. Raises StorageUnavailableError."""
        return await self._ownership.is_fenced()

    # Topics

    @property
    def owned(self) -> frozenset[int]:
        """The topics that are this broker's, as far as it knows."""
        return frozenset(self.topics.owned or ())

    async def acquire(self, topic_ids: Iterable[int], may_own: MayOwn = lambda _record: True) -> frozenset[int]:
        """Own these topics; answers the ids of those that are this broker's now. The others are another broker's.

        `may_own` judges their records as they stand when their owners' journals are chosen: those of others stay.

        New and released topics are opened; those without a record (`enter_topic`) were deleted. The others are taken
        over by force: every broker that has one of them in its journal acknowledges nothing more, of any topic. So all
        topics of a dead broker should be taken over.

        Raises, after all that could be were acquired (`owned` says which):
            DamagedDataError: a former owner's journal, or a manifest, is not what was written.
            StorageUnavailableError: a folder cannot be read, or this broker's own journal cannot be written.
            JournalFencedError: others have taken this broker's topics over.
            StorageChangedError: the owner of a topic flushes it all the time: try again.
            TopicNotServedError: whether a topic is this broker's is unknown: restart it.
            MetadataError: the metadata cannot be reached.
        """
        return await self._ownership.acquire(topic_ids, may_own)

    async def release(self, topic_id: int, stop: Stop) -> None:
        """Release a topic, so that any broker can acquire it without a fence.

        After a MetadataError, or when this is cancelled, it may be unknown whether it was released: then it is served
        no more. Another `release` finds out, and so does `acquire`.

        `stop` stops its appends and acknowledgements, waits for those under way, and answers its cursors.

        Raises:
            TopicNotServedError: it is not this broker's.
            StorageChangedError: another broker has taken it.
            StorageUnavailableError: the journal cannot be written, or was fenced. The topic is stopped and not sealed.
            JournalFencedError: others have taken this broker's topics over.
            MetadataError: whether it was released is unknown: ask again.
        """
        try:
            await self._ownership.release(topic_id, stop)
        finally:
            if not self.topics.is_owned(topic_id):
                self._logs.pop(topic_id, None)
                # Files that the next owner removes take up room as long as they are open here.
                await self._environment.tier_runner.run(lambda: self._cold.reader.forget(topic_id))

    def epoch(self, topic_id: int) -> int:
        if topic_id in self.topics.refused:
            raise self.topics.refused[topic_id]
        return self._ownership.epoch(topic_id)

    def topic(
        self,
        topic_id: int,
        epoch: int = 0,  # noqa: ARG002 - as in `Storage`
        *,
        name: TopicName | None = None,
        uses_reserve: bool = False,
    ) -> TopicLog:
        """The log of a topic that this broker owns; it is written under the epoch in which this broker owns it.

        Raises TopicNotServedError, and as `Storage.topic`.
        """
        if topic_id in self.topics.refused:
            raise self.topics.refused[topic_id]
        return super().topic(topic_id, self._ownership.epoch(topic_id), name=name, uses_reserve=uses_reserve)

    # Work

    async def remove_journals(self) -> int:
        """Remove unneeded journals of former owners; answers how many. Raises MetadataError."""
        async with self._turn:
            return await self._journal_remover.remove_unneeded()

    async def sweep_orphans(self) -> None:
        """As `Storage.sweep_orphans`, and files that late owners wrote of deleted topics."""
        await super().sweep_orphans()
        environment = self._environment
        async with self._turn:
            await sweep_unknown_folders(
                environment.records,
                environment.writing_tier,
                environment.flush_runner,
                folders=lambda: _topic_folders(environment.disk),
            )

    async def _tidy(self) -> None:
        now_s = self._environment.clock.monotonic_s()
        if now_s >= self._look_s:
            self._look_s = now_s + JOURNALS_LOOK_S
            await self.remove_journals()


def _check_folder(disk: Disk, place: str, cluster_id: str, *, is_new: bool) -> None:
    """Raises DataFolderError for another folder than that of the cluster, such as a mount point without its mount.

    Also for one in which two brokers could write the same file without noticing. In a new cluster, which has stored
    nothing yet, the folder is made if need be, and becomes the cluster's.
    """
    try:
        if cluster_id and not disk.exists(""):
            if not is_new:
                raise DataFolderError(
                    f"{place} is not there, and this cluster has stored messages in it: mount it on every broker"
                )
            disk.make_folder("")
        found = _cluster_of(disk)
        if found != cluster_id and (found or not is_new):
            raise DataFolderError(
                f"{place} is not that of this cluster, {cluster_id}, but of {found or 'none'}: is it the one"
                " that all brokers use, and is it mounted?"
            )
        if cluster_id and not found:
            with contextlib.suppress(FileExistsError):  # another broker was faster, and has the same id
                disk.create_whole(_CLUSTER, [cluster_id.encode()])
        disk.make_folder(JOURNALS)
        disk.make_folder(SEGMENTS)
        has_links = disk.has_links()
    except OSError as error:
        raise DataFolderError(f"{place} cannot be used: {error}. Check it, and its mount") from error
    if not has_links:
        raise DataFolderError(
            f"{place} is on a file system without hard links, on which two brokers could write the same file "
            "at once: use one that has them, as NFS and CephFS do"
        )


def _cluster_of(disk: Disk) -> str:
    if not disk.exists(_CLUSTER):
        return ""
    file = disk.open_read(_CLUSTER)
    try:
        return file.read(0, file.size()).decode(errors="replace")
    finally:
        file.close()


def _topic_folders(disk: Disk) -> list[int]:
    return [int(name) for name in disk.list(SEGMENTS) if name.isdecimal()]

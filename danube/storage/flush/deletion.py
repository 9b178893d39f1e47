"""Sweeps: files of deleted topics and of flushes that died. A sweep that crashes is done again."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from danube.metadata.records.storage import StorageRecords
from danube.model.limits.broker import FLUSH_TOPICS_MAX
from danube.runtime.blocking import BlockingRunner
from danube.storage.environment import StorageEnvironment
from danube.storage.flush.manifest_builder import ManifestBuilder
from danube.storage.flush.manifest_commit import ManifestCommitter
from danube.storage.segment.manifest import Manifest, folder_of
from danube.storage.segment.reader import SegmentReader
from danube.storage.stored_topics import StoredTopics
from danube.storage.tiers.tier import SegmentTier

_log = logging.getLogger(__name__)


class TopicDeleter:
    """Removes the folders of deleted topics, in the reading thread, so that no file is kept open.

    A topic whose files cannot be removed is logged once, and kept in `left`.
    """

    def __init__(
        self,
        environment: StorageEnvironment,
        topics: StoredTopics,
        reader: SegmentReader,
        forget: Callable[[int], None],
        *,
        has_records: Callable[[int], bool],
    ) -> None:
        """`has_records` tells of a topic whether a file of the journal has a record of it."""
        self._records = environment.records
        self._topics = topics
        self._has_records = has_records
        self._forget = forget
        self._reader = reader
        self._tier = environment.reading_tier
        self._runner = environment.tier_runner
        self.left: set[int] = set()
        """Deleted topics with files that the last sweep could not remove."""
        self.waiting: set[int] = set()
        """Deleted topics without files, whose records are still in the journal."""

    async def sweep(self) -> int:
        """Remove the files of all deleted topics; answers of how many. Raises MetadataError.

        The tombstone of one goes once the journal has no record of it either: without it they would be kept.
        """
        swept = 0
        deleted = await self._records.deleted()
        self.left.intersection_update(deleted)
        for topic_id in deleted:
            if (
                topic_id not in self.waiting
            ):  # else its files are gone, and those there now are of a copy that comes back
                self._forget(topic_id)
                if not await self._remove(topic_id):
                    continue
                swept += 1
                self.waiting.add(topic_id)
            if not self._has_records(topic_id):
                await self._records.remove_tombstone(topic_id)
                self.waiting.discard(topic_id)
                self._topics.deleted.discard(topic_id)
        self.waiting.intersection_update(deleted)
        return swept

    async def _remove(self, topic_id: int) -> bool:
        try:
            await self._runner.run(lambda: self._remove_folder(topic_id))
        except OSError as error:
            if topic_id not in self.left:
                _log.warning("the files of the deleted topic %d could not be removed: %s", topic_id, error)
            self.left.add(topic_id)
            return False
        self.left.discard(topic_id)
        return True

    def _remove_folder(self, topic_id: int) -> None:
        self._reader.forget(topic_id)
        self._tier.delete_folder(folder_of(topic_id))


async def sweep_orphans(
    manifests: Sequence[Manifest], writer: ManifestBuilder, committer: ManifestCommitter, runner: BlockingRunner
) -> None:
    """Remove the files in these topics' folders that flushes which died have left."""
    for first in range(0, len(manifests), FLUSH_TOPICS_MAX):
        find = partial(_find, writer, manifests[first : first + FLUSH_TOPICS_MAX])
        await committer.remove(await runner.run(find))


async def sweep_unknown_folders(
    records: StorageRecords, tier: SegmentTier, runner: BlockingRunner, *, folders: Callable[[], Sequence[int]]
) -> int:
    """In a shared folder, remove the folders of topics that were deleted and swept; answers how many.

    Raises MetadataError.

    An owner that is behind may write files of a topic whose tombstone is removed already. A topic has a record before
    it has a folder, and a tombstone once the record is removed: so a folder of a topic with neither, read in this order
    and linearizably, is of one that was deleted and swept.
    """
    try:
        found = await runner.run(folders)
        known = {*await records.all(linearizable=True), *await records.deleted()}
    except OSError as error:
        _log.warning("folders of topics that are deleted could not be looked for: %s", error)
        return 0
    removed = 0
    for topic_id in found:
        if topic_id in known:
            continue
        try:
            await runner.run(lambda: tier.delete_folder(folder_of(topic_id)))  # noqa: B023 - awaited in its turn
        except OSError as error:
            _log.warning("the files of the deleted topic %d could not be removed: %s", topic_id, error)
        else:
            removed += 1
    return removed


def _find(writer: ManifestBuilder, manifests: Sequence[Manifest]) -> list[str]:
    found: list[str] = []
    for manifest in manifests:
        try:
            found += writer.orphans(manifest)
        except OSError as error:
            _log.warning(
                "files that flushes may have left of topic %d could not be looked for: %s", manifest.topic_id, error
            )
    return found

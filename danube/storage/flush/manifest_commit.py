"""Commit of manifest versions: metadata names them, memory follows, then files that are not needed are removed.

In this order the manifest that metadata names is whole on the disk, and files that readers may need are there. A crash
between two steps leaves only orphans.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import StorageChangedError
from danube.storage.environment import StorageEnvironment
from danube.storage.flush.manifest_builder import ManifestVersion, named
from danube.storage.flush.manifest_lookup import load_history
from danube.storage.log.histories import TopicHistories, remaining_tails
from danube.storage.stored_topics import StoredTopics

_log = logging.getLogger(__name__)


class ManifestCommitter:
    """Commits manifest versions to metadata. Files are deleted in the reading thread, after the reads before them."""

    def __init__(
        self, environment: StorageEnvironment, histories: TopicHistories, *, drop_flushed: Callable[[int, int], None]
    ) -> None:
        self._records = environment.records
        self._histories = histories
        self._tier = environment.reading_tier
        self._runner = environment.tier_runner
        self._drop = drop_flushed

    async def commit(self, made: Sequence[ManifestVersion]) -> frozenset[int]:
        """Commit these, of one topic each; answers the topics whose records another broker changed meanwhile.

        Raises MetadataError when the store fails: then none of them is committed, or it is unknown.
        """
        lost: frozenset[int] = frozenset()
        while made:
            try:
                records = await self._records.point([one.change for one in made])
            except StorageChangedError as error:
                if not error.topic_ids - lost:
                    raise
                lost |= error.topic_ids
                made = [one for one in made if one.manifest.topic_id not in lost]
            else:
                self._apply(made, records)
                await self.remove([name for one in made for name in one.orphans])
                break
        return lost

    def keep(self, made: Sequence[ManifestVersion]) -> None:
        """Go by manifests of topics that metadata does not know: the folder alone has them, and nothing is removed."""
        self._apply(made, [replace(one.history.record, manifest_version=one.manifest.version) for one in made])

    async def reload(self, topic_id: int) -> bool:
        """Load what metadata names now of a stale topic; answers whether its owner is still the same.

        Raises MetadataError, and as `load_history`.
        """
        before = self._histories.get(topic_id)
        record = await self._records.settled(before.record if before is not None else TopicStorage(topic_id))
        history = await self._runner.run(lambda: load_history(self._tier, record))
        before = self._histories.get(topic_id)  # it may have left, and come back under a new epoch
        tails = remaining_tails(before.tails if before is not None else (), history.manifest)
        self._histories.put(replace(history, tails=tails))
        newest = self._histories.get(topic_id) or history
        if newest.record.epochs[-1:] != (before.record.epochs[-1:] if before is not None else ()):
            return False
        self._drop(topic_id, newest.manifest.end_offset)
        return True

    async def remove(self, names: Sequence[str]) -> None:
        """Remove files; those that cannot be removed are found again by the topic's next flush."""
        if names:
            await self._runner.run(lambda: self._remove(names))

    def _apply(self, made: Sequence[ManifestVersion], records: Sequence[TopicStorage]) -> None:
        """In one turn of the event loop: a reader sees all of a topic before, or all of it after."""
        for one, record in zip(made, records, strict=True):
            self._histories.put(named(one, record))
            self._drop(record.topic_id, one.manifest.end_offset)

    def _remove(self, names: Sequence[str]) -> None:
        """A file that cannot be removed stops no other, and is logged once for each topic."""
        faults: dict[str, str] = {}
        for name in names:
            try:
                self._tier.delete(name)
            except OSError as error:
                faults.setdefault(name.rpartition("/")[0], f"{name} could not be removed: {error}")
        for fault in faults.values():
            _log.warning("%s", fault)


async def refresh(topics: StoredTopics, committer: ManifestCommitter, topic_id: int) -> bool:
    """Load what metadata names of a stale topic; answers whether it is still this broker's to change.

    A topic that was deleted meanwhile is dropped. Raises as `ManifestCommitter.reload`.
    """
    is_ours = await committer.reload(topic_id)
    if topics.is_dead(topic_id):
        topics.histories.forget(topic_id)
        return False
    if not is_ours:
        topics.disown(topic_id)
        return False
    topics.stale.discard(topic_id)
    return True

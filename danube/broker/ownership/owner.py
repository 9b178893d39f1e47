"""Ownership of topics by this broker, in metadata and storage: acquired, and released."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from danube.broker.ownership.cluster_topics import ClusterTopics, ownership_of
from danube.metadata.records.catalog import TopicRecord
from danube.metadata.records.record_format import TopicStorage
from danube.metadata.records.storage import StorageRecords
from danube.model.errors import DanubeError, StorageChangedError, TopicNotServedError
from danube.model.limits.broker import STORAGE_POINTERS_MAX
from danube.model.limits.metadata import METADATA_ATTEMPTS_MAX
from danube.model.topic import DispatchStrategy
from danube.storage.store import Storage
from danube.storage.takeover.release import Stop

_log = logging.getLogger(__name__)


def _nobody_is_gone(_broker_id: int) -> bool:
    return False


class TopicOwner:
    """Owns topics on behalf of one broker.

    A reliable topic of a shared folder is owned by the journal that its newest epoch is in, any other one by its
    record alone.
    """

    def __init__(self, storage: Storage, stored: StorageRecords, broker_id: int, *, is_alone: bool) -> None:
        self._storage = storage
        self._stored = stored
        self._broker_id = broker_id
        self._is_alone = is_alone

    async def owned(self, records: Iterable[TopicRecord]) -> list[TopicRecord]:
        """Those of these topics that this broker owns, ready to be opened. Raises MetadataError."""
        stored = await self._stored.all()
        mine = [record for record in records if self._is_own(record, stored.get(record.topic_id))]
        self._enter(mine, stored)
        return mine

    async def owned_at_start(self, records: Iterable[TopicRecord]) -> list[TopicRecord]:
        """As `owned`, when this broker has just started.

        Logs on its own disk are its own under a new epoch: an offer from before, with which another broker may be
        asleep, is void. Raises MetadataError, StorageChangedError.
        """
        known = list(records)
        for _ in range(METADATA_ATTEMPTS_MAX):
            stored = await self._stored.all(linearizable=True)
            mine = [record for record in known if self._is_own(record, stored.get(record.topic_id))]
            try:
                await self._void_offers(mine, stored)
            except StorageChangedError:  # another broker owns one of them since it was read
                continue
            await self._load(mine, stored)  # one that became its own after its storage was opened
            self._enter(mine, stored)
            return mine
        raise StorageChangedError("others change what this broker owns all the time: start it again")

    async def _void_offers(self, mine: Iterable[TopicRecord], stored: dict[int, TopicStorage]) -> None:
        if not self._is_alone:
            logs = (one for one in mine if one.strategy is DispatchStrategy.RELIABLE and not self._is_shared(one))
            await self._acquire_anew([stored[one.topic_id] for one in logs if one.topic_id in stored], stored)

    async def _acquire_anew(self, records: Sequence[TopicStorage], stored: dict[int, TopicStorage]) -> None:
        """Own these under a new epoch each, and note that in `stored`."""
        for start in range(0, len(records), STORAGE_POINTERS_MAX):
            for record in await self._stored.own(records[start : start + STORAGE_POINTERS_MAX], self._broker_id):
                stored[record.topic_id] = record

    async def acquire_new(self, records: Sequence[TopicRecord]) -> list[TopicRecord]:
        """Those of these new topics that are assigned to this broker: its own now, ready to be opened.

        Raises as `acquire`.
        """
        mine = [one for one in records if one.broker == self._broker_id]
        wanted = [one.topic_id for one in mine if self._is_shared(one)]
        acquired = await self._storage.acquire(wanted, lambda record: self._is_free(record, _nobody_is_gone))
        mine = [one for one in mine if not self._is_shared(one) or one.topic_id in acquired]
        self._enter(mine, await self._records_of([one for one in mine if not self._is_shared(one)]))
        return mine

    async def acquire(
        self, records: Sequence[TopicRecord], is_gone: Callable[[int], bool] = _nobody_is_gone
    ) -> frozenset[int]:
        """Own these topics; answers the ids of those that are this broker's now, ready to be opened.

        They are new, released, this broker's already, or of a broker that `is_gone`; by metadata as it stands now, not
        by what this broker has seen. A log on the disk of a broker that is gone stays that broker's.

        Raises StorageChangedError where another broker was faster, MetadataError, and as its storage does.
        """
        shared = [one.topic_id for one in records if self._is_shared(one)]
        others = [one for one in records if not self._is_shared(one)]
        owned = await self._acquire_by_record(others, is_gone) if others else frozenset()
        if not shared:
            return owned
        try:
            return owned | await self._storage.acquire(shared, lambda record: self._is_free(record, is_gone))
        except DanubeError as error:
            owned |= self._storage.owned & frozenset(shared)
            if not owned:
                raise
            _log.warning("some topics cannot be owned for now, %d can: %s", len(owned), error)
            return owned

    async def is_kept(self, topic_id: int) -> bool:
        """True for a log whose topic was started anew: it stays. One of a deleted topic goes. Raises MetadataError."""
        return (await self._stored.get(topic_id, linearizable=True)).revision > 0

    def forget(self, topic_id: int) -> None:
        """Drop a topic that was deleted while it was served by nobody; its files are removed by and by."""
        self._storage.forget(topic_id)

    async def abandon(self, topic_ids: Iterable[int]) -> None:
        """Remove logs on this broker's disk that have a tombstone, and copies of topics that are other brokers'.

        Raises MetadataError, StorageUnavailableError.
        """
        if self._storage.shares_logs:
            return
        gone = {*await self._stored.deleted()}
        for topic_id in topic_ids:
            stored = await self._stored.outcome(topic_id)
            if topic_id not in gone and stored.owner != self._broker_id:
                await self._storage.carry.abandon(topic_id)
        if gone:
            await self._storage.sweep_deleted()

    async def sweep_unowned(self, topics: ClusterTopics) -> None:
        """Remove copies on this broker's disk of topics that are not about to be its own, and what has a tombstone.

        Raises MetadataError, StorageUnavailableError.
        """
        if self._storage.shares_logs:
            return
        arriving = {one.topic_id for one in topics if one.broker == self._broker_id}
        await self.abandon(set(await self._storage.carry.copies()) - arriving)

    async def check_fence(self, on_fenced: Callable[[], None]) -> None:
        """Call `on_fenced` if others have taken over what this broker owned. Raises StorageUnavailableError."""
        if await self._storage.is_fenced():
            on_fenced()

    async def release(self, record: TopicRecord, stop: Stop) -> None:
        """Release a topic, so that another broker can own it; `stop` ends its service. Raises as its storage does."""
        if self._is_shared(record):
            try:
                await self._storage.release(record.topic_id, stop)
            except TopicNotServedError:  # it is in a journal of this broker from before: it has to be in the newest
                await self._storage.acquire([record.topic_id], lambda one: self._is_free(one, _nobody_is_gone))
                await self._storage.release(record.topic_id, stop)
            return
        await stop()
        stored = await self._stored.get(record.topic_id)
        if stored.owner == self._broker_id:
            await self._stored.disown(stored)

    async def _acquire_by_record(
        self, records: Collection[TopicRecord], is_gone: Callable[[int], bool]
    ) -> frozenset[int]:
        stored = await self._records_of(records)
        without_log = {one.topic_id for one in records if one.strategy is DispatchStrategy.NON_RELIABLE}
        there = [
            one
            for one in stored.values()
            if self._is_alone
            or (one.revision and self._is_free(one, is_gone if one.topic_id in without_log else _nobody_is_gone))
        ]
        await self._acquire_anew(there, stored)
        owned = frozenset(one.topic_id for one in there)
        mine = [one for one in records if one.topic_id in owned]
        await self._load(mine, stored)
        self._enter(mine, stored)
        return owned

    async def _load(self, records: Iterable[TopicRecord], stored: dict[int, TopicStorage]) -> None:
        """Load logs on this disk that came from another one, and whose arrival this broker does not know of."""
        if self._is_alone:
            return
        for record in records:
            known = stored.get(record.topic_id)
            if known is not None and known.manifest_version and not self._is_shared(record):
                await self._storage.carry.load(known)

    async def _records_of(self, records: Collection[TopicRecord]) -> dict[int, TopicStorage]:
        return {one.topic_id: one for one in await self._stored.of([each.topic_id for each in records])}

    def _enter(self, records: Iterable[TopicRecord], stored: dict[int, TopicStorage]) -> None:
        for record in records:
            if record.strategy is DispatchStrategy.RELIABLE and not self._is_shared(record):
                self._storage.enter(stored.get(record.topic_id) or TopicStorage(record.topic_id))

    def _is_free(self, stored: TopicStorage, is_gone: Callable[[int], bool]) -> bool:
        return stored.owner in {0, self._broker_id} or is_gone(stored.owner)

    def _is_shared(self, record: TopicRecord) -> bool:
        return self._storage.shares_logs and record.strategy is DispatchStrategy.RELIABLE

    def _is_own(self, record: TopicRecord, stored: TopicStorage | None) -> bool:
        if self._is_alone:
            return True
        if self._is_shared(record):
            return record.topic_id in self._storage.owned
        return ownership_of(record, stored).owner == self._broker_id

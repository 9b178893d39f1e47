"""Ownership of topics in a shared folder: acquired by takeover, lost by release or by another broker's takeover."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import (
    DanubeError,
    MetadataError,
    StorageChangedError,
    StorageUnavailableError,
    TopicNotServedError,
)
from danube.model.limits.broker import STORAGE_POINTERS_MAX, TAKEOVER_ATTEMPTS_MAX
from danube.storage.flush.manifest_lookup import base_of
from danube.storage.log.histories import TopicHistory
from danube.storage.log.topic_log import TopicLog
from danube.storage.stored_topics import StoredTopics
from danube.storage.takeover.own_journal import OwnJournal, SharedEnvironment, load_newest
from danube.storage.takeover.release import Release, Stop
from danube.storage.takeover.takeover import AcquiredTopic, Takeover

_log = logging.getLogger(__name__)

MayOwn = Callable[[TopicStorage], bool]
"""True for a topic whose owner has released it, or is gone."""


class Ownership:
    """Topics that one broker owns, in `topics.owned`."""

    def __init__(self, environment: SharedEnvironment, own: OwnJournal, topics: StoredTopics) -> None:
        self._environment = environment
        self._journal = own.journal
        self._fence = own.fence
        self._topics = topics
        self._takeover = Takeover(
            environment.disk,
            environment.records,
            own.journal,
            environment.tier_runner,
            broker_id=environment.broker_id,
            fence=own.fence,
            entry=own.entry,
        )
        self._release = Release(environment.records, own.journal, entry=own.entry)
        self._turn = asyncio.Lock()
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """By topic: one call at a time releases it, or finds out whether it was released."""
        self._acquired: set[int] = set()
        """Topics that the `acquire` under way has brought; they may be lost again."""
        self._leaving: dict[int, tuple[TopicStorage, TopicLog]] = {}
        """By topic: released, but not known to be sealed. They are not served, and the journal is kept."""
        self._unsure: dict[int, TopicStorage] = {}
        """By topic: the record that an acquisition without an answer was to change. It may still be changed."""
        self._owned = topics.owned = {history.record.topic_id for history in own.found.histories}

    async def is_fenced(self) -> bool:
        """True once this broker's journal is fenced. Raises StorageUnavailableError."""
        try:
            return await self._environment.tier_runner.run(self._fence.is_up)
        except OSError as error:
            raise StorageUnavailableError(f"the shared folder cannot be used: {error}. Check it") from error

    def epoch(self, topic_id: int) -> int:
        """Epoch of the records of an owned topic. Raises TopicNotServedError when the topic is not owned."""
        history = self._topics.histories.get(topic_id)
        if history is None or topic_id not in self._owned:
            raise TopicNotServedError(f"topic {topic_id} is not this broker's: ask its owner, or acquire it first")
        return history.record.epochs[-1].epoch

    async def named_in_own(self) -> frozenset[int]:
        """Topics whose records name this broker's journal, unknown acquisitions settled first. Raises MetadataError."""
        await self._rule_out(self._unsure.keys())
        own = self._journal.journal_id
        records = (await self._environment.records.all()).values()
        return frozenset(one.topic_id for one in records if any(epoch.journal_id == own for epoch in one.epochs))

    async def acquire(self, topic_ids: Iterable[int], may_own: MayOwn) -> frozenset[int]:
        """As `SharedStorage.acquire`."""
        async with self._turn:
            wanted = frozenset(topic_ids)
            self._acquired.clear()
            errors = await self._settle(wanted - self._topics.deleted)
            left = wanted - self._owned - self._topics.deleted - errors.keys()
            for _ in range(TAKEOVER_ATTEMPTS_MAX):
                if not left:
                    break
                left, failed = await self._try(left, may_own)
                errors |= failed
            if errors:
                raise next(iter(errors.values()))
            if left:
                raise StorageChangedError(f"topics {sorted(left)} are flushed all the time: acquire them again", left)
            return wanted & self._owned

    async def release(self, topic_id: int, stop: Stop) -> None:
        """As `SharedStorage.release`."""
        async with self._turns.setdefault(topic_id, asyncio.Lock()):
            if topic_id in self._leaving:
                await self._finish(topic_id)
                return
            epoch = self.epoch(topic_id)
            history = self._topics.histories.get(topic_id)
            assert history is not None  # noqa: S101 - `epoch` has looked
            record = history.record
            log = TopicLog(self._journal.open_topic(topic_id, epoch), self._journal)
            await self._finish_release(
                topic_id, self._release.run(record, log, stop=stop, leave=lambda: self._leave(record, log))
            )

    def _leave(self, record: TopicStorage, log: TopicLog) -> None:
        self._leaving[record.topic_id] = record, log
        self._owned.discard(record.topic_id)
        self._topics.in_transit.add(record.topic_id)

    async def _finish(self, topic_id: int) -> None:
        """Seal a topic unless it is sealed. Raises StorageChangedError, MetadataError."""
        await self._finish_release(topic_id, self._release.finish(*self._leaving[topic_id]))

    async def _finish_release(self, topic_id: int, release: Coroutine[Any, Any, TopicStorage]) -> None:
        """Drop the topic once it is certain that it was sealed, or is another broker's."""
        try:
            await release
        except StorageChangedError:
            self._topics.disown(topic_id)
            self._forget(topic_id)
            raise
        self._forget(topic_id)

    def _forget(self, topic_id: int) -> None:
        self._leaving.pop(topic_id, None)
        self._topics.in_transit.discard(topic_id)
        self._topics.histories.forget(topic_id)
        self._topics.quarantine.remove(topic_id)

    async def _settle(self, topic_ids: Collection[int]) -> dict[int, DanubeError]:
        """Find out which of these topics were released or acquired; answers those that stay unknown, and why.

        A topic that was released is acquired as by any other broker: after the epoch that is sealed by now.
        """
        errors: dict[int, DanubeError] = {}
        try:
            await self._rule_out(self._unsure.keys() & topic_ids)
        except MetadataError as error:
            errors.update(dict.fromkeys(self._unsure.keys() & topic_ids, error))
        for topic_id in self._leaving.keys() & topic_ids:
            try:
                async with self._turns.setdefault(topic_id, asyncio.Lock()):
                    if topic_id in self._leaving:
                        await self._finish(topic_id)
            except StorageChangedError as error:
                _log.info("topic %d was not released, it is another broker's: %s", topic_id, error)
            except DanubeError as error:
                errors[topic_id] = error
        return errors

    async def _try(self, topic_ids: Collection[int], may_own: MayOwn) -> tuple[frozenset[int], dict[int, DanubeError]]:
        """Acquire topics; answers those to be tried again, and the faults of the others.

        A fence goes to the journal that the judged record names: not to the one of an owner that came after it.
        """
        there = [
            record for record in await self._environment.records.of(topic_ids) if record.revision
        ]  # the others are deleted; by an old record a broker would be fenced that has released the topic
        records, found = await load_newest(self._environment, there)
        records = {topic_id: record for topic_id, record in records.items() if may_own(record)}
        found.histories[:] = [one for one in found.histories if one.record.topic_id in records]
        histories = {history.record.topic_id: history for history in found.histories}
        errors = {topic_id: error for topic_id, error in found.refused.items() if topic_id in records}
        for group in _groups([records[topic_id] for topic_id in histories]):
            errors |= await self._acquire_possible(group, histories)
        again: set[int] = set()
        left = [one for one in records.values() if one.topic_id not in self._acquired]
        for record, newest in zip(
            left, await self._environment.records.of([one.topic_id for one in left]), strict=True
        ):
            begun = [epoch for epoch in newest.epochs[-1:] if epoch not in record.epochs[-1:]]
            is_own = any(epoch.journal_id == self._journal.journal_id for epoch in begun)
            if not newest.revision or (not is_own and any(epoch.end_offset is None for epoch in begun)):
                errors.pop(record.topic_id, None)  # its owner, or a sweep, may have removed what was read
            elif newest.revision != record.revision and not is_own:  # it was flushed or released
                again.add(record.topic_id)
        return frozenset(again), {topic_id: error for topic_id, error in errors.items() if topic_id not in again}

    async def _acquire_possible(
        self, group: Sequence[TopicStorage], histories: Mapping[int, TopicHistory]
    ) -> dict[int, DanubeError]:
        """Acquire topics whose newest epoch is in one journal; answers faults by topic.

        An older journal that cannot be read stops only the topics that need it.
        """
        try:
            await self._acquire_group(group, histories)
        except DanubeError as error:
            left = [record for record in group if record.topic_id not in self._acquired]
            parts = _groups_by_older(left)
            if isinstance(error, MetadataError) or len(parts) == 1:
                return {record.topic_id: error for record in left}
            found = [await self._acquire_possible(part, histories) for part in parts]
            return {topic_id: each for errors in found for topic_id, each in errors.items()}
        return {}

    async def _acquire_group(self, group: Sequence[TopicStorage], histories: Mapping[int, TopicHistory]) -> None:
        """The journal keeps records of these topics until the attempt is known to have failed."""
        ids = [record.topic_id for record in group]
        self._topics.in_transit.update(ids)
        acquired: dict[int, AcquiredTopic] = {}
        try:
            await self._takeover.acquire(
                ids,
                {topic_id: base_of(histories[topic_id]) for topic_id in ids},
                records={record.topic_id: record for record in group},
                acquired=acquired,
            )
        except (MetadataError, asyncio.CancelledError):
            self._unsure.update((record.topic_id, record) for record in group if record.topic_id not in acquired)
            raise
        finally:
            for topic_id, one in acquired.items():
                self._enter(one, histories[topic_id])
            self._topics.in_transit.difference_update(each for each in ids if each not in self._unsure)

    async def _rule_out(self, topic_ids: Iterable[int]) -> None:
        """Void acquisitions without an answer, unless they were made. Raises MetadataError.

        The records are written unchanged, so that a late compare-and-set fails. Else the next acquisition would write
        the same offsets once more, behind the begin of the first.
        """
        left = {topic_id: self._unsure[topic_id] for topic_id in topic_ids}
        while left:
            decided = dict([*left.items()][:STORAGE_POINTERS_MAX])
            try:
                await self._environment.records.seal_all([(record, record.epochs) for record in decided.values()])
            except StorageChangedError as error:
                if not error.topic_ids:
                    raise
                decided = {each: record for each, record in decided.items() if each in error.topic_ids}
            for topic_id, record in decided.items():
                del left[topic_id]
                if self._unsure.get(topic_id) is record:
                    del self._unsure[topic_id]
                    self._topics.in_transit.discard(topic_id)

    def _enter(self, one: AcquiredTopic, history: TopicHistory) -> None:
        topic_id, topics = one.record.topic_id, self._topics
        self._acquired.add(topic_id)
        if topic_id in topics.deleted:  # meanwhile
            self._journal.forget(topic_id)
            return
        self._owned.add(topic_id)
        topics.stale.discard(topic_id)
        topics.refused.pop(topic_id, None)
        topics.quarantine.remove(topic_id)
        topics.histories.put(TopicHistory(one.record, history.manifest, one.parts))


def _groups(records: Iterable[TopicStorage]) -> list[list[TopicStorage]]:
    """Topics whose newest epoch is in the same journal: a fault of one journal stops only its topics."""
    by_journal: dict[tuple[int, bool], list[TopicStorage]] = {}
    for record in records:
        last = record.epochs[-1] if record.epochs else None
        key = (last.journal_id, last.end_offset is None) if last is not None else (0, False)
        by_journal.setdefault(key, []).append(record)
    return list(by_journal.values())


def _groups_by_older(records: Iterable[TopicStorage]) -> list[list[TopicStorage]]:
    """Topics whose older epochs are in the same journals."""
    by_journals: dict[frozenset[int], list[TopicStorage]] = {}
    for record in records:
        by_journals.setdefault(frozenset(epoch.journal_id for epoch in record.epochs[:-1]), []).append(record)
    return list(by_journals.values())

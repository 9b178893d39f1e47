"""Release of a topic by plan, so that another broker can open it without a fence. The steps are in `steps.py`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from danube.metadata.records.journals import JournalEntry
from danube.metadata.records.record_format import TopicStorage
from danube.metadata.records.storage import StorageRecords
from danube.model.errors import DanubeError, StorageChangedError, TopicNotServedError, VersionConflictError
from danube.model.limits.metadata import METADATA_ATTEMPTS_MAX
from danube.model.subscription import Cursor
from danube.storage.journal.journal import Journal
from danube.storage.log.topic_log import TopicLog
from danube.storage.takeover.epoch_history import sealed
from danube.storage.takeover.steps import PROTOCOL, Part, Protocol, Step

Stop = Callable[[], Awaitable[Mapping[int, Cursor]]]
"""Stops a topic's appends and acknowledgements, waits for those under way, and answers its cursors."""


class Release:
    """Releases topics of `journal`."""

    def __init__(
        self,
        records: StorageRecords,
        journal: Journal,
        *,
        entry: JournalEntry | None = None,
        protocol: Protocol = PROTOCOL,
    ) -> None:
        """`entry` is the journal's in metadata: once its broker starts again nothing is sealed late."""
        self._entry = entry
        self._records = records
        self._journal = journal
        self._protocol = protocol

    async def run(
        self, record: TopicStorage, log: TopicLog, *, stop: Stop, leave: Callable[[], None] = lambda: None
    ) -> TopicStorage:
        """Seal the topic at its end; answers its record, with which any broker may open it.

        `leave` is called before the topic may be sealed. From then on it is served no more, whatever is raised, also
        when this is cancelled: whether it was sealed is unknown until `finish` has found out.

        Raises:
            StorageChangedError: the topic is another broker's, and released.
            StorageUnavailableError: the journal cannot be written, or was fenced. The topic is stopped and not sealed.
            JournalFencedError: others have taken all topics of the journal over.
            TopicNotServedError: the topic is not in this journal.
            MetadataError: whether it was sealed is unknown.
        """
        last = record.epochs[-1] if record.epochs else None
        if last is None or last.journal_id != self._journal.journal_id or last.end_offset is not None:
            raise TopicNotServedError(f"topic {record.topic_id} is not in this broker's journal: ask its owner")
        return await self._walk(self._protocol[Part.RELEASE], record, log, stop, leave)

    async def finish(self, record: TopicStorage, log: TopicLog) -> TopicStorage:
        """Finish a `run` of this record and log that may have sealed the topic. Raises as `run`."""
        steps = self._protocol[Part.RELEASE]
        return await self._walk(steps[steps.index(Step.SEAL) :], record, log, _stopped, lambda: None)

    async def _walk(
        self, steps: Sequence[Step], record: TopicStorage, log: TopicLog, stop: Stop, leave: Callable[[], None]
    ) -> TopicStorage:
        cursors: Mapping[int, Cursor] = {}
        for step in steps:
            match step:
                case Step.STOP:
                    cursors = await stop()
                case Step.FLUSH:
                    await _flush(log, cursors)
                case Step.SEAL:
                    leave()
                    record = await self._seal(record, log)
                case Step.READY:
                    self._close(log)
                case _:
                    raise AssertionError(step)
        return record

    async def _seal(self, record: TopicStorage, log: TopicLog) -> TopicStorage:
        """Compare and set. The record may name a newer manifest by now, or be sealed by an attempt without answer."""
        end_offset = log.durable_end
        for _ in range(METADATA_ATTEMPTS_MAX):
            try:
                return await self._records.seal(record, sealed(record, end_offset), journal=self._entry, owner=0)
            except StorageChangedError:
                newest = await self._records.get(record.topic_id)
                if sealed(record, end_offset)[-1] in newest.epochs:
                    return newest
                if newest.epochs[-1:] != record.epochs[-1:]:
                    self._close(log)
                    raise
                record = newest
        raise VersionConflictError(f"where topic {record.topic_id} is stored changes all the time: try again")

    def _close(self, log: TopicLog) -> None:
        log.close()
        self._journal.forget(log.topic_id)


async def _stopped() -> Mapping[int, Cursor]:
    """For a topic that is stopped, and whose cursors are written."""
    return {}


async def _flush(log: TopicLog, cursors: Mapping[int, Cursor]) -> None:
    loop = asyncio.get_running_loop()
    pending: list[asyncio.Future[DanubeError | None]] = []
    for subscription_id, cursor in cursors.items():
        saved: asyncio.Future[DanubeError | None] = loop.create_future()
        log.save_cursor(subscription_id, cursor, saved.set_result)
        pending.append(saved)
    if pending:
        await asyncio.wait(pending)  # a cancelled waiter cancels none of them
    for saved in pending:
        if (error := saved.result()) is not None:
            raise error

"""Letting go of a topic by plan, so that another broker can open it without a fence. The steps are the table's."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from danube.metadata.record_format import TopicStorage
from danube.metadata.storage_records import StorageRecords
from danube.model.errors import DanubeError, StorageChangedError, TopicNotServedError
from danube.model.metadata_limits import METADATA_ATTEMPTS_MAX
from danube.model.subscription import Cursor
from danube.storage.handover.history import sealed
from danube.storage.handover.steps import PROTOCOL, Part, Protocol, Step
from danube.storage.journal.journal import Journal
from danube.storage.log import BatchLog


class Giver:
    """Gives topics of `journal` away."""

    def __init__(self, records: StorageRecords, journal: Journal, *, protocol: Protocol = PROTOCOL) -> None:
        self._records = records
        self._journal = journal
        self._protocol = protocol

    async def give(
        self, record: TopicStorage, log: BatchLog, *, stop: Callable[[], Awaitable[Mapping[int, Cursor]]]
    ) -> TopicStorage:
        """Seal the topic where it ends; answers its record, which anybody may open now.

        `stop` has the topic take no appends and no acknowledgements any more, waits for those under way, and answers
        where its subscriptions stand.

        Raises:
            StorageChangedError: the topic is somebody else's: stop serving it.
            StorageUnavailableError: the journal cannot be written, or was fenced. The topic is stopped and not sealed.
            TopicNotServedError: the topic is not in this journal.
        """
        last = record.epochs[-1] if record.epochs else None
        if last is None or last.journal_id != self._journal.journal_id or last.end_offset is not None:
            raise TopicNotServedError(f"topic {record.topic_id} is not in this broker's journal: ask its owner")
        cursors: Mapping[int, Cursor] = {}
        for step in self._protocol[Part.GIVE]:
            match step:
                case Step.STOP:
                    cursors = await stop()
                case Step.FLUSH:
                    await _flush(log, cursors)
                case Step.SEAL:
                    record = await self._seal(record, log.durable_end)
                case Step.READY:
                    log.close()
                    self._journal.release(record.topic_id)
                case _:
                    raise AssertionError(step)
        return record

    async def _seal(self, record: TopicStorage, end_offset: int) -> TopicStorage:
        """Compare and set; a manifest of the topic may have been named meanwhile, by this broker's own cut."""
        for _ in range(METADATA_ATTEMPTS_MAX):
            try:
                return await self._records.seal(record, sealed(record, end_offset))
            except StorageChangedError:
                newest = await self._records.get(record.topic_id)
                if newest.epochs[-1:] != record.epochs[-1:]:
                    raise
                record = newest
        raise StorageChangedError(f"where topic {record.topic_id} is stored changes all the time: try again")


async def _flush(log: BatchLog, cursors: Mapping[int, Cursor]) -> None:
    loop = asyncio.get_running_loop()
    pending: list[asyncio.Future[DanubeError | None]] = []
    for subscription_id, cursor in cursors.items():
        saved: asyncio.Future[DanubeError | None] = loop.create_future()
        log.save_cursor(subscription_id, cursor, saved.set_result)
        pending.append(saved)
    for error in await asyncio.gather(*pending):
        if error is not None:
            raise error

"""Creation of a subscription: its cursor first, durably, then its record. A failure leaves nothing behind."""

import logging

from danube.broker.subscriptions.subscription import AnySubscription
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription_policies import clear_pending
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import Records, SubscriptionRecord
from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import (
    AlreadyExistsError,
    DanubeError,
    InvalidRequestError,
    OffsetTrimmedError,
    StorageError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from danube.model.subscription import Cursor, SubscriptionType
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng
from danube.runtime.tasks import outcome_of
from danube.storage.log.topic_log import TopicLog

_log = logging.getLogger(__name__)


class NewSubscriptions:
    """Creates subscriptions of this broker's topics. The caller holds the topic's `changing`."""

    def __init__(self, topics: Topics, records: Records, *, clock: Clock, rng: Rng) -> None:
        self._topics = topics
        self._records = records
        self._clock = clock
        self._rng = rng

    async def create(self, topic: AnyTopic, name: str, kind: SubscriptionType, offset: int) -> AnySubscription:
        """Create a subscription at `offset`, durably, and serve it. A non-reliable topic ignores `offset`.

        Raises AlreadyExistsError for one that the metadata has and this broker does not serve, because the answer to
        its creation was lost; it is served from then on. Raises the journal's errors and MetadataError.
        """
        subscription_id = self._rng.new_id()
        if not isinstance(topic, ReliableTopic):
            return self._topics.open_subscription(topic, await self._record(topic, name, kind, subscription_id))
        with topic.claim(offset):
            try:
                await save_cursor(topic.log, subscription_id, Cursor(offset))
                record = await self._record(topic, name, kind, subscription_id)
            except UnknownOutcomeError:  # it may exist, with this cursor
                raise
            except DanubeError:  # kept, such cursors would outgrow a manifest one day
                topic.log.forget_cursor(subscription_id)
                raise
            return self._topics.open_subscription(topic, record)

    async def _record(
        self, topic: AnyTopic, name: str, kind: SubscriptionType, subscription_id: int
    ) -> SubscriptionRecord:
        try:
            record = await self._records.create_subscription(
                topic.record.name, name, kind, subscription_id, self._clock.now_ms()
            )
            clear_pending(topic, name)
            return record
        except AlreadyExistsError:
            found = await self._records.subscription(topic.record.name, name)
            if found is not None:
                self._topics.open_subscription(topic, found)
            raise


async def save_cursor(log: TopicLog, subscription_id: int, cursor: Cursor) -> None:
    """Return once the cursor is durable. Raises the journal's error."""
    await outcome_of(lambda saved: log.save_cursor(subscription_id, cursor, saved))


async def offset_of(start: FetchStart, log: TopicLog) -> int:
    """The offset that a start means.

    Raises InvalidRequestError for one that the log does not have, OffsetTrimmedError for one that was trimmed, and for
    a time StorageUnavailableError.
    """
    found = await _find_time(log, start.append_time_ms) if isinstance(start, FetchTime) else 0
    first, end = log.start_offset, log.durable_end
    match start:
        case FetchFrom.EARLIEST:
            return first
        case FetchFrom.LATEST:
            return end
        case FetchTime():
            return min(max(first, found), end)
        case int(offset) if first <= offset <= end:
            return offset
        case int(offset) if 0 <= offset < first:
            raise OffsetTrimmedError(
                f"offset {offset} is gone, retention has let go of it: use {first} to {end}, or earliest", first
            )
        case int(offset):
            raise InvalidRequestError(
                f"offset {offset} cannot be: use {first} to {end}, which is after the last message"
            )


async def _find_time(log: TopicLog, append_time_ms: int) -> int:
    try:
        return await log.offset_at(append_time_ms)
    except StorageError as error:
        _log.error("cannot look for a time in topic id %d: %s", log.topic_id, error)
        raise StorageUnavailableError("stored messages cannot be read; the broker's log says why") from error

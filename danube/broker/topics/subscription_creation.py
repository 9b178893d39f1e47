"""Creation of a subscription: its cursor first, durably, then its record. A failure leaves nothing behind."""

from danube.broker.policy.subscription_policies import clear_pending
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription import AnySubscription
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import Records, SubscriptionRecord
from danube.model.errors import AlreadyExistsError, DanubeError, UnknownOutcomeError
from danube.model.subscription import Cursor, SubscriptionType
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng
from danube.runtime.tasks import outcome_of
from danube.storage.log.protocol import TopicLog


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

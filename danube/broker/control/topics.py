"""Topics, for administrators: create, delete, list, describe."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from danube.broker.clients.moves import Moves
from danube.broker.control.brokers import BrokerControl
from danube.broker.control.namespaces import NamespaceControl
from danube.broker.schemas.versions import SchemaVersions
from danube.broker.telemetry.system_topics import refuse_at_once, refuse_creating
from danube.broker.topics.drain import Cause
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic
from danube.metadata.records.catalog import ExtraWrites, SubscriptionRecord, TopicRecord
from danube.model.calls.admin import CreatePartitionedTopic, CreateTopic, TopicDetails, TopicInfo
from danube.model.calls.client import SchemaReference
from danube.model.calls.schemas import SchemaAnswer
from danube.model.errors import NotFoundError, PreconditionFailedError, TopicNotFoundError
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.topic import DispatchStrategy, TopicName


class TopicControl:
    """Topics: those of the whole cluster are listed, those of this broker can be changed."""

    def __init__(
        self,
        topics: Topics,
        moves: Moves,
        *,
        namespaces: NamespaceControl,
        brokers: BrokerControl,
        schemas: SchemaVersions,
        latest_schema: Callable[[str], Awaitable[SchemaAnswer]],
    ) -> None:
        """`latest_schema` answers the latest version of a subject, or raises NotFoundError."""
        self._topics = topics
        self._moves = moves
        self._namespaces = namespaces
        self._brokers = brokers
        self._schemas = schemas
        self._latest_schema = latest_schema

    async def create(self, wanted: CreateTopic) -> None:
        """Create a plain topic.

        Raises NamespaceNotFoundError, TopicExistsError, LimitReachedError, and NotPermittedError for a system topic.
        """
        refuse_creating(wanted.topic)
        await self._require_subject(wanted.schema_subject)
        await self._topics.create(wanted.topic, wanted.strategy, wanted.schema_subject)

    async def create_partitioned(self, wanted: CreatePartitionedTopic) -> None:
        """Create all partitions of a topic or none. Raises as `create`."""
        refuse_creating(wanted.base)
        await self._require_subject(wanted.schema_subject)
        await self._topics.create_partitioned(wanted.base, wanted.partitions, wanted.strategy, wanted.schema_subject)

    async def _require_subject(self, subject: str | None) -> None:
        if subject is not None:
            await self._schemas.require(SchemaReference(subject=subject))

    def deletable(self, name: TopicName) -> tuple[list[AnyTopic], list[TopicRecord]]:
        """The topics that `delete` would delete now: those of this broker, and those of others. Raises as it does."""
        records = self._topics.records_behind(name)
        if (base := records[0].base) is not None and records[0].name == name:
            raise PreconditionFailedError(
                f"Cannot delete individual partition {name}: delete {base}, which deletes all its partitions"
            )
        if name.is_of(AUDIT_TOPIC) and records[0].strategy is DispatchStrategy.RELIABLE:
            raise PreconditionFailedError(f"{name} is the audit log, and the audit log stays: read it, and let it be")
        found = [topic for one in records if (topic := self._topics.find(str(one.name))) is not None]
        return found, [one for one in records if self._topics.find(str(one.name)) is None]

    async def subscriptions_elsewhere(self, record: TopicRecord) -> list[SubscriptionRecord]:
        """Subscriptions of a topic that another broker serves, by name. Raises MetadataError."""
        return await self._topics.remote_subscriptions(record.name)

    async def delete(self, name: TopicName, *, extra_writes: ExtraWrites | None = None) -> None:
        """Delete a topic with its subscriptions and messages, or all partitions of a base name: all or none.

        It drains the clients without waiting for them (`Moves.drain_clients`); `extra_writes` goes into the same
        transaction. Raises TopicNotFoundError, TopicNotServedError, what `extra_writes` raises, and
        PreconditionFailedError for a single partition, for the audit log, and without a plan for any system topic.
        """
        self.deletable(name)
        if extra_writes is None:
            refuse_at_once(name, "delete_topic")
        try:
            deleted = await self._topics.delete(name, extra_writes=extra_writes)
        except TopicNotFoundError:  # the metadata has it no more: the answer to who deleted it got lost
            self._moves.drain_clients(await self._topics.forget_deleted(name), Cause.DELETED)
            raise
        self._moves.drain_clients(deleted, Cause.DELETED)

    async def in_namespace(self, namespace: str) -> list[TopicInfo]:
        """The topics of a namespace, sorted by name. Raises NamespaceNotFoundError."""
        await self._namespaces.require(namespace)
        return self._infos(record for record in self._topics.records() if record.name.namespace == namespace)

    def on_broker(self, broker_id: str) -> list[TopicInfo]:
        """The topics of a broker, sorted by name. Raises NotFoundError for an unknown broker."""
        self._brokers.require(broker_id)
        return self._infos(record for record in self._topics.records() if self._server(record) == broker_id)

    async def describe(self, name: TopicName) -> TopicDetails:
        """One plain topic or one partition. Raises TopicNotFoundError; for a base name it names the partitions."""
        record = self._topics.find_remote(name)
        if record is not None:
            names = [one.name for one in await self._topics.remote_subscriptions(name)]
        else:
            topic = served_topic(self._topics, name)
            record, names = topic.record, sorted(topic.subscriptions)
        details = TopicDetails(
            info=self._info(record), subscriptions=tuple(names), schema_subject=record.schema_subject
        )
        return details if record.schema_subject is None else await self._with_schema(details, record.schema_subject)

    async def _with_schema(self, details: TopicDetails, subject: str) -> TopicDetails:
        try:
            latest = await self._latest_schema(subject)
        except NotFoundError:  # all its versions are deleted
            return details
        return replace(
            details,
            schema_id=latest.schema_id,
            schema_version=latest.version,
            schema_type=latest.schema_type,
            compatibility_mode=latest.compatibility_mode.upper(),
        )

    def _infos(self, records: Iterable[TopicRecord]) -> list[TopicInfo]:
        return [self._info(record) for record in sorted(records, key=lambda record: record.name)]

    def _info(self, record: TopicRecord) -> TopicInfo:
        return TopicInfo(
            topic=record.name, broker_id=self._server(record), strategy=record.strategy, is_plain=record.is_plain
        )

    def _server(self, record: TopicRecord) -> str | None:
        """The id of the broker that serves a topic."""
        if self._topics.find_remote(record.name) is None:
            return self._brokers.own_id
        return self._topics.owner_id(record)


def served_topic(topics: Topics, name: TopicName) -> AnyTopic:
    """The topic of exactly this name.

    Raises TopicNotFoundError, which names the partitions of a base name, and TopicNotServedError.
    """
    topic = topics.find(str(name))
    if topic is not None:
        return topic
    topics.refuse_remote(name)
    partitions = topics.matching(name)
    if partitions:
        raise TopicNotFoundError(f"{name} is partitioned: name a partition, from {partitions[0]} to {partitions[-1]}")
    raise TopicNotFoundError(f"there is no topic {name}: list the topics of its namespace to see their names")

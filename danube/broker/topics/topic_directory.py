"""Directory of topics by name: those that this broker serves, and those of other brokers of the cluster."""

from collections.abc import Iterator

from danube.broker.ownership.cluster_topics import ClusterTopics
from danube.broker.topics.topic import AnyTopic
from danube.metadata.records.catalog import Records, SubscriptionRecord, TopicRecord
from danube.metadata.records.cluster import BrokerRegistration
from danube.model.errors import (
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.topic import TopicName


class TopicDirectory:
    """Finds topics by name."""

    def __init__(self, records: Records, cluster: ClusterTopics | None) -> None:
        self._records = records
        self._cluster = ClusterTopics() if cluster is None else cluster
        self._topics: dict[str, AnyTopic] = {}
        self._unloaded: dict[str, TopicRecord] = {}
        """Topics that were unloaded here and not opened again."""

    def __iter__(self) -> Iterator[AnyTopic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def find(self, name: str) -> AnyTopic | None:
        """The topic of this name; None if this broker does not serve it."""
        return self._topics.get(name)

    def get(self, name: TopicName) -> AnyTopic:
        """The topic of this name. Raises TopicNotFoundError, and TopicNotServedError for an unloaded one."""
        topic = self._topics.get(str(name))
        if topic is None:
            self.refuse_remote(name)
            raise TopicNotFoundError(f"there is no topic {name}: create it, or connect a producer to it first")
        return topic

    @property
    def is_of_cluster(self) -> bool:
        """True if other brokers may serve topics that are not seen here yet."""
        return self._cluster.is_cluster

    def records(self) -> Iterator[TopicRecord]:
        """The topics of the whole cluster."""
        yield from (topic.record for topic in self)
        yield from (record for record in self._cluster if str(record.name) not in self._topics)

    def find_remote(self, name: TopicName) -> TopicRecord | None:
        """The topic of this name; None if this broker serves it, or there is none."""
        return None if str(name) in self._topics else self._cluster.find(str(name))

    def server_of(self, record: TopicRecord) -> BrokerRegistration | None:
        """The other broker that serves a topic; None for a topic of this one.

        Raises TopicNotServedError while no broker does.
        """
        return None if str(record.name) in self._topics else self._cluster.server_of(record)

    def owner_of(self, record: TopicRecord) -> int:
        """The broker that owns a topic of the cluster, whether it runs or not; 0 while none does."""
        return self._cluster.ownership(record).owner

    def owner_id(self, record: TopicRecord) -> str | None:
        """Owner of a topic, as every face tells it: decimal digits; None for nobody."""
        return str(owner) if (owner := self.owner_of(record)) else None

    def is_leaving(self, record: TopicRecord) -> bool:
        """True for a topic of this broker that is assigned to another one."""
        known = self._cluster.find(str(record.name))
        return known is not None and known.topic_id == record.topic_id and known.broker != self._cluster.own_id

    @property
    def cluster(self) -> ClusterTopics:
        """The topics of all brokers."""
        return self._cluster

    async def remote_subscriptions(self, name: TopicName) -> list[SubscriptionRecord]:
        """The subscriptions of a topic that another broker serves, by name."""
        return sorted(await self._records.subscriptions_of(name), key=lambda one: one.name)

    def is_plain(self, name: str) -> bool:
        """True for a topic that is no partition, though its name has the form of one."""
        topic = self._topics.get(name)
        record = topic.record if topic is not None else self._cluster.find(name)
        return record is not None and record.is_plain

    def is_unloaded(self, name: TopicName) -> bool:
        """True if the topic was unloaded here and not opened again."""
        return str(name) in self._unloaded

    def refuse_remote(self, name: TopicName) -> None:
        """Raise TopicNotServedError for a topic that another broker serves, or that was unloaded here."""
        record = self.find_remote(name)
        if record is not None:
            raise self._cluster.refusal(record)
        if str(name) in self._unloaded:
            raise TopicNotServedError(f"{name} is not served here at the moment: look it up again and retry")

    async def refuse_new_remote(self, name: TopicName) -> None:
        """Raise TopicNotServedError for a topic of another broker that is too new to be seen here."""
        record = await self._records.topic(name, linearizable=True)
        if record is not None and self._cluster.is_cluster and self.find(str(name)) is None:
            raise self._cluster.refusal(record)

    def matching(self, name: TopicName) -> list[TopicName]:
        """The topic itself if it exists, else the partitions of this base name; topics of other brokers too. Sorted."""
        if str(name) in self._topics or str(name) in self._unloaded or self._cluster.find(str(name)):
            return [name]
        partitions = {topic.record.name for topic in self if topic.record.base == name}
        partitions |= {record.name for record in self._unloaded.values() if record.base == name}
        partitions |= set(self._cluster.partitions_of(name))
        return sorted(partitions, key=lambda partition: partition.partition_index or 0)

    async def of_cluster(self, name: TopicName) -> list[TopicRecord]:
        """As `matching`, but linearizable: it finds topics that another broker created a moment ago.

        Costs a round of agreement. Raises MetadataError when this broker is cut off from the others.
        """
        record = await self._records.topic(name, linearizable=True)
        return [record] if record else await self._records.partitions_of(name)

    def behind(self, name: TopicName) -> list[AnyTopic]:
        """The topic itself, or all partitions of a base name in order. Raises TopicNotFoundError."""
        names = self.matching(name)
        if not names:
            raise TopicNotFoundError(f"there is no topic {name}: list the topics of its namespace to see their names")
        return [self.get(each) for each in names]

    def records_behind(self, name: TopicName) -> list[TopicRecord]:
        """As `behind`, whichever brokers serve them. Raises TopicNotServedError for one that was unloaded alone."""
        return [self.find_remote(each) or self.get(each).record for each in self.matching(name) or [name]]

    def in_namespace(self, namespace: str) -> list[TopicRecord]:
        """All topics of a namespace, whichever brokers serve them. As `records_behind`."""
        for record in self._unloaded.values():
            if record.name.namespace == namespace and self._cluster.find(str(record.name)) is None:
                self.refuse_remote(record.name)
        return [record for record in self.records() if record.name.namespace == namespace]

    @property
    def unloaded(self) -> list[TopicName]:
        """Topics that were unloaded here, and that this broker has not seen at another one."""
        return [record.name for record in self._unloaded.values()]

    def forget_unloaded(self, name: TopicName) -> None:
        """Another broker serves an unloaded topic, or it is deleted."""
        self._unloaded.pop(str(name), None)

"""Creating, deleting and listing topics for administrators."""

from danube.broker.consumers import Consumers
from danube.broker.producers import Producers
from danube.broker.topics import Topics
from danube.model.calls import CreatePartitionedTopic, CreateTopic, TopicInfo
from danube.model.errors import PreconditionFailedError
from danube.model.topic import TopicName


class TopicControl:
    """What administrators do with topics on this broker."""

    def __init__(self, topics: Topics, producers: Producers, consumers: Consumers, *, broker_id: int) -> None:
        self._topics = topics
        self._producers = producers
        self._consumers = consumers
        self._broker_id = str(broker_id)

    async def create(self, wanted: CreateTopic) -> None:
        """Create a plain topic. Raises NamespaceNotFoundError, TopicExistsError, LimitReachedError."""
        _refuse_schema(wanted.schema_subject)
        await self._topics.create(wanted.topic, wanted.strategy, wanted.schema_subject)

    async def create_partitioned(self, wanted: CreatePartitionedTopic) -> None:
        """Create all partitions of a topic or none. Raises as `create`."""
        _refuse_schema(wanted.schema_subject)
        await self._topics.create_partitioned(wanted.base, wanted.partitions, wanted.strategy, wanted.schema_subject)

    async def delete(self, name: TopicName) -> None:
        """Delete a topic with its subscriptions and messages, or all partitions of a base name.

        Its consumers' streams end with OK. Raises TopicNotFoundError; PreconditionFailedError for a single partition.
        """
        if name.base is not None and self._topics.find(str(name)) is not None:
            raise PreconditionFailedError(
                f"{name} is one partition of {name.base}: delete {name.base}, which deletes all its partitions"
            )
        for topic in await self._topics.delete(name):
            self._producers.topic_closed(topic)
            self._consumers.topic_closed(topic, None)

    def list(self, namespace: str) -> list[TopicInfo]:
        """The topics of a namespace, sorted by name."""
        return [
            TopicInfo(topic=topic.record.name, broker_id=self._broker_id, strategy=topic.record.strategy)
            for topic in sorted(self._topics, key=lambda topic: topic.record.name)
            if topic.record.name.namespace == namespace
        ]


def _refuse_schema(subject: str | None) -> None:
    if subject is not None:
        raise PreconditionFailedError(
            f"schema subject {subject!r} is not registered: this version has no schema registry yet; "
            "create the topic without a schema"
        )

"""Namespaces, for administrators."""

from danube.broker.topics.local_topics import Topics
from danube.metadata.records.catalog import ExtraWrites, Records
from danube.model.calls.admin import NamespacePolicies
from danube.model.errors import NamespaceNotFoundError, PreconditionFailedError
from danube.model.topic import BUILT_IN_NAMESPACES, TopicName


class NamespaceControl:
    """Namespaces: list, create, delete."""

    def __init__(self, records: Records, topics: Topics) -> None:
        self._records = records
        self._topics = topics

    async def names(self) -> list[str]:
        """Every namespace once, sorted by name."""
        return sorted(record.name for record in await self._records.namespaces())

    async def require(self, name: str) -> None:
        """Raise NamespaceNotFoundError unless it exists."""
        if not await self._records.namespace_exists(name):
            raise NamespaceNotFoundError(f"there is no namespace {name!r}: list the namespaces to see their names")

    async def topics(self, name: str) -> list[TopicName]:
        """The topics of a namespace, sorted. Raises NamespaceNotFoundError."""
        await self.require(name)
        return sorted(record.name for record in await self._records.topics_of(name))

    async def policies(self, name: str) -> NamespacePolicies:
        """The limits of a namespace, in the original's words. Raises NamespaceNotFoundError."""
        await self.require(name)
        limits = self._topics.limits_of(name)
        return NamespacePolicies(
            max_producers_per_topic=limits.max_producers_per_topic,
            max_subscriptions_per_topic=limits.max_subscriptions_per_topic,
            max_consumers_per_topic=limits.max_consumers_per_topic,
            max_consumers_per_subscription=limits.max_consumers_per_subscription,
            max_publish_rate=limits.max_publish_rate,
            max_subscription_dispatch_rate=limits.max_subscription_dispatch_rate,
            max_message_size=limits.message_bytes_max,
        )

    async def create(self, name: str) -> None:
        """Create a namespace. Raises AlreadyExistsError."""
        await self._records.create_namespace(name)
        self._topics.forget_namespace(name)

    async def delete(self, name: str, *, extra_writes: ExtraWrites | None = None) -> None:
        """Delete an empty namespace; one from `bootstrap_namespaces` is created again at the next start.

        `extra_writes` goes into the same transaction. Raises NamespaceNotFoundError, what `extra_writes` raises, and
        PreconditionFailedError for a namespace with topics, and for a built-in one.
        """
        _refuse_built_in(name)
        await self._records.delete_namespace(name, extra_writes=extra_writes)
        self._topics.forget_namespace(name)

    async def deletable(self, name: str) -> int:
        """The revision that created the namespace that `delete` would delete now. Raises as `delete`."""
        _refuse_built_in(name)
        return await self._records.empty_namespace(name)


def _refuse_built_in(name: str) -> None:
    if name in BUILT_IN_NAMESPACES:
        raise PreconditionFailedError(f"namespace {name!r} is built in and stays: delete the topics in it instead")

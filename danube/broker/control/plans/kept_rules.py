"""Rules of how reliable topics keep their messages, which a plan alone changes: whose they are, and changing them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import ExtraWrites, Records
from danube.model.errors import PreconditionFailedError
from danube.model.policies import Limits, Policies, PolicyChange
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.topic import TopicName

E = TypeVar("E")
"""What a change means for one topic, at this moment."""

_TOPICS_PER_TURN = 100


class KeptTopics(ABC, Generic[E]):
    """The topics and namespaces of this broker that have a rule of one kind; the audit log has none of any kind."""

    def __init__(self, topics: Topics, records: Records, rule: str) -> None:
        """`rule` is what the kind is called."""
        self._topics = topics
        self._records = records
        self.rule = rule

    def of(self, name: TopicName) -> list[ReliableTopic]:
        """A topic, or the partitions of a base name.

        Raises TopicNotFoundError, TopicNotServedError, and PreconditionFailedError for the audit log and for a topic
        that keeps no messages.
        """
        kept = [topic for topic in self._topics.behind(name) if isinstance(topic, ReliableTopic)]
        if not kept:
            raise PreconditionFailedError(f"{name} is not reliable: it keeps no messages, and has no {self.rule}")
        if name.is_of(AUDIT_TOPIC):
            raise PreconditionFailedError(
                f"{name} is the audit log, which stays as it is: it has no {self.rule} to set"
            )
        return kept

    def in_namespace(self, namespace: str) -> list[ReliableTopic]:
        """All of a namespace, by name. Raises TopicNotServedError when one of its topics is not served here."""
        return [topic for topic in self._topics.in_namespace(namespace) if isinstance(topic, ReliableTopic)]

    def own_policies(self, name: TopicName) -> list[Policies]:
        """What a topic, or each partition of a base name, sets itself. Raises as `of`."""
        return [topic.record.policies for topic in self.of(name)]

    async def namespace_policies(self, namespace: str) -> Policies:
        """What a namespace sets itself. Raises NamespaceNotFoundError, and PreconditionFailedError for `system`."""
        self._refuse_system(namespace)
        return (await self._records.namespace(namespace)).policies

    async def topic_effects(self, name: TopicName, change: PolicyChange) -> list[E]:
        """What `set_topic` would do now: of each topic, or partition, that is kept otherwise then.

        Raises as `of`, and what cannot be said of a topic.
        """
        found = self.of(name)
        return await self._effects(
            (topic, self._topics.limits_with(topic, own=change.applied_to(topic.record.policies))) for topic in found
        )

    async def namespace_effects(self, namespace: str, change: PolicyChange) -> list[E]:
        """The same for `set_namespace`. Raises as `namespace_policies` and `in_namespace`, and as `topic_effects`."""
        after = change.applied_to(await self.namespace_policies(namespace))
        kept = self.in_namespace(namespace)
        return await self._effects((topic, self._topics.limits_with(topic, of_namespace=after)) for topic in kept)

    async def set_topic(self, name: TopicName, change: PolicyChange, extra_writes: ExtraWrites) -> None:
        """Change the rule of a topic, or of all partitions of a base name, and `extra_writes` in the same transaction.

        Raises as `of`, and what `extra_writes` raises.
        """
        self.of(name)
        await self._topics.change_topic_policies(name, change, extra_writes=extra_writes)

    async def set_namespace(self, namespace: str, change: PolicyChange, extra_writes: ExtraWrites) -> None:
        """The same of a namespace. Raises as `namespace_policies`, and what `extra_writes` raises."""
        self._refuse_system(namespace)
        await self._topics.change_namespace_policies(namespace, change, extra_writes=extra_writes)

    @abstractmethod
    def _effect(self, topic: ReliableTopic, after: Limits) -> E | None:
        """What these limits would mean for a topic; None when it is kept as before."""

    async def _effects(self, wanted: Iterable[tuple[ReliableTopic, Limits]]) -> list[E]:
        found = []
        for number, (topic, after) in enumerate(wanted):
            if number % _TOPICS_PER_TURN == 0:
                await asyncio.sleep(0)  # a namespace may have very many of them, and others are served meanwhile
            effect = self._effect(topic, after)
            if effect is not None:
                found.append(effect)
        return found

    def _refuse_system(self, namespace: str) -> None:
        if namespace == AUDIT_TOPIC.namespace:
            raise PreconditionFailedError(
                f"namespace {namespace!r} has the audit log, which stays: set the {self.rule} of another topic in it"
            )

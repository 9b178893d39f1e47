"""How long topics keep their messages: what a change would take from them, and making it."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from danube.broker.control.positions import unread_before
from danube.broker.retention import oldest_unread, retention_of
from danube.broker.subscription import ReliableSubscription
from danube.broker.topic import AnyTopic, ReliableTopic
from danube.broker.topics import Topics
from danube.metadata.records import Also, Records
from danube.model.audit import AUDIT_TOPIC
from danube.model.errors import PreconditionFailedError
from danube.model.policies import RETENTION_NAMES, Limits, Policies, PolicyChange
from danube.model.topic import TopicName
from danube.storage.segment.retention import Going
from danube.storage.store import Storage

_TOPICS_PER_TURN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionEffect:
    """What a change means for one topic, at this moment."""

    topic: ReliableTopic
    before: Limits
    after: Limits
    going: Going
    unread: Mapping[str, int]
    """Of what goes: how many messages the subscriptions have not acknowledged that lose some, by their names."""

    @property
    def messages(self) -> int:
        """That go, at once or soon."""
        return self.going.messages + self.going.later_messages

    @property
    def body_bytes(self) -> int:
        """Of them."""
        return self.going.body_bytes + self.going.later_bytes


class RetentionControl:
    """What administrators do, by a plan alone, with the retention of this broker's topics."""

    def __init__(self, topics: Topics, storage: Storage, records: Records) -> None:
        self._topics = topics
        self._storage = storage
        self._records = records

    async def topic_effects(self, name: TopicName, change: PolicyChange) -> list[RetentionEffect]:
        """What `set_topic` would do now: of each topic, or partition, whose retention becomes another one.

        Raises:
            TopicNotFoundError.
            TopicNotServedError, StorageUnavailableError: of a topic it cannot be said.
            PreconditionFailedError: the topic keeps no messages, or is the audit log.
        """
        found = self._retained(name)
        return await self._effects(
            (topic, self._topics.limits_with(topic, own=change.applied_to(topic.record.policies))) for topic in found
        )

    async def set_topic(self, name: TopicName, change: PolicyChange, also: Also) -> None:
        """Change the retention of a topic, or of all partitions of a base name, and `also` in the same transaction.

        Raises as `topic_effects`, and what `also` raises.
        """
        self._retained(name)
        await self._topics.change_topic_policies(name, change, also=also)

    async def namespace_effects(self, namespace: str, change: PolicyChange) -> list[RetentionEffect]:
        """The same for `set_namespace`. Raises NamespaceNotFoundError, and as `topic_effects`."""
        after = change.applied_to(await self.namespace_policies(namespace))
        kept = [topic for topic in self._topics.in_namespace(namespace) if isinstance(topic, ReliableTopic)]
        return await self._effects((topic, self._topics.limits_with(topic, of_namespace=after)) for topic in kept)

    async def set_namespace(self, namespace: str, change: PolicyChange, also: Also) -> None:
        """Change the retention of a namespace, and `also` in the same transaction. Raises as `namespace_effects`."""
        _refuse_system(namespace)
        await self._topics.change_namespace_policies(namespace, change, also=also)

    async def namespace_policies(self, namespace: str) -> Policies:
        """What a namespace sets itself. Raises NamespaceNotFoundError, and PreconditionFailedError for `system`."""
        _refuse_system(namespace)
        return (await self._records.namespace(namespace)).policies

    def own_policies(self, name: TopicName) -> list[Policies]:
        """What a topic, or each partition of a base name, sets itself. Raises as `topic_effects`."""
        return [topic.record.policies for topic in self._retained(name)]

    def _retained(self, name: TopicName) -> list[ReliableTopic]:
        found = self._topics.behind(name)
        kept = [topic for topic in found if isinstance(topic, ReliableTopic)]
        if not kept:
            raise PreconditionFailedError(f"{name} is not reliable: it keeps no messages, and has no retention")
        if name.is_of(AUDIT_TOPIC):
            raise PreconditionFailedError(f"{name} is the audit log, and the audit log stays: it has no retention")
        return kept

    async def _effects(self, wanted: Iterable[tuple[ReliableTopic, Limits]]) -> list[RetentionEffect]:
        found = []
        for number, (topic, after) in enumerate(wanted):
            if number % _TOPICS_PER_TURN == 0:
                await asyncio.sleep(0)  # a namespace may have very many of them, and others are served meanwhile
            if retention_values(topic.limits) != retention_values(after):
                found.append(self._effect(topic, after))
        return found

    def _effect(self, topic: ReliableTopic, after: Limits) -> RetentionEffect:
        topic.check_open()
        going = self._storage.going(topic.record.topic_id, retention_of(after), oldest_unread(topic))
        return RetentionEffect(
            topic=topic, before=topic.limits, after=after, going=going, unread=_unread(topic, going.end_offset)
        )


def retention_values(limits: Limits | Policies) -> list[int | None]:
    """The limits that are retention, in a fixed order."""
    return [getattr(limits, name) for name in RETENTION_NAMES]


def _unread(topic: AnyTopic, end_offset: int) -> dict[str, int]:
    readers = sorted(topic.subscriptions.items())
    unread = {name: unread_before(one, end_offset) for name, one in readers if isinstance(one, ReliableSubscription)}
    return {name: messages for name, messages in unread.items() if messages}


def _refuse_system(namespace: str) -> None:
    if namespace == AUDIT_TOPIC.namespace:
        raise PreconditionFailedError(
            f"namespace {namespace!r} has the audit log, which stays: set the retention of another topic in it"
        )

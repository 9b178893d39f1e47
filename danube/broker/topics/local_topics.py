"""The topics that this broker serves: lookup by name, creation, deletion, limits, and opening after a restart."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

from danube.broker.dispatch.driver import DispatchSettings
from danube.broker.dispatch.events import DeadLetter, Event
from danube.broker.ownership.cluster_topics import ClusterTopics
from danube.broker.ownership.owner import TopicOwner
from danube.broker.schemas.gate import SchemaGate
from danube.broker.subscriptions.subscription import AnySubscription, NonReliableSubscription, ReliableSubscription
from danube.broker.topics.drain import Cause, ClientDrain
from danube.broker.topics.subscription_policies import Inheritance, inheritance
from danube.broker.topics.topic import AnyTopic, NonReliableTopic, ReliableTopic
from danube.broker.topics.topic_directory import TopicDirectory
from danube.metadata.records.catalog import ExtraWrites, NamespaceRecord, Records, SubscriptionRecord, TopicRecord
from danube.model.errors import (
    DanubeError,
    LimitReachedError,
    TopicExistsError,
    TopicNotFoundError,
    UnknownOutcomeError,
)
from danube.model.limits.broker import PARTITIONS_MAX, TOPICS_PER_BROKER_MAX
from danube.model.plans.durability import Durability, durability_of
from danube.model.policies import NO_POLICIES, Limits, Policies, PolicyChange, limits_of
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.schema import TopicSchema
from danube.model.subscription import Cursor
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope
from danube.storage.log.topic_log import TopicLog
from danube.storage.store import Storage

_log = logging.getLogger(__name__)


_AUDIT_LOG = Policies(durability=Durability.FSYNC.number)
"""Durability of the audit log, whatever is set: a call is on record before its caller gets the answer."""

CarryDeadLetter = Callable[[ReliableTopic, str, Callable[[Event], None], DeadLetter], None]
"""Copies a message of a topic's subscription to its dead letter topic, and gives the callback the outcome."""


class Topics(TopicDirectory):
    """The topics that this broker serves."""

    def __init__(
        self,
        *,
        records: Records,
        storage: Storage,
        clock: Clock,
        tasks: TaskScope,
        dispatch: DispatchSettings,
        owner: TopicOwner,
        policies: Policies = NO_POLICIES,
        own_policies: Mapping[str, Policies] | None = None,
        cluster: ClusterTopics | None = None,
    ) -> None:
        """`policies` apply where neither a topic nor its namespace sets anything.

        `own_policies` replace them, by name, for topics that the broker itself writes.
        """
        super().__init__(records, cluster)
        self.dead_letters: CarryDeadLetter | None = None
        """Takes exhausted messages; without it they are kept and tried again."""
        self.gate_of: Callable[[TopicRecord], SchemaGate | None] = lambda _record: None
        """Makes the check of a topic's messages against its schema."""
        self._policies = policies
        self._system_policies = Policies(durability=policies.durability)
        self._own_policies = own_policies or {}
        self._namespace_policies: dict[str, Policies] = {}
        """Of the namespaces that set any."""
        self._owner = owner
        self._storage = storage
        self._clock = clock
        self._tasks = tasks
        self.dispatch = dispatch
        self._changing = asyncio.Lock()
        self._owning = asyncio.Lock()
        self.namespace_topics_max: Callable[[str], int] = lambda _: 0
        """Topics of one namespace, system topics excepted; 0 is no limit."""

    async def load(self) -> None:
        """Open all topics of this broker that the metadata has, with their subscriptions."""
        for namespace in await self._records.namespaces():
            self._remember_policies(namespace)
        await self._records.part_plain_topics()
        for record in await self._owner.owned_at_start(await self._records.topics()):
            self._open(record)
        for subscription in await self._records.all_subscriptions():
            topic = self.find(str(subscription.topic))
            if topic is not None:
                self.open_subscription(topic, subscription)
        for topic in self:
            topic.forget_deleted()

    async def create(
        self,
        name: TopicName,
        strategy: DispatchStrategy,
        schema_subject: str | None,
        *,
        base: TopicName | None = None,
        is_here: bool = False,
    ) -> None:
        """Create a plain topic or one partition of `base`, and serve it if it is assigned here, as with `is_here`.

        Raises:
            NamespaceNotFoundError.
            TopicExistsError: also when a partitioned topic has the same base name, or would have such a partition.
            LimitReachedError: this broker serves its maximum of topics.
            MetadataError, StorageUnavailableError: also when it was created, and this broker could not open it.
        """
        async with self._changing, self._inheritance(base) as inherited:
            self._refuse_beyond_limit(1, name.namespace)
            chosen = None if is_here else self._cluster.choose([name])
            async with self._serving_existing(name):
                record = await self._records.create_topic(
                    name,
                    strategy,
                    self._clock.now_ms(),
                    base=base,
                    schema_subject=schema_subject,
                    inherit=inherited.of,
                    broker=chosen[0] if chosen else None,
                )
            await self._open_new([record])

    async def find_or_create(
        self, name: TopicName, strategy: DispatchStrategy, *, base: TopicName | None = None, is_here: bool = False
    ) -> AnyTopic:
        """The topic of this name, created if it does not exist; concurrent callers all get it.

        Raises TopicNotServedError for a topic that another broker serves, and as `create`.
        """
        try:
            await self.create(name, strategy, None, base=base, is_here=is_here)
            topic = self.find(str(name))
            if topic is not None:
                return topic
            await self.refuse_new_remote(name)
            return self.get(name)
        except TopicExistsError:
            self.refuse_remote(name)
            topic = self.find(str(name))
            if topic is None:
                await self.refuse_new_remote(name)
                raise
            return topic

    async def own_topic(self, name: TopicName) -> AnyTopic:
        """The topic of this name that this broker writes itself, created if it does not exist.

        In a cluster each broker has one partition of it for good, the first that is assigned to it, and owns it again
        when others have fenced its journal. Raises as `create` and `own`.
        """
        if not self._cluster.is_cluster:
            return self.find(str(name)) or await self.find_or_create(name, DispatchStrategy.RELIABLE)
        async with self._owning:
            first = self._cluster.first_of_own(self._cluster.records_of(name))
            topic = self.find(str(first.name)) if first is not None else None
            return topic or await self._open_own(name)

    async def _open_own(self, name: TopicName) -> AnyTopic:
        """The own partition of this name, which is not served yet, or not seen here."""
        records = await self.of_cluster(name)
        if (own := self._cluster.first_of_own(records)) is not None:
            with suppress(TopicExistsError):  # the placement was faster
                await self.open_owned(await self.acquire(own.name))
            return self.get(own.name)
        used = {record.name.partition_index for record in records}
        for index in range(PARTITIONS_MAX):
            if index not in used:
                partition = name.partition(index)
                with suppress(TopicExistsError):  # another broker was faster
                    await self.create(partition, DispatchStrategy.RELIABLE, None, base=name, is_here=True)
                    return self.get(partition)
        raise LimitReachedError(f"{name} has {PARTITIONS_MAX} partitions, and none of this broker: delete some")

    async def create_partitioned(
        self, base: TopicName, partitions: int, strategy: DispatchStrategy, schema_subject: str | None
    ) -> None:
        """Create all partitions of a topic, or none. Raises as `create`."""
        async with self._changing, self._inheritance(base) as inherited:
            self._refuse_beyond_limit(partitions, base.namespace)
            async with self._serving_existing(base):
                records = await self._records.create_partitioned_topic(
                    base,
                    partitions,
                    strategy,
                    self._clock.now_ms(),
                    schema_subject=schema_subject,
                    inherit=inherited.of,
                    brokers=self._cluster.choose([base.partition(index) for index in range(partitions)]),
                )
            await self._open_new(records)

    async def add_partitions(self, base: TopicName, count: int) -> None:
        """Add partitions to a partitioned topic, with its subscriptions: all of them or none.

        Raises TopicNotFoundError, and as `create`.
        """
        async with self._changing, self._inheritance(base) as inherited:
            self._refuse_beyond_limit(count, base.namespace)
            first = len(self._cluster.partitions_of(base))
            brokers = self._cluster.choose([base.partition(first + index) for index in range(count)])
            now_ms = self._clock.now_ms()
            made = await self._records.add_partitions(base, count, now_ms, inherit=inherited.of, brokers=brokers)
            await self._open_new(made)

    def limits_of(self, namespace: str) -> Limits:
        """The limits of a topic of this namespace that sets nothing itself."""
        return limits_of(self._namespace_policies.get(namespace, NO_POLICIES), self._of_settings(namespace))

    def limits_with(
        self, topic: AnyTopic, *, own: Policies | None = None, of_namespace: Policies | None = None
    ) -> Limits:
        """The limits of a topic, as they are, or with these policies in place of its own or of its namespace's."""
        of_settings, record = self._of_settings(topic.record.name.namespace), topic.record
        if of_namespace is None:
            of_namespace = self._namespace_policies.get(record.name.namespace, NO_POLICIES)
        at_last = self._own_policies.get(topic.name) or self._own_policies.get(str(record.base), NO_POLICIES)
        at_first = _AUDIT_LOG if record.name.is_of(AUDIT_TOPIC) else NO_POLICIES
        return limits_of(at_first, record.policies if own is None else own, of_namespace, of_settings, at_last)

    async def change_namespace_policies(
        self, namespace: str, change: PolicyChange, *, extra_writes: ExtraWrites | None = None
    ) -> NamespaceRecord:
        """Change the limits of a namespace; they apply to its topics at once. `extra_writes` go with it.

        No topic is created or deleted meanwhile. Raises NamespaceNotFoundError, and what `extra_writes` raises.
        """
        async with self._changing:
            record = await self._records.change_namespace_policies(namespace, change, extra_writes=extra_writes)
            self._remember_policies(record)
            for topic in self:
                if topic.record.name.namespace == namespace:
                    self._apply_limits(topic)
            return record

    async def change_topic_policies(
        self, name: TopicName, change: PolicyChange, *, extra_writes: ExtraWrites | None = None
    ) -> None:
        """Change the limits of a topic, or of all partitions of a base name, at once. As `change_namespace_policies`.

        Other brokers apply them to theirs a moment later. Raises TopicNotFoundError, and what `extra_writes` raises.
        """
        async with self._changing:
            names = [record.name for record in self.records_behind(name)]
            for record in await self._records.change_topic_policies(names, change, extra_writes=extra_writes):
                self.follow_topic(record)

    async def change_topic_schema(self, name: TopicName, change: Callable[[TopicSchema], TopicSchema]) -> None:
        """Change the schema configuration of a topic, or of all partitions of a base name, as `change_topic_policies`.

        Raises TopicNotFoundError, and what `change` raises.
        """
        async with self._changing:
            names = [record.name for record in self.records_behind(name)]
            for record in await self._records.change_topic_schema(names, change):
                self.follow_topic(record)

    def follow_namespace(self, record: NamespaceRecord) -> None:
        """Apply a namespace's limits, which another broker may have changed, to its topics."""
        if self._namespace_policies.get(record.name, NO_POLICIES) == record.policies:
            return
        self._remember_policies(record)
        for topic in self:
            if topic.record.name.namespace == record.name:
                self._apply_limits(topic)

    def forget_namespace(self, namespace: str) -> None:
        """Forget the limits of a namespace that was deleted or just created."""
        self._namespace_policies.pop(namespace, None)

    async def delete(self, name: TopicName, *, extra_writes: ExtraWrites | None = None) -> Sequence[AnyTopic]:
        """Delete a topic, or all partitions of a base name, all or none; answers those that this broker served.

        No topic, and no subscription of these, is created or deleted meanwhile; `extra_writes` go with it. The
        caller drains their clients; other brokers drain theirs once they see it.

        Raises TopicNotFoundError, TopicNotServedError, and what `extra_writes` raises.
        """
        async with self._changing, AsyncExitStack() as held:
            records = self.records_behind(name)
            deleted = [topic for one in records if (topic := self.find(str(one.name))) is not None]
            for topic in deleted:
                await held.enter_async_context(topic.changing)
            try:
                await self._records.delete_topics(records, extra_writes=extra_writes)
            except UnknownOutcomeError:  # messages acknowledged from now on might be lost at the next start
                for topic in deleted:
                    topic.refuse_publishes(ClientDrain(Cause.IN_DOUBT, f"topic {topic.name}"))
                raise
            self._close_deleted(deleted)
            return deleted

    async def forget_deleted(self, name: TopicName) -> Sequence[AnyTopic]:
        """Close served topics of this name that the metadata does not have any more."""
        async with self._changing, AsyncExitStack() as held:
            found = [topic for each in self.matching(name) or [name] if (topic := self.find(str(each))) is not None]
            for topic in found:
                await held.enter_async_context(topic.changing)
            known = {one.topic_id for one in await self.of_cluster(name)}
            self._close_deleted(deleted := [topic for topic in found if topic.record.topic_id not in known])
            return deleted

    async def unload(self, name: TopicName, drain: ClientDrain) -> AnyTopic:
        """Stop serving a topic, which stays in journal and metadata; answers the topic, closed.

        Accepted messages are settled before, and cursors are durable after. The caller drains its clients.

        Raises:
            TopicNotFoundError, TopicNotServedError.
            UnavailableError: the journal makes no progress, and the topic is served as before.
        """
        async with self._changing:
            topic = self.get(name)
            async with topic.changing:
                topic.refuse_publishes(drain)
                try:
                    await topic.settled()
                except BaseException:
                    topic.accept_publishes()
                    raise
                topic.close(drain)
                self._unloaded[topic.name] = topic.record
                del self._topics[topic.name]
                await topic.save_cursors()
            return topic

    async def acquire(self, name: TopicName) -> TopicRecord:
        """Own a topic that no broker serves, under a new epoch; answers its record.

        Raises TopicExistsError for one that is served, TopicNotFoundError for a deleted one, and as its owner does.
        """
        if str(name) in self._topics:
            raise TopicExistsError(f"{name} is served here already: unload it first")
        record = await self._records.topic(name)
        if record is None or record.topic_id not in await self._owner.acquire([record]):
            raise TopicNotFoundError(f"topic {name} does not exist (any more): list the topics to see what is there")
        return record

    async def open_owned(self, record: TopicRecord) -> AnyTopic:
        """Serve a topic that this broker owns, as metadata and journal have it. Raises TopicExistsError, MetadataError.

        A topic that is another one's by then is answered, too: it is closed again as such.
        """
        async with self._changing:
            if str(record.name) in self._topics:
                raise TopicExistsError(f"{record.name} is served here already: unload it first")
            subscriptions = await self._records.subscriptions_of(record.name)
            self._unloaded.pop(str(record.name), None)
            return self._open_whole(record, subscriptions)

    async def close_lost(self, name: TopicName, drain: ClientDrain) -> AnyTopic | None:
        """Serve a topic no more that is another broker's; answers it, closed. Nothing is flushed."""
        async with self._changing:
            topic = self._topics.pop(str(name), None)
            if topic is not None:
                topic.close(drain)
                self._unloaded[topic.name] = topic.record
            return topic

    def follow_topic(self, record: TopicRecord) -> None:
        """Apply a topic's policies and schema, which another broker may have changed."""
        topic = self._topics.get(str(record.name))
        if topic is None or topic.record.topic_id != record.topic_id:
            return
        if topic.record.policies != record.policies:
            topic.record = replace(topic.record, policies=record.policies)
            self._apply_limits(topic)
        if topic.record.schema != record.schema:
            topic.record = topic.record.with_schema(record.schema)
            topic.gate = self.gate_of(topic.record)

    def open_subscription(self, topic: AnyTopic, record: SubscriptionRecord) -> AnySubscription:
        """Serve a subscription from its cursor."""
        if isinstance(topic, NonReliableTopic):
            passing = topic.subscriptions[record.name] = NonReliableSubscription(record, clock=self._clock)
            return passing
        cursor = topic.log.cursor(record.subscription_id)
        if cursor is None and record.jump is None and not topic.is_lost:
            _log.error("subscription %r on %s has no cursor: it starts at the oldest message", record.name, topic.name)
        cursor = cursor or Cursor(topic.log.start_offset)
        if record.jump is not None:
            cursor = Cursor(min(record.jump, topic.log.durable_end))
        subscription = topic.subscriptions[record.name] = ReliableSubscription(
            record,
            topic.log,
            cursor,
            clock=self._clock,
            tasks=self._tasks,
            dispatch=self.dispatch,
        )
        if self.dead_letters is not None:
            report = subscription.driver.handle
            subscription.driver.on_dead_letter = partial(self.dead_letters, topic, record.name, report)
        topic.skip_trimmed(subscription)
        return subscription

    def _open(self, record: TopicRecord) -> AnyTopic:
        topic: AnyTopic
        if record.strategy is DispatchStrategy.RELIABLE:
            topic = ReliableTopic(record, self._log_of(record))
        else:
            topic = NonReliableTopic(record)
        self._apply_limits(topic)
        topic.gate = self.gate_of(record)
        self._topics[topic.name] = topic
        return topic

    async def _open_new(self, records: Sequence[TopicRecord]) -> None:
        """Open those of new topics that are this broker's.

        One whose creation was answered late may have been another broker's meanwhile, and have subscriptions.
        """
        for record in await self._owner.acquire_new(records):
            self._open_whole(record, await self._records.subscriptions_of(record.name))

    def _inheritance(self, base: TopicName | None) -> AbstractAsyncContextManager[Inheritance]:
        names = self.matching(base) if base is not None else []
        siblings = [topic for name in names if (topic := self.find(str(name))) is not None]
        remote = [name for name in names if self.find(str(name)) is None]
        return inheritance(siblings, remote, self._records, self.find)

    def _open_whole(self, record: TopicRecord, subscriptions: Iterable[SubscriptionRecord]) -> AnyTopic:
        topic = self._open(record)
        for subscription in subscriptions:
            self.open_subscription(topic, subscription)
        topic.forget_deleted()
        return topic

    @asynccontextmanager
    async def _serving_existing(self, name: TopicName) -> AsyncIterator[None]:
        """Serve a topic that exists unserved, because the answer to its creation was lost."""
        try:
            yield
        except TopicExistsError:
            if not self._cluster.is_cluster:  # there the placement opens it
                for record in await self._owner.owned(await self.of_cluster(name)):
                    if self.find(str(record.name)) is None and not self.is_unloaded(record.name):
                        self._open_whole(record, await self._records.subscriptions_of(record.name))
            raise

    def _close_deleted(self, deleted: Iterable[AnyTopic]) -> None:
        for topic in deleted:
            del self._topics[topic.name]
            topic.close(ClientDrain(Cause.DELETED, f"topic {topic.name}"))
            self._storage.forget(topic.record.topic_id)

    def _log_of(self, record: TopicRecord) -> TopicLog:
        try:
            # What makes room is done by administrators, and is in the audit log first.
            is_audit = record.name.is_of(AUDIT_TOPIC)
            epoch = self._storage.epoch(record.topic_id)
            return self._storage.topic(record.topic_id, epoch, name=record.name, uses_reserve=is_audit)
        except DanubeError as error:
            _log.error("%s is not served, all other topics are: %s", record.name, error)
            reason = f"what is stored of {record.name} cannot be read; the broker's log says why"
            return self._storage.unreadable_topic(record.topic_id, reason)

    def _apply_limits(self, topic: AnyTopic) -> None:
        limits = self.limits_with(topic)
        topic.apply_limits(limits, self._clock)
        if isinstance(topic, ReliableTopic):
            topic.log.set_durability(durability_of(limits.durability))

    def _of_settings(self, namespace: str) -> Policies:
        """The settings do not limit the broker's own topics: it has to write its audit log and its telemetry."""
        return self._system_policies if namespace == "system" else self._policies

    def _remember_policies(self, namespace: NamespaceRecord) -> None:
        if namespace.policies == NO_POLICIES:
            self._namespace_policies.pop(namespace.name, None)
        else:
            self._namespace_policies[namespace.name] = namespace.policies

    def _refuse_beyond_limit(self, count: int, namespace: str) -> None:
        most = self.namespace_topics_max(namespace)
        if most and namespace != SYSTEM_NAMESPACE:
            there = sum(1 for record in self.records() if record.name.namespace == namespace)
            if there + count > most:
                raise LimitReachedError(
                    f"namespace {namespace} has {there} topics and may have {most} (quotas.namespace_topics): delete"
                    " some, or raise the quota"
                )
        if len(self._topics) + count > TOPICS_PER_BROKER_MAX:
            raise LimitReachedError(f"this broker serves {len(self._topics)} topics of {TOPICS_PER_BROKER_MAX} at most")

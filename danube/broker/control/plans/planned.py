"""What this broker can plan: a table of operations, each with its arguments, its impact of this moment, and its act."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from danube.broker.control.namespaces import NamespaceControl
from danube.broker.control.plans.durability import DurabilityControl
from danube.broker.control.plans.durability_plan import durability_rule
from danube.broker.control.plans.kept_plan import parse_namespace_call, parse_topic_call
from danube.broker.control.plans.membership_plan import Members, PromoteCall, RemoveCall
from danube.broker.control.plans.position_plan import SeekCall, SkipCall, parse_seek, parse_skip
from danube.broker.control.plans.retention import RetentionControl
from danube.broker.control.plans.retention_plan import retention_rule
from danube.broker.control.positions import PositionControl
from danube.broker.control.subscriptions import SubscriptionControl
from danube.broker.control.topics import TopicControl
from danube.broker.topics.subscription import ReliableSubscription
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import ExtraWrites
from danube.model.calls.admin import Unsubscribe
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.plan import Arguments, Effect, Impact, describe_call, fingerprint_of
from danube.model.subscription import check_member_name
from danube.model.text import count_text
from danube.model.topic import TopicName, check_name_part


class PlannedCall(Protocol):
    """One operation with its arguments."""

    async def impact(self) -> Impact:
        """What it would touch now; a counter that is not named is 0. Raises what `act` would raise now."""

    async def act(self, extra_writes: ExtraWrites) -> None:
        """Do it, and `extra_writes` in the same transaction."""


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """An operation that acts by a plan."""

    effect: Effect
    parse: Callable[[Arguments], PlannedCall]
    """Raises InvalidRequestError for arguments that are not those of the operation."""


def planned_operations(
    topics: TopicControl,
    subscriptions: SubscriptionControl,
    namespaces: NamespaceControl,
    positions: PositionControl,
    retention: RetentionControl,
    *,
    durability: DurabilityControl,
    members: Members,
) -> Mapping[str, PlannedOperation]:
    """All of them, by the names that every face knows them by."""

    def delete_topic(arguments: Arguments) -> PlannedCall:
        (topic,) = _texts("delete_topic", arguments, "topic")
        return _DeleteTopic(topics, TopicName.parse(topic))

    def delete_namespace(arguments: Arguments) -> PlannedCall:
        (namespace,) = _texts("delete_namespace", arguments, "namespace")
        return _DeleteNamespace(namespaces, check_name_part("namespace", namespace))

    def unsubscribe(arguments: Arguments) -> PlannedCall:
        topic, subscription = _texts("unsubscribe", arguments, "topic", "subscription")
        name = check_member_name("subscription", subscription)
        return _Unsubscribe(subscriptions, Unsubscribe(topic=TopicName.parse(topic), subscription=name))

    def seek_subscription(arguments: Arguments) -> PlannedCall:
        return SeekCall(positions, parse_seek(arguments))

    def skip_messages(arguments: Arguments) -> PlannedCall:
        return SkipCall(positions, parse_skip(arguments))

    def set_topic_retention(arguments: Arguments) -> PlannedCall:
        return parse_topic_call(retention_rule(retention), arguments)

    def set_namespace_retention(arguments: Arguments) -> PlannedCall:
        return parse_namespace_call(retention_rule(retention), arguments)

    def set_topic_durability(arguments: Arguments) -> PlannedCall:
        return parse_topic_call(durability_rule(durability), arguments)

    def set_namespace_durability(arguments: Arguments) -> PlannedCall:
        return parse_namespace_call(durability_rule(durability), arguments)

    def promote_cluster_node(arguments: Arguments) -> PlannedCall:
        (node_id,) = _texts("promote_cluster_node", arguments, "node_id")
        return PromoteCall(members, node_id)

    def remove_cluster_node(arguments: Arguments) -> PlannedCall:
        (node_id,) = _texts("remove_cluster_node", arguments, "node_id")
        return RemoveCall(members, node_id)

    acts = (
        delete_topic,
        delete_namespace,
        unsubscribe,
        seek_subscription,
        skip_messages,
        set_topic_retention,
        set_namespace_retention,
        set_topic_durability,
        set_namespace_durability,
        remove_cluster_node,
    )
    destroying = {act.__name__: PlannedOperation(Effect.DESTROY, act) for act in acts}
    return {**destroying, "promote_cluster_node": PlannedOperation(Effect.MOVE, promote_cluster_node)}


def _texts(operation: str, arguments: Arguments, *names: str) -> list[str]:
    """The values of an operation's parameters, which are all texts. Raises InvalidRequestError."""
    if arguments.keys() != set(names) or not all(isinstance(value, str) for value in arguments.values()):
        call = describe_call(operation, arguments)[:200]
        raise InvalidRequestError(f"{call} cannot be planned: {operation} takes {' and '.join(names)}, as text")
    return [arguments[name] for name in names]


@dataclass(frozen=True, slots=True)
class _DeleteTopic:
    """A topic, or all partitions of a base name."""

    topics: TopicControl
    name: TopicName

    async def impact(self) -> Impact:
        found = self.topics.deletable(self.name)
        subscriptions = [f"{topic.name} {name}" for topic in found for name in sorted(topic.subscriptions)]
        logs = [topic.log for topic in found if isinstance(topic, ReliableTopic)]
        messages = sum(log.durable_end - log.start_offset for log in logs)
        stored_bytes = sum(log.body_bytes for log in logs)
        producers = sum(len(topic.producers) for topic in found)
        consumers = sum(each.connected() for topic in found for each in topic.subscriptions.values())
        return Impact(
            changes=(
                _deleted(self.name, found),
                *_if_any(len(subscriptions), "Delete {}.", "subscription"),
                *_if_any(consumers, "Disconnect {}.", "consumer"),
                *_if_any(producers, "Detach {}.", "producer"),
            ),
            irreversible=(
                *_if_any(messages, f"{{}} of {stored_bytes:,} bytes cannot be read any more.", "stored message"),
                *_if_any(len(subscriptions), "{} cannot be taken up again.", "subscription"),
                "A topic of this name that is made later begins empty, at offset 0.",
            ),
            topics=tuple(topic.name for topic in found[:PLAN_NAMES_MAX]),
            topic_count=len(found),
            subscriptions=tuple(subscriptions[:PLAN_NAMES_MAX]),
            subscription_count=len(subscriptions),
            producers=producers,
            consumers=consumers,
            messages=messages,
            bytes=stored_bytes,
            fingerprint=fingerprint_of([_identity(topic, topic.subscriptions) for topic in found]),
        )

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.topics.delete(self.name, extra_writes=extra_writes)


@dataclass(frozen=True, slots=True)
class _DeleteNamespace:
    namespaces: NamespaceControl
    name: str

    async def impact(self) -> Impact:
        made = await self.namespaces.deletable(self.name)
        return Impact(
            changes=(f"Delete namespace {self.name}, which has no topics.",),
            fingerprint=fingerprint_of([self.name, made]),
        )

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.namespaces.delete(self.name, extra_writes=extra_writes)


@dataclass(frozen=True, slots=True)
class _Unsubscribe:
    """What the subscription has not acknowledged stays in the topic, and grows meanwhile: it has no ceiling."""

    subscriptions: SubscriptionControl
    wanted: Unsubscribe

    async def impact(self) -> Impact:
        waiting = self.subscriptions.pending(self.wanted)
        if waiting is not None:
            return self._impact_of_pending(waiting)
        topic, subscription = self.subscriptions.unused(self.wanted)
        name = subscription.record.name
        lost = "A subscription of this name that is made later begins at the end of the topic."
        if isinstance(subscription, ReliableSubscription):
            lag = count_text(subscription.driver.engine.lag, "message")
            lost = f"Its place in the topic is lost, with {lag} not acknowledged. {lost}"
        return Impact(
            changes=(
                f"Delete subscription {name!r} of {topic.name}.",
                *_if_any(len(subscription.consumers), "Forget {} that it had.", "consumer"),
            ),
            irreversible=(lost,),
            topics=(topic.name,),
            topic_count=1,
            subscriptions=(f"{topic.name} {name}",),
            subscription_count=1,
            consumers=subscription.connected(),
            fingerprint=fingerprint_of(_identity(topic, [name])),
        )

    def _impact_of_pending(self, topic: AnyTopic) -> Impact:
        name = self.wanted.subscription
        return Impact(
            changes=(f"Delete the policies for subscription {name!r} of {topic.name}, which does not exist yet.",),
            topics=(topic.name,),
            topic_count=1,
            fingerprint=fingerprint_of([topic.record.topic_id, name, "pending"]),
        )

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.subscriptions.unsubscribe(self.wanted, extra_writes=extra_writes)


def _identity(topic: AnyTopic, subscriptions: Sequence[str] | Mapping[str, object]) -> list[object]:
    """What is another one once a topic, or one of these subscriptions, is deleted and made anew."""
    return [topic.record.topic_id, sorted(topic.subscription(name).record.subscription_id for name in subscriptions)]


def _deleted(name: TopicName, found: Sequence[AnyTopic]) -> str:
    if found[0].record.name == name:
        return f"Delete topic {name}."
    return f"Delete topic {name}, which has {count_text(len(found), 'partition')}."


def _if_any(count: int, sentence: str, noun: str) -> tuple[str, ...]:
    return (sentence.format(count_text(count, noun)),) if count else ()

"""Deletion of topics, namespaces and subscriptions by a plan: what it deletes, and what is irreversible."""

from collections.abc import Mapping, Sequence

from danube.broker.control.namespaces import NamespaceControl
from danube.broker.control.plans.peers import CountedTopics, Peers
from danube.broker.control.plans.planned import PlannedCall, PlannedOperation, destroying, if_any, texts
from danube.broker.control.subscriptions import SubscriptionControl
from danube.broker.control.topics import TopicControl
from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.broker.topics.topic import AnyTopic
from danube.metadata.records.catalog import SubscriptionRecord, TopicRecord
from danube.model.calls.admin import Unsubscribe
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.plan import Arguments, Impact, PartialImpact, fingerprint_of
from danube.model.subscription import check_member_name
from danube.model.text import count_text
from danube.model.topic import TopicName, check_name_part


def deletions(
    topics: TopicControl, subscriptions: SubscriptionControl, namespaces: NamespaceControl, peers: Peers
) -> Mapping[str, PlannedOperation]:
    """The operations, by their names."""

    def delete_topic(arguments: Arguments) -> PlannedCall:
        name = TopicName.parse(*texts("delete_topic", arguments, "topic"))

        async def impact() -> Impact:
            found, elsewhere = topics.deletable(name)
            attached = [(one, await topics.subscriptions_elsewhere(one)) for one in elsewhere]
            names = [*(topic.record.name for topic in found), *(record.name for record in elsewhere)]
            return _deleted_topic(name, found, attached, await peers.counts(names))

        return PlannedCall(impact, lambda extra_writes: topics.delete(name, extra_writes=extra_writes))

    def delete_namespace(arguments: Arguments) -> PlannedCall:
        name = check_name_part("namespace", *texts("delete_namespace", arguments, "namespace"))

        async def impact() -> Impact:
            fingerprint = fingerprint_of([name, await namespaces.deletable(name)])
            return Impact(changes=(f"Delete namespace {name}, which has no topics.",), fingerprint=fingerprint)

        return PlannedCall(impact, lambda extra_writes: namespaces.delete(name, extra_writes=extra_writes))

    def unsubscribe(arguments: Arguments) -> PlannedCall:
        topic, subscription = texts("unsubscribe", arguments, "topic", "subscription")
        name = check_member_name("subscription", subscription)
        wanted = Unsubscribe(topic=TopicName.parse(topic), subscription=name)

        async def impact() -> Impact:
            return _unsubscribed(subscriptions, wanted)

        return PlannedCall(impact, lambda extra_writes: subscriptions.unsubscribe(wanted, extra_writes=extra_writes))

    return destroying(delete_topic, delete_namespace, unsubscribe)


def _deleted_topic(
    name: TopicName,
    found: Sequence[AnyTopic],
    elsewhere: Sequence[tuple[TopicRecord, Sequence[SubscriptionRecord]]],
    counted: CountedTopics,
) -> Impact:
    """The impact of deleting a topic, or all partitions of a base name.

    Its fingerprint is the same at every broker, and after a move.
    """
    names = [*(topic.record.name for topic in found), *(record.name for record, _ in elsewhere)]
    names.sort(key=lambda each: each.partition_index or 0)
    ids = [_identity(topic, topic.subscriptions) for topic in found]
    ids += [[record.topic_id, sorted(one.subscription_id for one in attached)] for record, attached in elsewhere]
    subscriptions = [f"{topic.name} {each}" for topic in found for each in sorted(topic.subscriptions)]
    subscriptions += [f"{record.name} {one.name}" for record, attached in elsewhere for one in attached]
    messages, stored_bytes, producers, consumers = map(counted.total, ("messages", "bytes", "producers", "consumers"))
    partitions = "" if names[0] == name else f", which has {count_text(len(names), 'partition')}"
    kind = PartialImpact if counted.unknown else Impact
    return kind(
        changes=(
            f"Delete topic {name}{partitions}.",
            *if_any(len(subscriptions), "Delete {}.", "subscription"),
            *if_any(consumers or 0, "Disconnect {}.", "consumer"),
            *if_any(producers or 0, "Detach {}.", "producer"),
        ),
        irreversible=(
            *if_any(messages or 0, f"{{}} of {stored_bytes or 0:,} bytes cannot be read any more.", "stored message"),
            *if_any(len(subscriptions), "{} cannot be taken up again.", "subscription"),
            *counted.warnings(),
            "A topic of this name that is made later begins empty, at offset 0.",
        ),
        topics=tuple(map(str, names[:PLAN_NAMES_MAX])),
        topic_count=len(names),
        subscriptions=tuple(subscriptions[:PLAN_NAMES_MAX]),
        subscription_count=len(subscriptions),
        producers=producers,
        consumers=consumers,
        messages=messages,
        bytes=stored_bytes,
        fingerprint=fingerprint_of(sorted(ids, key=str)),
    )


def _unsubscribed(control: SubscriptionControl, wanted: Unsubscribe) -> Impact:
    """Impact of deleting a subscription. Its unacknowledged messages stay in the topic, so they are not counted."""
    name, waiting = wanted.subscription, control.pending(wanted)
    if waiting is not None:
        return Impact(
            changes=(f"Delete the policies for subscription {name!r} of {waiting.name}, which does not exist yet.",),
            topics=(waiting.name,),
            topic_count=1,
            fingerprint=fingerprint_of([waiting.record.topic_id, name, "pending"]),
        )
    topic, subscription = control.unused(wanted)
    lost = "A subscription of this name that is made later begins at the end of the topic."
    if isinstance(subscription, ReliableSubscription):
        lag = count_text(subscription.driver.engine.lag, "message")
        lost = f"Its place in the topic is lost, with {lag} not acknowledged. {lost}"
    return Impact(
        changes=(
            f"Delete subscription {name!r} of {topic.name}.",
            *if_any(len(subscription.consumers), "Forget {} that it had.", "consumer"),
        ),
        irreversible=(lost,),
        topics=(topic.name,),
        topic_count=1,
        subscriptions=(f"{topic.name} {name}",),
        subscription_count=1,
        consumers=subscription.connected(),
        fingerprint=fingerprint_of(_identity(topic, [name])),
    )


def _identity(topic: AnyTopic, subscriptions: Sequence[str] | Mapping[str, object]) -> list[object]:
    """Ids that change once the topic, or one of these subscriptions, is deleted and created again."""
    return [topic.record.topic_id, sorted(topic.subscription(name).record.subscription_id for name in subscriptions)]

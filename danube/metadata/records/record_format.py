"""What the records of the cluster hold, and how each is written as a value: compact JSON with its format's version.

Fields may be added within a version when they have a default; a record of a newer version is refused, never guessed at.
"""

from dataclasses import asdict, dataclass, replace
from itertools import pairwise

from danube.metadata.records import keys
from danube.metadata.records.record_fields import Fields, encode_fields
from danube.metadata.store import Entry
from danube.model.plans.plan import Approval, Caller, Effect, Face, Impact, Plan
from danube.model.policies import (
    NO_POLICIES,
    POLICY_NAMES,
    BackoffStrategy,
    FailurePolicy,
    PendingPolicies,
    PoisonPolicy,
    Policies,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """A namespace."""

    name: str
    policies: Policies = NO_POLICIES


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A plain topic or one partition."""

    name: TopicName
    topic_id: int
    """Never given out again, not even to a topic of the same name."""
    strategy: DispatchStrategy
    epoch: int
    """Counts owners: whoever opens the topic's log does so under an epoch that no one had before."""
    created_ms: int
    schema_subject: str | None = None
    policies: Policies = NO_POLICIES
    owner: int = 0
    """The broker that serves it; 0 in records from before there were clusters: whoever has the record serves it."""
    pending: tuple[PendingPolicies, ...] = ()
    """Of subscriptions that do not exist yet, sorted by their names."""

    def pending_of(self, subscription: str) -> PendingPolicies:
        """What a subscription begins with; empty where nothing was set."""
        return next((one for one in self.pending if one.subscription == subscription), PendingPolicies(subscription))

    def with_pending(self, changed: PendingPolicies) -> "TopicRecord":
        """The topic with these in the place of those of the same subscription; empty ones go."""
        others = [one for one in self.pending if one.subscription != changed.subscription]
        kept = others if changed.is_empty else [*others, changed]
        return replace(self, pending=tuple(sorted(kept, key=lambda one: one.subscription)))


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """A subscription of one topic."""

    topic: TopicName
    name: str
    subscription_id: int
    type: SubscriptionType
    created_ms: int
    failure_policy: FailurePolicy | None = None
    """None until somebody sets one: the broker's settings hold."""
    window: int | None = None
    """Messages one consumer may hold unacknowledged; None as above."""
    jump: int | None = None
    """Where an administrator has put it, from the decision until its cursor is durable there."""


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A consumer of one subscription, connected or not."""

    topic: TopicName
    subscription: str
    name: str
    consumer_id: int
    key_filters: tuple[str, ...]
    created_ms: int


@dataclass(frozen=True, slots=True)
class ProducerEpoch:
    """The right to publish to a topic alone, as it was given last."""

    topic_id: int
    """Of a topic of that name that is gone, it counts for nothing."""
    epoch: int
    """Whoever has a smaller one is fenced."""
    producer_name: str


@dataclass(frozen=True, slots=True)
class EpochRange:
    """What one owner of a topic wrote, and in which journal: offsets outside it, of that owner, count for nothing."""

    epoch: int
    journal_id: int
    first_offset: int
    end_offset: int | None = None
    """The offset after its last record; None while the epoch goes on. Set, the epoch is sealed."""
    position: int = 0
    """Where it begins in that journal: what stands before it there is of an attempt to own the topic that failed."""


@dataclass(frozen=True, slots=True)
class TopicStorage:
    """Where one topic's messages are."""

    topic_id: int
    generation: int = 0
    """Of the newest manifest; 0 while there is none."""
    epochs: tuple[EpochRange, ...] = ()
    """Those of which something is in a journal only; each goes on where the one before it ended."""
    revision: int = 0
    """Of the record, for compare-and-set; 0 while it was never written."""

    def validate(self) -> None:
        """Raise ValueError unless the numbers can be and the epochs are an unbroken run."""
        if self.topic_id < 0 or self.generation < 0:
            raise ValueError(f"topic {self.topic_id} cannot have the generation {self.generation}")
        for one in self.epochs:
            end_offset = one.first_offset if one.end_offset is None else one.end_offset
            if min(one.epoch, one.first_offset, one.position) < 0 or end_offset < one.first_offset:
                raise ValueError(f"epoch {one.epoch} cannot be offsets {one.first_offset} to {one.end_offset}")
        for before, after in pairwise(self.epochs):
            if before.epoch >= after.epoch or before.end_offset != after.first_offset:
                raise ValueError(f"epoch {after.epoch} does not go on where epoch {before.epoch} ended")


def encode_namespace(policies: Policies = NO_POLICIES) -> bytes:
    """The value of a namespace: its name is in the key."""
    return encode_fields(**_policies_fields(policies))


def decode_namespace(entry: Entry) -> NamespaceRecord:
    """The namespace that an entry holds. Raises MetadataError, as all of these do."""
    fields = Fields(entry)
    return NamespaceRecord(keys.parse_namespace(entry.key), _policies(fields))


def encode_topic(record: TopicRecord) -> bytes:
    """The value of a topic."""
    return encode_fields(
        topic_id=record.topic_id,
        strategy=record.strategy.name,
        epoch=record.epoch,
        created_ms=record.created_ms,
        schema_subject=record.schema_subject,
        **({"owner": record.owner} if record.owner else {}),
        **({"pending": [_pending_fields(one) for one in record.pending]} if record.pending else {}),
        **_policies_fields(record.policies),
    )


def decode_topic(entry: Entry) -> TopicRecord:
    """The topic that an entry holds."""
    fields = Fields(entry)
    return TopicRecord(
        name=keys.parse_topic(entry.key),
        topic_id=fields.number("topic_id"),
        strategy=fields.choice("strategy", DispatchStrategy),
        epoch=fields.number("epoch"),
        created_ms=fields.number("created_ms"),
        schema_subject=fields.text_or_none("schema_subject"),
        policies=_policies(fields),
        owner=fields.number_or_none("owner") or 0,
        pending=tuple(map(_pending, fields.sections("pending"))) if fields.has("pending") else (),
    )


def encode_subscription(record: SubscriptionRecord) -> bytes:
    """The value of a subscription; what is not set is not written."""
    return encode_fields(
        subscription_id=record.subscription_id,
        type=record.type.name,
        created_ms=record.created_ms,
        **_own_policies_fields(record),
        **({"jump": record.jump} if record.jump is not None else {}),
    )


def decode_subscription(entry: Entry) -> SubscriptionRecord:
    """The subscription that an entry holds."""
    fields = Fields(entry)
    topic, name = keys.parse_subscription(entry.key)
    return SubscriptionRecord(
        topic=topic,
        name=name,
        subscription_id=fields.number("subscription_id"),
        type=fields.choice("type", SubscriptionType),
        created_ms=fields.number("created_ms"),
        failure_policy=_failure_policy_or_none(fields),
        window=fields.number_or_none("window"),
        jump=fields.number_or_none("jump"),
    )


def _pending_fields(pending: PendingPolicies) -> dict[str, object]:
    return {"subscription": pending.subscription, **_own_policies_fields(pending)}


def _pending(fields: Fields) -> PendingPolicies:
    return PendingPolicies(
        fields.text("subscription"), _failure_policy_or_none(fields), fields.number_or_none("window")
    )


def _own_policies_fields(of: SubscriptionRecord | PendingPolicies) -> dict[str, object]:
    policy = of.failure_policy
    return {
        **({"failure_policy": _failure_policy_fields(policy)} if policy is not None else {}),
        **({"window": of.window} if of.window is not None else {}),
    }


def _failure_policy_or_none(fields: Fields) -> FailurePolicy | None:
    return _failure_policy(fields.section("failure_policy")) if fields.has("failure_policy") else None


def _failure_policy_fields(policy: FailurePolicy) -> dict[str, object]:
    return {
        "max_redelivery_count": policy.max_redelivery_count,
        "ack_timeout_ms": policy.ack_timeout_ms,
        "base_redelivery_delay_ms": policy.base_redelivery_delay_ms,
        "max_redelivery_delay_ms": policy.max_redelivery_delay_ms,
        "backoff": policy.backoff.name,
        "dead_letter_topic": str(policy.dead_letter_topic) if policy.dead_letter_topic else None,
        "poison": policy.poison.name,
    }


def _failure_policy(fields: Fields) -> FailurePolicy:
    dead_letter_topic = fields.text_or_none("dead_letter_topic")
    return FailurePolicy(
        max_redelivery_count=fields.number("max_redelivery_count"),
        ack_timeout_ms=fields.number("ack_timeout_ms"),
        base_redelivery_delay_ms=fields.number("base_redelivery_delay_ms"),
        max_redelivery_delay_ms=fields.number("max_redelivery_delay_ms"),
        backoff=fields.choice("backoff", BackoffStrategy),
        dead_letter_topic=TopicName.parse(dead_letter_topic) if dead_letter_topic else None,
        poison=fields.choice("poison", PoisonPolicy),
    )


def _policies_fields(policies: Policies) -> dict[str, object]:
    """Nothing at all where nothing is set."""
    given = policies.given()
    return {"policies": given} if given else {}


def _policies(fields: Fields) -> Policies:
    if not fields.has("policies"):
        return NO_POLICIES
    section = fields.section("policies")
    return Policies(**{name: section.number_or_none(name) for name in POLICY_NAMES})


def encode_consumer(record: ConsumerRecord) -> bytes:
    """The value of a consumer."""
    return encode_fields(
        consumer_id=record.consumer_id, key_filters=list(record.key_filters), created_ms=record.created_ms
    )


def decode_consumer(entry: Entry) -> ConsumerRecord:
    """The consumer that an entry holds."""
    fields = Fields(entry)
    topic, subscription, name = keys.parse_consumer(entry.key)
    return ConsumerRecord(
        topic=topic,
        subscription=subscription,
        name=name,
        consumer_id=fields.number("consumer_id"),
        key_filters=fields.texts("key_filters"),
        created_ms=fields.number("created_ms"),
    )


def encode_counter(last: int) -> bytes:
    """The value of a counter whose last number is `last`."""
    return encode_fields(last=last)


def decode_counter(entry: Entry | None) -> int:
    """The last number that a counter gave out; 0 when it is not there yet."""
    return Fields(entry).number("last") if entry is not None else 0


def encode_partitioned(indexes: frozenset[int]) -> bytes:
    """The value that says which partitions a base topic has."""
    return encode_fields(indexes=sorted(indexes))


def decode_partitioned(entry: Entry | None) -> frozenset[int]:
    """Which partitions a base topic has; none when there is no entry."""
    return frozenset(Fields(entry).numbers("indexes")) if entry is not None else frozenset()


def encode_plan(plan: Plan) -> bytes:
    """The value of a plan: its id is in the key."""
    return encode_fields(
        operation=plan.operation,
        arguments=plan.arguments,
        effect=plan.effect.name,
        impact=asdict(plan.impact),
        asked_by=_caller_fields(plan.asked_by),
        approval=plan.approval.name,
        created_ms=plan.created_ms,
        expires_ms=plan.expires_ms,
        decided_by=_caller_fields(plan.decided_by),
        decided_ms=plan.decided_ms,
        applied_by=_caller_fields(plan.applied_by),
        applied_ms=plan.applied_ms,
    )


def decode_plan(entry: Entry) -> Plan:
    """The plan that an entry holds."""
    fields = Fields(entry)
    return Plan(
        plan_id=keys.parse_plan(entry.key),
        operation=fields.text("operation"),
        arguments=fields.object("arguments"),
        effect=fields.choice("effect", Effect),
        impact=_impact(fields.section("impact")),
        asked_by=_caller(fields.section("asked_by")),
        approval=fields.choice("approval", Approval),
        created_ms=fields.number("created_ms"),
        expires_ms=fields.number("expires_ms"),
        decided_by=_caller_or_none(fields, "decided_by"),
        decided_ms=fields.number_or_none("decided_ms"),
        applied_by=_caller_or_none(fields, "applied_by"),
        applied_ms=fields.number_or_none("applied_ms"),
    )


def _caller_fields(caller: Caller | None) -> dict[str, str] | None:
    return {"who": caller.who, "face": caller.face.name, "client": caller.client} if caller else None


def _caller(fields: Fields) -> Caller:
    return Caller(who=fields.text("who"), face=fields.choice("face", Face), client=fields.text("client"))


def _caller_or_none(fields: Fields, name: str) -> Caller | None:
    return _caller(fields.section(name)) if fields.has(name) else None


def _impact(fields: Fields) -> Impact:
    return Impact(
        changes=fields.texts("changes"),
        irreversible=fields.texts("irreversible"),
        topics=fields.texts("topics"),
        topic_count=fields.number("topic_count"),
        subscriptions=fields.texts("subscriptions"),
        subscription_count=fields.number("subscription_count"),
        producers=fields.number_or_none("producers"),
        consumers=fields.number_or_none("consumers"),
        messages=fields.number_or_none("messages"),
        bytes=fields.number_or_none("bytes"),
        fingerprint=fields.text("fingerprint"),
    )


def encode_producer_epoch(record: ProducerEpoch) -> bytes:
    """The value of a topic's newest producer epoch."""
    return encode_fields(topic_id=record.topic_id, epoch=record.epoch, producer_name=record.producer_name)


def decode_producer_epoch(entry: Entry) -> ProducerEpoch:
    """The producer epoch that an entry holds."""
    fields = Fields(entry)
    return ProducerEpoch(fields.number("topic_id"), fields.number("epoch"), fields.text("producer_name"))


def encode_topic_storage(record: TopicStorage) -> bytes:
    """The value of where a topic's messages are: its id is in the key. Raises ValueError for what cannot be."""
    record.validate()
    return encode_fields(generation=record.generation, epochs=[asdict(epoch) for epoch in record.epochs])


def decode_topic_storage(entry: Entry) -> TopicStorage:
    """Where the messages of a topic are."""
    fields = Fields(entry)
    record = TopicStorage(
        topic_id=keys.parse_stored_topic(entry.key),
        generation=fields.number("generation"),
        epochs=tuple(_epoch_range(section) for section in fields.sections("epochs")),
        revision=entry.revision,
    )
    try:
        record.validate()
    except ValueError as error:
        raise fields.damaged(str(error)) from error
    return record


def _epoch_range(fields: Fields) -> EpochRange:
    return EpochRange(
        epoch=fields.number("epoch"),
        journal_id=fields.number("journal_id"),
        first_offset=fields.number("first_offset"),
        end_offset=fields.number_or_none("end_offset"),
        position=fields.number_or_none("position") or 0,
    )


def encode_tombstone(owner: int = 0) -> bytes:
    """The value of a deleted topic: who served it last, and so has its files; its id is in the key."""
    return encode_fields(owner=owner) if owner else encode_fields()


def decode_tombstone(entry: Entry) -> int:
    """Who served the deleted topic last; 0 when that was not written down."""
    return Fields(entry).number_or_none("owner") or 0


def encode_journal(broker_id: int) -> bytes:
    """The value of a journal in a shared folder: its id is in the key."""
    return encode_fields(broker_id=broker_id)


def decode_journal(entry: Entry) -> int:
    """The broker that a journal in a shared folder is of."""
    return Fields(entry).number("broker_id")

"""Records of the metadata: their dataclasses, and the functions that encode and decode them (see `record_values`)."""

from dataclasses import dataclass, replace
from itertools import pairwise

from danube.metadata.records import keys
from danube.metadata.records.record_values import record_values
from danube.metadata.store import Entry
from danube.model.plans.plan import Plan
from danube.model.policies import NO_POLICIES, FailurePolicy, PendingPolicies, Policies
from danube.model.schema import TopicSchema, ValidationPolicy
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
    created_ms: int
    schema_subject: str | None = None
    broker: int = 0
    """The broker that is to serve it, 0 for none. `TopicStorage` has its owner."""
    pending: tuple[PendingPolicies, ...] = ()
    """Policies of subscriptions that do not exist yet, sorted by their names."""
    policies: Policies = NO_POLICIES
    validation: ValidationPolicy = ValidationPolicy.WARN
    checks_payloads: bool = False
    is_plain: bool = False
    """A topic of its own, though its name has the form of a partition's. Never set on a name of another form."""

    @property
    def base(self) -> TopicName | None:
        """The partitioned topic that this is a partition of; None for a plain topic."""
        return self.name.base(is_plain=self.is_plain)

    @property
    def schema(self) -> TopicSchema:
        """Schema configuration of the topic."""
        return TopicSchema(self.schema_subject, self.validation, self.checks_payloads)

    def with_schema(self, schema: TopicSchema) -> "TopicRecord":
        """The topic with this schema configuration."""
        return replace(
            self, schema_subject=schema.subject, validation=schema.policy, checks_payloads=schema.checks_payloads
        )

    def pending_of(self, subscription: str) -> PendingPolicies:
        """Policies that a subscription begins with; empty where nothing was set."""
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
    """Offset that an administrator has put it to, until its cursor is durable there."""


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
    """The epoch of an earlier topic of that name counts for nothing."""
    epoch: int
    """A producer with a smaller one is fenced."""
    producer_name: str


@dataclass(frozen=True, slots=True)
class EpochRange:
    """Offsets that one owner of a topic wrote, and its journal. Its records outside of them count for nothing."""

    epoch: int
    journal_id: int
    first_offset: int
    end_offset: int | None = None
    """The offset after its last record; None while the epoch goes on. Set, the epoch is sealed."""
    position: int = 0
    """First byte in that journal. Records before it belong to a failed attempt to own the topic."""


@dataclass(frozen=True, slots=True)
class TopicStorage:
    """Ownership of one topic: the broker that has it, and the location of its messages."""

    topic_id: int
    manifest_version: int = 0
    """Version of the newest manifest; 0 while there is none."""
    epochs: tuple[EpochRange, ...] = ()
    """In a shared folder, epochs with records in a journal only; each continues where the one before it ended."""
    revision: int = 0
    """Revision for compare-and-set; 0 while the record was never written."""
    owner: int = 0
    """The broker that serves the topic, or served it last; 0 for none: it is new, or was released."""
    epoch: int = 0
    """Counts owners; 0 while the topic never had one."""

    def owned_by(self, broker_id: int) -> "TopicStorage":
        """The record once a broker owns the topic, under an epoch that no one had before."""
        return replace(self, owner=broker_id, epoch=self.epoch + 1)

    def validate(self) -> None:
        """Raise ValueError unless the numbers can be and the epochs are an unbroken run."""
        if self.topic_id < 0 or self.manifest_version < 0:
            raise ValueError(f"topic {self.topic_id} cannot have the manifest version {self.manifest_version}")
        for one in self.epochs:
            end_offset = one.first_offset if one.end_offset is None else one.end_offset
            if min(one.epoch, one.first_offset, one.position) < 0 or end_offset < one.first_offset:
                raise ValueError(f"epoch {one.epoch} cannot be offsets {one.first_offset} to {one.end_offset}")
        for before, after in pairwise(self.epochs):
            if before.epoch >= after.epoch or before.end_offset != after.first_offset:
                raise ValueError(f"epoch {after.epoch} does not go on where epoch {before.epoch} ended")


@dataclass(frozen=True, slots=True)
class LostLog:
    """A log on the disk of a broker that was lost; the topic that had it was started anew, with another id."""

    topic_id: int
    """Of the topic that had it. Its `TopicStorage` stays, so that the broker keeps the log."""
    name: TopicName
    broker: int
    """The broker that has it."""
    lost_ms: int
    """The time when the topic was started anew."""


encode_namespace, decode_namespace = record_values(NamespaceRecord, lambda record: keys.namespace(record.name))
encode_topic, decode_topic = record_values(TopicRecord, lambda record: keys.topic(record.name))
encode_subscription, decode_subscription = record_values(
    SubscriptionRecord, lambda record: keys.subscription(record.topic, record.name)
)
encode_consumer, decode_consumer = record_values(
    ConsumerRecord, lambda record: keys.consumer(record.topic, record.subscription, record.name)
)
encode_plan, decode_plan = record_values(Plan, lambda plan: keys.plan(plan.plan_id))
encode_producer_epoch, decode_producer_epoch = record_values(ProducerEpoch)
encode_topic_storage, decode_topic_storage = record_values(
    TopicStorage, lambda record: keys.stored_topic(record.topic_id), has_revision=True, check=TopicStorage.validate
)
encode_lost_log, decode_lost_log = record_values(LostLog, lambda lost: keys.lost_log(lost.topic_id))
encode_counter, _decode_counter = record_values(int)
"""Of a counter the last number that it gave out."""
_encode_partitions, _decode_partitions = record_values(tuple[int, ...])
encode_tombstone, decode_tombstone = record_values(int)
"""Of a deleted topic the broker that served it last and has its files; 0 for none. Its id is in the key."""


def decode_counter(entry: Entry | None) -> int:
    """The last number that a counter gave out; 0 when it is not there yet."""
    return _decode_counter(entry) if entry is not None else 0


def encode_partitioned(indexes: frozenset[int]) -> bytes:
    """The value that says which partitions a base topic has."""
    return _encode_partitions(tuple(sorted(indexes)))


def decode_partitioned(entry: Entry | None) -> frozenset[int]:
    """Indexes of the partitions that a base topic has; none without an entry."""
    return frozenset(_decode_partitions(entry)) if entry is not None else frozenset()

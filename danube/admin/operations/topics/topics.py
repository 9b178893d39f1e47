"""topics.*"""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from danube.admin.operations.fields import (
    IF_KNOWN,
    VOLATILE,
    WIDE,
    BrokerText,
    Id64,
    NotAnswered,
    Params,
    Result,
    TopicText,
    spelled,
    sum_known,
)
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.operations.topics.effective import EffectivePolicy, effective_policies
from danube.admin.operations.topics.topic_list import DELIVERY
from danube.model.calls.admin import (
    CreatePartitionedTopic,
    CreateTopic,
    DescribeTopics,
    SubscriptionDescription,
    TopicDescription,
    TopicDetails,
)
from danube.model.errors import NotFoundError, UnsupportedError
from danube.model.limits.broker import DESCRIBE_TOPICS_MAX, PARTITIONS_MAX
from danube.model.ownership import OwnershipState
from danube.model.plans.durability import Durability
from danube.model.plans.plan import Effect
from danube.model.topic import DispatchStrategy, TopicName


class Strategy(StrEnum):
    """Delivery mode of a topic."""

    NON_RELIABLE = "non_reliable"
    RELIABLE = "reliable"


_SPELLINGS = {"reliable_dispatch": "reliable", "reliable-dispatch": "reliable", "non-reliable": "non_reliable"}


class TopicParams(Params):
    """One topic."""

    topic: TopicText = Field(description="The topic: /namespace/name.")


class UnloadTopicParams(TopicParams):
    """A topic, and the broker that it goes to."""

    broker_id: BrokerText | None = Field(
        default=None,
        title="Broker",
        description="The broker that it goes to; by default one with the fewest topics.",
    )


class CreateTopicParams(Params):
    """A new topic."""

    name: TopicText = Field(description="The topic to create: /namespace/name.")
    partitions: int = Field(
        default=0,
        ge=0,
        le=PARTITIONS_MAX,
        description="Its partitions, named NAME-part-0 and so on; 0 is a plain topic.",
    )
    dispatch_strategy: Annotated[Strategy, spelled(_SPELLINGS)] = Field(
        default=Strategy.RELIABLE,
        description="`reliable` stores messages until they are acknowledged, as topics of `danube produce` do;"
        " `non_reliable` stores nothing.",
    )
    schema_subject: str | None = Field(default=None, max_length=300, description="The schema its messages have.")


class SubscriptionState(Result):
    """One subscription of a topic as it stands; null is not known, or not kept."""

    name: str = Field(description="Its name.")
    subscription_type: str = Field(title="Type", description="`Exclusive`, `Shared`, `Failover` or `KeyShared`.")
    state: str = Field(
        description="`active`, `idle` (no consumer is connected), or `blocked`: messages that failed too often hold up"
        " what follows (with their key in KeyShared). retry_blocked sends them again, skip_messages gives them up."
    )
    lag_messages: int | None = Field(title="Lag", description="Messages stored and not acknowledged.")
    in_flight: int | None = Field(description="Sent and not answered.")
    waiting: Annotated[int | None, WIDE] = Field(description="In back-off before they are sent again.")
    blocked: int | None = Field(description="Failed too often, until somebody decides.")
    consumers: int = Field(description="Consumers with an open stream.")
    oldest_unacknowledged_ms: Annotated[int | None, VOLATILE] = Field(
        title="Oldest unread",
        description="When the oldest unacknowledged message was stored, milliseconds since the epoch.",
    )


class PartitionState(Result):
    """One partition as it stands; null is not known, or not kept."""

    name: str = Field(description="Its name.")
    broker_id: Annotated[str, VOLATILE] = Field(
        title="Broker", description="The broker that it belongs to; empty for none."
    )
    state: OwnershipState | None = Field(description="As that of a topic.")
    start_offset: int | None = Field(description="The first offset that can be read.")
    end_offset: int | None = Field(description="The offset after the last stored message.")
    stored_bytes: int | None = Field(description="Bytes of the messages that can be read.")
    producers: Annotated[int | None, VOLATILE] = Field(description="Producers attached now.")


class TopicDetail(Result):
    """One topic in full; null is not known. Of a partitioned topic the numbers are sums over its partitions."""

    topic: str = Field(description="Its name.")
    broker_id: Annotated[str, VOLATILE] = Field(
        title="Broker", description="The broker that it belongs to; empty for none."
    )
    state: OwnershipState | None = Field(
        description="`served`; `moving` to target_broker_id, and served until that is ready; `opening` there; `waiting`"
        " for its broker, whose disk has its messages; `unassigned`. Null: the broker does not tell."
    )
    reason: Annotated[str | None, IF_KNOWN] = Field(
        description="Why nobody serves it, and what to do; null while somebody does."
    )
    target_broker_id: Annotated[str | None, VOLATILE, IF_KNOWN] = Field(description="The broker that it moves to.")
    copied_bytes: Annotated[int | None, VOLATILE, IF_KNOWN] = Field(
        description="Of its log, copied to that broker's disk."
    )
    log_bytes: Annotated[int | None, VOLATILE, IF_KNOWN] = Field(description="Bytes of that log.")
    delivery: str = Field(description="`Reliable` or `NonReliable`.")
    schema_subject: Annotated[str | None, IF_KNOWN] = Field(description="The schema its messages have.")
    schema_id: Annotated[Id64 | None, IF_KNOWN] = Field(description="The id of that schema.")
    schema_version: Annotated[int | None, IF_KNOWN] = Field(description="Its version.")
    schema_type: Annotated[str | None, IF_KNOWN] = Field(description="Its type.")
    compatibility_mode: Annotated[str | None, IF_KNOWN] = Field(description="How its versions may follow each other.")
    subscriptions: list[str] = Field(description="The names of its subscriptions.")
    start_offset: int | None = Field(
        description="The first offset that can be read; partitions have their own, and no sum."
    )
    end_offset: int | None = Field(description="The offset after the last stored message, likewise.")
    producers: Annotated[int | None, VOLATILE] = Field(description="Producers attached now.")
    messages_in: int | None = Field(description="Messages taken since the broker started.")
    bytes_in: int | None = Field(description="Their bytes.")
    stored_bytes: int | None = Field(description="Bytes of the messages that can be read.")
    segments: int | None = Field(description="Files that hold them; what is newer is in the broker's journal.")
    segment_file_bytes: Annotated[int | None, WIDE] = Field(description="Bytes of those files.")
    oldest_message_ms: Annotated[int | None, VOLATILE] = Field(
        description="When the oldest message that can be read was stored, milliseconds since the epoch."
    )
    newest_message_ms: Annotated[int | None, VOLATILE] = Field(
        description="When the newest message was stored, milliseconds since the epoch."
    )
    unsynced_bytes: Annotated[int | None, IF_KNOWN] = Field(
        description="Acknowledged and not synced: a power cut may take them. 0 with durability fsync."
    )
    not_uploaded_bytes: Annotated[int | None, VOLATILE, IF_KNOWN] = Field(
        default=None,
        description="On the broker's disk alone; null without an object store, as the rest.",
    )
    not_uploaded_since_ms: Annotated[int | None, VOLATILE, IF_KNOWN] = Field(
        default=None, description="When the oldest of that was stored; null where all is uploaded."
    )
    object_bytes: Annotated[int | None, IF_KNOWN] = Field(
        default=None, description="Bytes of its segments in the object store."
    )
    object_puts: Annotated[int | None, VOLATILE, IF_KNOWN] = Field(
        default=None,
        description="PUT requests for its segments and manifests since the broker started. Those of the journal are of"
        " all topics together: see the bill.",
    )
    object_gets: Annotated[int | None, VOLATILE, IF_KNOWN] = Field(default=None, description="GET and HEAD likewise.")
    object_lists: Annotated[int | None, VOLATILE, IF_KNOWN] = Field(default=None, description="LIST likewise.")
    object_deletes: Annotated[int | None, VOLATILE, IF_KNOWN] = Field(default=None, description="DELETE likewise.")
    object_month_dollars: Annotated[float | None, VOLATILE, IF_KNOWN] = Field(
        default=None, description="Dollars a month, if those requests go on, and for keeping those bytes."
    )
    durability: Durability | None = Field(
        description="When a publish is acknowledged: fsync, after the sync; interval and os, before. Null where"
        " nothing is kept, or the broker does not tell."
    )
    messages_expired: Annotated[int | None, IF_KNOWN] = Field(
        description="Passed over unread since the broker started: too old, or let go of by retention."
    )
    subscription_count: Annotated[int, WIDE] = Field(description="Subscriptions there are.")
    pending_policies: Annotated[list[str], IF_KNOWN] = Field(
        description="Subscriptions that do not exist yet and have policies already; they begin with them."
    )
    subscription_states: list[SubscriptionState] = Field(
        description="The first subscriptions as they stand; empty where the broker does not tell."
    )
    policies: Annotated[list[EffectivePolicy], IF_KNOWN] = Field(
        description="Limits that hold for it, and the source of each; empty where the broker does not tell."
    )
    not_answered: NotAnswered = Field(default=[])
    partitions: Annotated[list[PartitionState], IF_KNOWN] = Field(
        default_factory=list, description="Partitions of a partitioned topic; empty for any other."
    )


class TopicCreated(Result):
    """A topic that was created."""

    topic: str = Field(description="Its name.")
    delivery: str = Field(description="`Reliable` or `NonReliable`.")
    partitions: int = Field(description="Its partitions; 0 for a plain topic.")
    schema_subject: str | None = Field(description="The schema its messages have.")
    created: bool = Field(description="True: it is there now and was not before.")


async def _describe(call: Call, params: TopicParams) -> TopicDetail:
    name = TopicName.parse(params.topic)
    partitions, missing = await _partitions(call, name)
    if partitions:
        first, policies = await asyncio.gather(
            call.gateway.topic(partitions[0].topic), effective_policies(call.gateway, name)
        )
        return _partitioned(name, partitions, first, policies=policies, not_answered=missing)
    details, described, policies = await asyncio.gather(
        call.gateway.topic(name), described_topic(call, name), effective_policies(call.gateway, name)
    )
    state = described.state if described else None
    counted = described if described and described.is_served else None
    storage = counted.storage if counted else None
    return TopicDetail.of(
        counted,
        storage,
        topic=str(details.info.topic),
        broker_id=details.info.broker_id or "",
        state=state.state if state else None,
        reason=(state.reason or None) if state else None,
        target_broker_id=state.target_broker_id if state else None,
        copied_bytes=state.copied_bytes if state else None,
        log_bytes=state.log_bytes if state else None,
        delivery=DELIVERY[details.info.strategy],
        **_schema_of(details),
        subscriptions=details.subscriptions,
        oldest_message_ms=storage.oldest_ms if storage else None,
        newest_message_ms=storage.newest_ms if storage else None,
        subscription_count=len(details.subscriptions),
        pending_policies=described.pending_policies if described else (),
        subscription_states=[_state(each) for each in described.subscriptions] if described else [],
        policies=policies,
        not_answered=[],
        partitions=[],
    )


async def _partitions(call: Call, name: TopicName) -> tuple[Sequence[TopicDescription], list[str]]:
    """The partitions of a base name, and the brokers of others that did not answer.

    None of a plain topic, and where the broker does not tell.
    """
    try:
        page = await call.gateway.describe_topics(DescribeTopics(topics=(name,), page_size=DESCRIBE_TOPICS_MAX))
    except (UnsupportedError, NotFoundError):  # what is not there is for the other call to say
        return (), []
    found = {topic.topic: topic for topic in page.topics if topic.base == name}
    return sorted(found.values(), key=lambda topic: topic.topic.partition_index or 0), [*page.not_answered]


def _schema_of(details: TopicDetails) -> dict[str, Any]:
    return {name: getattr(details, name) for name in _SCHEMA}


_SCHEMA = ("schema_subject", "schema_id", "schema_version", "schema_type", "compatibility_mode")


def _partitioned(
    name: TopicName,
    partitions: Sequence[TopicDescription],
    first: TopicDetails,
    **rest: Any,  # noqa: ANN401 - fields of the result
) -> TopicDetail:
    """All partitions of a topic as one; `first` is one of them."""
    served = [each for each in partitions if each.is_served]
    storages = [each.storage for each in served if each.storage]
    odd = [each.state for each in partitions if each.state and each.state.state is not OwnershipState.SERVED]
    subscriptions = _over_partitions([_state(one) for each in served for one in each.subscriptions])
    return TopicDetail.of(
        None,
        topic=str(name),
        broker_id=", ".join(sorted({each.broker_id for each in partitions if each.broker_id})),
        state=odd[0].state if odd else OwnershipState.SERVED,
        reason=next((state.reason for state in odd if state.reason), None),
        target_broker_id=", ".join(sorted({state.target_broker_id for state in odd if state.target_broker_id})) or None,
        copied_bytes=sum_known(state.copied_bytes for state in odd),
        log_bytes=sum_known(state.log_bytes for state in odd),
        delivery=DELIVERY[partitions[0].strategy],
        subscriptions=[each.name for each in subscriptions],
        **_schema_of(first),
        producers=sum(each.producers for each in served),
        messages_in=sum(each.messages_in for each in served),
        bytes_in=sum(each.bytes_in for each in served),
        oldest_message_ms=min((each.oldest_ms for each in storages if each.oldest_ms is not None), default=None),
        newest_message_ms=max((each.newest_ms for each in storages if each.newest_ms is not None), default=None),
        **{name: sum_known(getattr(each, name) for each in storages) for name in _STORED},
        not_uploaded_since_ms=min(filter(None, (each.not_uploaded_since_ms for each in storages)), default=None),
        durability=storages[0].durability if storages else None,
        messages_expired=sum(each.messages_expired for each in served),
        subscription_count=len(subscriptions),
        pending_policies=sorted({one for each in partitions for one in each.pending_policies}),
        subscription_states=subscriptions,
        partitions=[_partition(each) for each in partitions],
        **rest,
    )


def _partition(topic: TopicDescription) -> PartitionState:
    counted = topic if topic.is_served else None
    return PartitionState.of(
        counted,
        counted.storage if counted else None,
        name=str(topic.topic),
        broker_id=topic.broker_id or "",
        state=topic.state.state if topic.state else None,
    )


def _over_partitions(states: Sequence[SubscriptionState]) -> list[SubscriptionState]:
    """Subscriptions of all partitions, each once: sums, and `blocked` where one partition is."""
    by_name: dict[str, list[SubscriptionState]] = {}
    for each in states:
        by_name.setdefault(each.name, []).append(each)
    found = []
    for members in by_name.values():
        order = {"blocked": 0, "active": 1}
        sums = {name: sum_known(getattr(each, name) for each in members) for name in _SUMMED}
        oldest = [each.oldest_unacknowledged_ms for each in members if each.oldest_unacknowledged_ms is not None]
        found.append(
            min(members, key=lambda each: order.get(each.state, 2)).model_copy(
                update={**sums, "oldest_unacknowledged_ms": min(oldest, default=None)}
            )
        )
    return sorted(found, key=lambda each: each.name)


_STORED = (
    "stored_bytes",
    "segments",
    "segment_file_bytes",
    "unsynced_bytes",
    "not_uploaded_bytes",
    "object_bytes",
    "object_puts",
    "object_gets",
    "object_lists",
    "object_deletes",
    "object_month_dollars",
)
_SUMMED = ("lag_messages", "in_flight", "waiting", "blocked", "consumers")


async def described_topic(call: Call, name: TopicName) -> TopicDescription | None:
    """The topic in full, without most of its subscriptions; None where the broker does not tell, or has none."""
    try:
        page = await call.gateway.describe_topics(DescribeTopics(topics=(name,), page_size=1))
    except (UnsupportedError, NotFoundError):  # what is not there is for the other call to say
        return None
    return page.topics[0] if page.topics else None


TYPE_WORDS = {"EXCLUSIVE": "Exclusive", "SHARED": "Shared", "FAILOVER": "Failover", "KEY_SHARED": "KeyShared"}


def _state(subscription: SubscriptionDescription) -> SubscriptionState:
    kept = subscription.reliable
    return SubscriptionState.of(
        subscription,
        kept,
        subscription_type=TYPE_WORDS[subscription.type.name],
        lag_messages=kept.lag if kept else None,
        consumers=subscription.connected_count,
    )


async def _create(call: Call, params: CreateTopicParams) -> TopicCreated:
    topic = TopicName.parse(params.name)
    strategy = DispatchStrategy[params.dispatch_strategy.name]
    if params.partitions:
        await call.gateway.create_partitioned_topic(
            CreatePartitionedTopic(
                base=topic, partitions=params.partitions, strategy=strategy, schema_subject=params.schema_subject
            )
        )
    else:
        await call.gateway.create_topic(
            CreateTopic(topic=topic, strategy=strategy, schema_subject=params.schema_subject)
        )
    return TopicCreated(
        topic=params.name,
        delivery=DELIVERY[strategy],
        partitions=params.partitions,
        schema_subject=params.schema_subject,
        created=True,
    )


DESCRIBE_TOPIC = Operation(
    name="describe_topic",
    words=("topics", "describe"),
    summary="Show a topic with its subscriptions and their lag.",
    description="Of a partitioned topic, the sums and each partition.",
    effect=Effect.READ,
    params=TopicParams,
    result=TopicDetail,
    run=_describe,
    positional=("topic",),
    examples=(Example("The topic /default/orders", {"topic": "/default/orders"}),),
)

CREATE_TOPIC = Operation(
    name="create_topic",
    words=("topics", "create"),
    summary="Create a topic, plain or with partitions.",
    description="Its namespace has to be there. How it delivers cannot be changed later.",
    effect=Effect.WRITE,
    params=CreateTopicParams,
    result=TopicCreated,
    run=_create,
    done="Topic created: {topic}",
    positional=("name",),
    examples=(
        Example("A topic that keeps messages until they are acknowledged", {"name": "/default/invoices"}),
        Example("One with three partitions", {"name": "/default/clicks", "partitions": 3}),
    ),
)

DELETE_TOPIC = Operation(
    name="delete_topic",
    words=("topics", "delete"),
    summary="Delete a topic with its messages and subscriptions.",
    description="The name of a partitioned topic deletes all its partitions. It cannot be undone.",
    effect=Effect.DESTROY,
    params=TopicParams,
    result=PlannedResult,
    positional=("topic",),
    examples=(
        Example("The topic /default/orders", {"topic": "/default/orders"}),
        Example("All partitions of /default/events", {"topic": "/default/events"}),
    ),
)

UNLOAD_TOPIC = Operation(
    name="unload_topic",
    words=("topics", "unload"),
    summary="Move a topic to another broker, with its messages and subscriptions.",
    description="The name of a partitioned topic moves all its partitions. describe_topic shows how far it has come.",
    effect=Effect.MOVE,
    params=UnloadTopicParams,
    result=PlannedResult,
    positional=("topic",),
    examples=(
        Example("The topic /default/orders", {"topic": "/default/orders"}),
        Example("All partitions of /default/events", {"topic": "/default/events"}),
    ),
)

OPERATIONS = (DESCRIBE_TOPIC, CREATE_TOPIC, UNLOAD_TOPIC, DELETE_TOPIC)

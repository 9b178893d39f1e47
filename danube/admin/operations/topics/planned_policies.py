"""Policies that a plan alone changes: how long messages are kept and offered, and when they are acknowledged."""

from typing import Annotated

from pydantic import Field

from danube.admin.operations.fields import NamespaceText, Opposite, SizeB, SpanS, TopicText
from danube.admin.operations.operation import Example, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.operations.topics.policies import TOOLSET, ChangeParams
from danube.model.limits.broker import MESSAGE_TTL_S_MAX, RETENTION_BYTES_MAX, RETENTION_TIME_S_MAX
from danube.model.plans.durability import Durability
from danube.model.plans.plan import Effect
from danube.model.plans.policy_changes import durability_change, message_ttl_change, retention_change
from danube.model.policies import PolicyChange

_Seconds = Annotated[SpanS, Field(ge=0, le=RETENTION_TIME_S_MAX)]
_Bytes = Annotated[SizeB, Field(ge=0, le=RETENTION_BYTES_MAX)]


class RetentionParams(ChangeParams):
    """A change of how long messages are kept; what is not given stays."""

    time_s: _Seconds | None = Field(
        default=None, description="Seconds that messages are kept for, or such as 7d; 0 is for ever."
    )
    bytes: _Bytes | None = Field(
        default=None,
        description="Bytes of one topic, or such as 10GiB, above which its oldest messages go; 0 is no limit.",
    )
    drops_unread: Annotated[bool | None, Opposite("keeps-unread")] = Field(
        default=None, description="Whether what a subscription has not acknowledged goes, too."
    )
    clear: bool = Field(default=False, description="Inherit what is not given, instead of leaving it as it is.")

    def change(self) -> PolicyChange:
        return retention_change(self.model_dump(mode="json"))


class SetTopicRetentionParams(RetentionParams):
    """The retention of a topic."""

    topic: TopicText = Field(description="The topic: /namespace/name; of a partitioned one, all its partitions.")


class SetNamespaceRetentionParams(RetentionParams):
    """The retention of a namespace."""

    namespace: NamespaceText = Field(description="The namespace, without a slash.")


SET_NAMESPACE_RETENTION = Operation(
    name="set_namespace_retention",
    words=("namespaces", "set-retention"),
    summary="Set how long the topics of a namespace keep their messages.",
    description="Where a topic does not set it itself. Older messages are deleted for good; the plan says which.",
    effect=Effect.DESTROY,
    params=SetNamespaceRetentionParams,
    result=PlannedResult,
    positional=("namespace",),
    toolset=TOOLSET,
    examples=(
        Example(
            "A week, and for longer what is unread",
            {"namespace": "staging", "time_s": 604_800, "drops_unread": False},
        ),
    ),
)

SET_TOPIC_RETENTION = Operation(
    name="set_topic_retention",
    words=("topics", "set-retention"),
    summary="Set how long a topic keeps its messages.",
    description="Older messages are deleted for good; the plan says which. get_topic_policies shows what holds.",
    effect=Effect.DESTROY,
    params=SetTopicRetentionParams,
    result=PlannedResult,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(
        Example("At most ten gigabytes", {"topic": "/default/orders", "bytes": 10_000_000_000}),
        Example(
            "A day, and all else as the namespace has it",
            {"topic": "/default/events", "time_s": 86_400, "clear": True},
        ),
    ),
)


class DurabilityParams(ChangeParams):
    """A change of when publishes are acknowledged."""

    durability: Durability | None = Field(
        default=None,
        description="fsync: after the sync; interval: before it, and it follows; os: when the system likes.",
    )
    clear: bool = Field(default=False, description="Inherit it again, instead of setting it.")

    def change(self) -> PolicyChange:
        return durability_change(self.model_dump(mode="json"))


class SetTopicDurabilityParams(DurabilityParams):
    """The durability of a topic."""

    topic: TopicText = Field(description="The topic: /namespace/name; of a partitioned one, all its partitions.")


class SetNamespaceDurabilityParams(DurabilityParams):
    """The durability of a namespace."""

    namespace: NamespaceText = Field(description="The namespace, without a slash.")


SET_NAMESPACE_DURABILITY = Operation(
    name="set_namespace_durability",
    words=("namespaces", "set-durability"),
    summary="Set when publishes to the topics of a namespace are acknowledged.",
    description="Where a topic does not set it itself. interval, os: a power cut may take what was acknowledged.",
    effect=Effect.DESTROY,
    params=SetNamespaceDurabilityParams,
    result=PlannedResult,
    positional=("namespace",),
    toolset=TOOLSET,
    examples=(
        Example("Acknowledged before the sync, which follows", {"namespace": "staging", "durability": "interval"}),
    ),
)

SET_TOPIC_DURABILITY = Operation(
    name="set_topic_durability",
    words=("topics", "set-durability"),
    summary="Set when publishes to a topic are acknowledged.",
    description="interval, os: a power cut may take what was acknowledged. get_topic_policies shows what holds.",
    effect=Effect.DESTROY,
    params=SetTopicDurabilityParams,
    result=PlannedResult,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(
        Example("Faster, and a power cut takes the newest", {"topic": "/default/events", "durability": "os"}),
        Example("Synced before it is acknowledged", {"topic": "/default/orders", "durability": "fsync"}),
    ),
)


class MessageTtlParams(ChangeParams):
    """A change of how long a message is offered to subscriptions."""

    ttl_s: Annotated[SpanS, Field(ge=0, le=MESSAGE_TTL_S_MAX)] | None = Field(
        default=None,
        description="Seconds, or such as 7d, after which subscriptions pass over a message that they have not"
        " acknowledged; 0 is never.",
    )
    clear: bool = Field(default=False, description="Inherit it again, instead of setting it.")

    def change(self) -> PolicyChange:
        return message_ttl_change(self.model_dump(mode="json"))


class SetTopicMessageTtlParams(MessageTtlParams):
    """The message TTL of a topic."""

    topic: TopicText = Field(description="The topic: /namespace/name; of a partitioned one, all its partitions.")


class SetNamespaceMessageTtlParams(MessageTtlParams):
    """The message TTL of a namespace."""

    namespace: NamespaceText = Field(description="The namespace, without a slash.")


SET_NAMESPACE_MESSAGE_TTL = Operation(
    name="set_namespace_message_ttl",
    words=("namespaces", "set-message-ttl"),
    summary="Set how long messages of a namespace are offered to subscriptions.",
    description="Where a topic does not set it itself. Older messages are passed over; the plan says whose.",
    effect=Effect.DESTROY,
    params=SetNamespaceMessageTtlParams,
    result=PlannedResult,
    positional=("namespace",),
    toolset=TOOLSET,
    examples=(Example("Three days", {"namespace": "staging", "ttl_s": 259_200}),),
)

SET_TOPIC_MESSAGE_TTL = Operation(
    name="set_topic_message_ttl",
    words=("topics", "set-message-ttl"),
    summary="Set how long messages of a topic are offered to subscriptions.",
    description="Older messages are passed over; the plan says whose. get_topic_policies shows what holds.",
    effect=Effect.DESTROY,
    params=SetTopicMessageTtlParams,
    result=PlannedResult,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(Example("An hour", {"topic": "/default/orders", "ttl_s": 3_600}),),
)

OPERATIONS = (
    SET_NAMESPACE_RETENTION,
    SET_TOPIC_RETENTION,
    SET_NAMESPACE_MESSAGE_TTL,
    SET_TOPIC_MESSAGE_TTL,
    SET_NAMESPACE_DURABILITY,
    SET_TOPIC_DURABILITY,
)

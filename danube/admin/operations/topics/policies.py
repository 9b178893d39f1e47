"""Limits of topics and namespaces: a topic's own come first, then its namespace's, then the broker's settings."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from danube.admin.operations.fields import WIDE, NamespaceText, Params, Result, SizeB, TopicText
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.topics.effective import limit_text, origins_of, origins_of_topic, values_of
from danube.admin.operations.topics.topics import TopicParams
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import POLICY_NUMBER_MAX
from danube.model.plans.durability import Durability
from danube.model.plans.plan import Effect
from danube.model.policies import (
    Policies,
    PoliciesView,
    PolicyChange,
    SetNamespacePolicies,
    SetTopicPolicies,
)
from danube.model.topic import TopicName

TOOLSET = "policies"


class PolicyName(StrEnum):
    """A limit that is set without a plan."""

    MAX_PRODUCERS_PER_TOPIC = "max_producers_per_topic"
    MAX_SUBSCRIPTIONS_PER_TOPIC = "max_subscriptions_per_topic"
    MAX_CONSUMERS_PER_TOPIC = "max_consumers_per_topic"
    MAX_CONSUMERS_PER_SUBSCRIPTION = "max_consumers_per_subscription"
    MAX_PUBLISH_RATE = "max_publish_rate"
    MAX_PUBLISH_RATE_BYTES = "max_publish_rate_bytes"
    MAX_SUBSCRIPTION_DISPATCH_RATE = "max_subscription_dispatch_rate"
    MAX_MESSAGE_SIZE = "max_message_size"


_Number = Annotated[int, Field(ge=0, le=POLICY_NUMBER_MAX)]
_Bytes = Annotated[SizeB, Field(ge=0, le=POLICY_NUMBER_MAX)]


class ChangeParams(Params):
    """A change of policies."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        try:
            self.change()
        except InvalidRequestError as error:
            raise ValueError(str(error)) from None
        return self

    def change(self) -> PolicyChange:
        """The change as a value. Raises InvalidRequestError."""
        raise NotImplementedError


class LimitParams(ChangeParams):
    """Limits to set, and limits to inherit again; what is not named stays. 0 is no limit."""

    max_producers_per_topic: _Number | None = Field(default=None, description="Producers attached to one topic.")
    max_subscriptions_per_topic: _Number | None = Field(default=None, description="Subscriptions of one topic.")
    max_consumers_per_topic: _Number | None = Field(default=None, description="Consumers of one topic.")
    max_consumers_per_subscription: _Number | None = Field(default=None, description="Consumers of one subscription.")
    max_publish_rate: _Number | None = Field(default=None, description="Messages a second into one topic.")
    max_publish_rate_bytes: _Bytes | None = Field(default=None, description="Bytes a second into one topic.")
    max_subscription_dispatch_rate: _Number | None = Field(
        default=None, description="Messages a second that one subscription sends."
    )
    max_message_size: _Bytes | None = Field(default=None, description="Bytes of one payload.")
    unset: list[PolicyName] = Field(
        default_factory=list, max_length=len(PolicyName), description="Limits to inherit again, by their names."
    )

    @field_validator("unset", mode="before")
    @classmethod
    def _as_options(cls, names: object) -> object:
        """A person names them as they name the options: with dashes."""
        return [str(name).replace("-", "_") for name in names] if isinstance(names, list) else names

    def change(self) -> PolicyChange:
        given = Policies(**{name.value: getattr(self, name.value) for name in PolicyName})
        if not self.unset and not given.given():
            raise InvalidRequestError("Nothing to change: pass a limit, or name one in --unset")
        return PolicyChange(given=given, unset=frozenset(each.value for each in self.unset))


class SetNamespacePoliciesParams(LimitParams):
    """Limits of a namespace."""

    namespace: NamespaceText = Field(description="The namespace, without a slash.")


class SetTopicPoliciesParams(LimitParams):
    """Limits of a topic."""

    topic: TopicText = Field(description="The topic: /namespace/name; of a partitioned one, all its partitions.")


class LimitsResult(Result):
    """The limits that hold; 0 is no limit beyond what the broker itself can do."""

    name: str = Field(description="The namespace, or the topic.")
    set_here: list[str] = Field(description="Which of them are set here; the others are inherited.")
    origins: Annotated[dict[str, str], WIDE] = Field(
        description="Where each comes from: `topic`, `namespace`, or `broker` for its settings."
    )
    max_producers_per_topic: int = Field(description="Producers attached to one topic.")
    max_subscriptions_per_topic: int = Field(description="Subscriptions of one topic.")
    max_consumers_per_topic: int = Field(description="Consumers of one topic.")
    max_consumers_per_subscription: int = Field(description="Consumers of one subscription.")
    max_publish_rate: int = Field(
        title="Max publish rate (messages/s)", description="Messages a second into one topic."
    )
    max_publish_rate_bytes: int = Field(
        title="Max publish rate (bytes/s)", description="Bytes a second into one topic."
    )
    max_subscription_dispatch_rate: int = Field(
        title="Max subscription dispatch rate (messages/s)",
        description="Messages a second that one subscription sends.",
    )
    max_message_size: int = Field(title="Max message size (bytes)", description="Bytes of one payload.")
    message_ttl_s: int = Field(
        title="Message TTL (s)",
        description="Seconds after which subscriptions pass over a message they have not acknowledged.",
    )
    retention_time_s: int = Field(
        title="Retention time (s)", description="Seconds after which messages are deleted for good."
    )
    retention_bytes: int = Field(
        title="Retention (bytes)",
        description="Bytes of one topic above which its oldest messages are deleted for good.",
    )
    retention_drops_unread: bool = Field(
        title="Retention drops unread",
        description="Whether retention also deletes what a subscription has not acknowledged.",
    )
    durability: Durability | None = Field(
        description="When a publish is acknowledged: fsync, after the sync; interval and os, before. Null where"
        " nothing is kept, or the broker does not tell."
    )

    def words(self) -> Mapping[str, str]:
        """Each limit with its origin."""
        return {name: limit_text(name, getattr(self, name), origin) for name, origin in self.origins.items()}


def _limits(name: str, view: PoliciesView, origins: dict[str, str]) -> LimitsResult:
    return LimitsResult(name=name, set_here=list(view.own.given()), origins=origins, **values_of(view.holding))


async def _of_topic(call: Call, name: str, view: PoliciesView) -> LimitsResult:
    return _limits(name, view, await origins_of_topic(call.gateway, TopicName.parse(name), view))


async def _set_namespace(call: Call, params: SetNamespacePoliciesParams) -> LimitsResult:
    wanted = SetNamespacePolicies(namespace=params.namespace, change=params.change())
    view = await call.gateway.set_namespace_policies(wanted)
    return _limits(params.namespace, view, origins_of(("namespace", view.own)))


async def _topic(call: Call, params: TopicParams) -> LimitsResult:
    return await _of_topic(call, params.topic, await call.gateway.topic_policies(TopicName.parse(params.topic)))


async def _set_topic(call: Call, params: SetTopicPoliciesParams) -> LimitsResult:
    wanted = SetTopicPolicies(topic=TopicName.parse(params.topic), change=params.change())
    return await _of_topic(call, params.topic, await call.gateway.set_topic_policies(wanted))


SET_NAMESPACE_POLICIES = Operation(
    name="set_namespace_policies",
    words=("namespaces", "set-policies"),
    summary="Set limits for the topics of a namespace.",
    description="What is not named stays; 0 is no limit. They hold at once, where a topic does not set its own."
    " How long messages are kept is for set_namespace_retention, when they are acknowledged for"
    " set_namespace_durability, and when they are passed over for set_namespace_message_ttl.",
    effect=Effect.WRITE,
    params=SetNamespacePoliciesParams,
    result=LimitsResult,
    run=_set_namespace,
    done="Limits set for {name}; 0 is no limit",
    positional=("namespace",),
    toolset=TOOLSET,
    examples=(
        Example(
            "A thousand messages a second into each topic",
            {"namespace": "staging", "max_publish_rate": 1_000},
        ),
    ),
    is_idempotent=True,
)

GET_TOPIC_POLICIES = Operation(
    name="get_topic_policies",
    words=("topics", "policies"),
    summary="Show the limits that hold for a topic.",
    done="0 is no limit.",
    effect=Effect.READ,
    params=TopicParams,
    result=LimitsResult,
    run=_topic,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(Example("Those of /default/orders", {"topic": "/default/orders"}),),
)

SET_TOPIC_POLICIES = Operation(
    name="set_topic_policies",
    words=("topics", "set-policies"),
    summary="Set limits for a topic.",
    description="What is not named stays; 0 is no limit. They hold at once, and come before those of the namespace."
    " How long messages are kept is for set_topic_retention, when they are acknowledged for"
    " set_topic_durability, and when they are passed over for set_topic_message_ttl.",
    effect=Effect.WRITE,
    params=SetTopicPoliciesParams,
    result=LimitsResult,
    run=_set_topic,
    done="Limits set for {name}; 0 is no limit",
    positional=("topic",),
    toolset=TOOLSET,
    examples=(
        Example(
            "At most ten consumers, and payloads of a megabyte",
            {"topic": "/default/orders", "max_consumers_per_topic": 10, "max_message_size": 1_048_576},
        ),
        Example(
            "No limit on the rate, and two limits as the namespace has them",
            {
                "topic": "/default/events",
                "max_publish_rate": 0,
                "unset": ["max_message_size", "max_consumers_per_topic"],
            },
        ),
    ),
    is_idempotent=True,
)

OPERATIONS = (SET_NAMESPACE_POLICIES, GET_TOPIC_POLICIES, SET_TOPIC_POLICIES)

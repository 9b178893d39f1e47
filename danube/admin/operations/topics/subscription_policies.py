"""Rules of a subscription: what it does with messages that fail, and how many a consumer may hold."""

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from danube.admin.operations.fields import Result, SpanMs, TopicText, spelled
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.operations.topics.policies import TOOLSET
from danube.admin.operations.topics.positions import SubscriptionParams
from danube.admin.operations.topics.topics import TYPE_WORDS
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import POLICY_DELAY_MS_MAX, REDELIVERIES_MAX, UNACKED_MESSAGES_MAX
from danube.model.plans.plan import Effect
from danube.model.plans.policy_changes import drop_policy
from danube.model.policies import FailurePolicy, PoisonPolicy, SetDispatchWindow, SetFailurePolicy
from danube.model.topic import TopicName


class BackoffWord(StrEnum):
    """Growth of the delay from one redelivery to the next."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"


class PoisonWord(StrEnum):
    """Fate of a message that was delivered as often as it may be."""

    DEAD_LETTER = "dead_letter"
    BLOCK = "block"
    DROP = "drop"


_SPELLED = spelled({"dead-letter": "dead_letter"})
_Redeliveries = Annotated[int, Field(ge=0, le=REDELIVERIES_MAX)]
_DelayMs = Annotated[SpanMs, Field(ge=0, le=POLICY_DELAY_MS_MAX)]


class _FailureParams(SubscriptionParams):
    """A failure policy, but what becomes of a message in the end."""

    max_redelivery_count: _Redeliveries = Field(description="How often a message is sent again after the first time.")
    ack_timeout_ms: _DelayMs = Field(ge=1, description="A message not acknowledged for this long is sent again.")
    base_redelivery_delay_ms: _DelayMs = Field(description="Before the first redelivery.")
    max_redelivery_delay_ms: _DelayMs = Field(description="The most before any redelivery.")
    backoff_strategy: Annotated[BackoffWord, _SPELLED] = Field(
        default=BackoffWord.FIXED, description="Whether each delay is as long as the first, or doubles."
    )

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        try:
            self.policy()
        except InvalidRequestError as error:
            raise ValueError(str(error)) from None
        return self

    def policy(self) -> FailurePolicy:
        """As a value. Raises InvalidRequestError."""
        return drop_policy(self.model_dump(mode="json"))


class SetDropPolicyParams(_FailureParams):
    """A policy that drops what was sent that often; it replaces the one before."""


class SetFailurePolicyParams(_FailureParams):
    """The whole policy, which replaces the one before."""

    poison_policy: Annotated[PoisonWord, _SPELLED] = Field(
        description="A message that was sent that often: `dead_letter` moves it to a topic, `block` keeps it and sends"
        " nothing new."
    )
    dead_letter_topic: TopicText | None = Field(
        default=None, description="Where `dead_letter` moves messages: another topic."
    )

    def policy(self) -> FailurePolicy:
        if self.poison_policy is PoisonWord.DROP:
            raise InvalidRequestError(
                "poison_policy drop loses messages for good, and is set by a plan: use set_subscription_drop_policy"
                " (danube-admin topics set-drop-policy)"
            )
        if self.dead_letter_topic == self.topic:
            raise InvalidRequestError(
                "dead_letter_topic is the topic itself: messages that fail would come back for ever"
            )
        return replace(
            super().policy(),
            dead_letter_topic=TopicName.parse(self.dead_letter_topic) if self.dead_letter_topic else None,
            poison=PoisonPolicy[self.poison_policy.name],
        )


class SetDispatchParams(SubscriptionParams):
    """Limit of what a consumer may hold unacknowledged."""

    max_unacked_messages: int = Field(
        ge=1, le=UNACKED_MESSAGES_MAX, description="Messages that one consumer may hold and not have acknowledged."
    )


class FailurePolicyResult(Result):
    """The failure policy of a subscription; where none is set the fields are null and the broker's defaults hold."""

    topic: str = Field(description="The topic.")
    subscription: str = Field(description="The subscription.")
    subscription_type: str = Field(
        description="`Exclusive`, `Shared`, `Failover` or `KeyShared`; empty while the subscription does not exist."
    )
    is_set: bool = Field(title="Set", description="Whether a policy is set; else the defaults of the broker hold.")
    max_redelivery_count: int | None = Field(description="How often a message is sent again after the first time.")
    ack_timeout_ms: int | None = Field(
        title="Ack timeout (ms)", description="A message not acknowledged for this long is sent again."
    )
    base_redelivery_delay_ms: int | None = Field(
        title="Base redelivery delay (ms)", description="Before the first redelivery."
    )
    max_redelivery_delay_ms: int | None = Field(
        title="Max redelivery delay (ms)", description="The most before any redelivery."
    )
    backoff_strategy: BackoffWord | None = Field(description="How the delay grows.")
    poison_policy: PoisonWord | None = Field(description="What becomes of a message that was sent that often.")
    dead_letter_topic: str | None = Field(description="Where `dead_letter` moves messages.")


class DispatchResult(Result):
    """Dispatch limits of a subscription."""

    topic: str = Field(description="The topic.")
    subscription: str = Field(description="The subscription.")
    max_unacked_messages: int | None = Field(
        description="Messages that one consumer may hold and not have acknowledged; null where the broker's default"
        " holds."
    )


async def _failure_policy(call: Call, params: SubscriptionParams) -> FailurePolicyResult:
    policy, kind = await call.gateway.failure_policy(params.name)
    exists = params.subscription in await call.gateway.subscriptions(params.name.topic)
    return FailurePolicyResult.of(
        policy,
        topic=params.topic,
        subscription=params.subscription,
        subscription_type=TYPE_WORDS[kind.name] if exists else "",
        is_set=policy is not None,
        backoff_strategy=BackoffWord[policy.backoff.name] if policy else None,
        poison_policy=PoisonWord[policy.poison.name] if policy else None,
        dead_letter_topic=str(policy.dead_letter_topic) if policy and policy.dead_letter_topic else None,
    )


async def _set_failure_policy(call: Call, params: SetFailurePolicyParams) -> FailurePolicyResult:
    await call.gateway.set_failure_policy(SetFailurePolicy(name=params.name, policy=params.policy()))
    return await _failure_policy(call, params)


async def _dispatch(call: Call, params: SubscriptionParams) -> DispatchResult:
    window = await call.gateway.dispatch_window(params.name)
    return DispatchResult(topic=params.topic, subscription=params.subscription, max_unacked_messages=window)


async def _set_dispatch(call: Call, params: SetDispatchParams) -> DispatchResult:
    wanted = SetDispatchWindow(name=params.name, window=params.max_unacked_messages)
    await call.gateway.set_dispatch_window(wanted)
    return await _dispatch(call, params)


GET_FAILURE_POLICY = Operation(
    name="get_subscription_failure_policy",
    words=("topics", "get-failure-policy"),
    summary="Show the failure policy of a subscription.",
    description="Where nothing is set, the defaults of the broker hold.",
    effect=Effect.READ,
    params=SubscriptionParams,
    result=FailurePolicyResult,
    run=_failure_policy,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(Example("That of `billing`", {"topic": "/default/orders", "subscription": "billing"}),),
)

SET_FAILURE_POLICY = Operation(
    name="set_subscription_failure_policy",
    words=("topics", "set-failure-policy"),
    summary="Set the failure policy of a subscription.",
    description="The whole policy is replaced. Only for reliable topics. A subscription that does not exist yet begins"
    " with it. set_subscription_drop_policy has messages dropped instead.",
    effect=Effect.WRITE,
    params=SetFailurePolicyParams,
    result=FailurePolicyResult,
    run=_set_failure_policy,
    done="Failure policy set: {subscription} of {topic}",
    positional=("topic",),
    toolset=TOOLSET,
    examples=(
        Example(
            "Five attempts more, then to a topic of its own",
            {
                "topic": "/default/orders",
                "subscription": "billing",
                "max_redelivery_count": 5,
                "ack_timeout_ms": 30_000,
                "base_redelivery_delay_ms": 1_000,
                "max_redelivery_delay_ms": 60_000,
                "backoff_strategy": "exponential",
                "poison_policy": "dead_letter",
                "dead_letter_topic": "/default/orders-failed",
            },
        ),
    ),
    is_idempotent=True,
)

SET_DROP_POLICY = Operation(
    name="set_subscription_drop_policy",
    words=("topics", "set-drop-policy"),
    summary="Have a subscription drop the messages that fail too often.",
    description="The whole failure policy is replaced. A dropped message is lost to the subscription for good;"
    " set_subscription_failure_policy keeps what fails.",
    effect=Effect.DESTROY,
    params=SetDropPolicyParams,
    result=PlannedResult,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(
        Example(
            "Two attempts more, a second apart",
            {
                "topic": "/default/orders",
                "subscription": "billing",
                "max_redelivery_count": 2,
                "ack_timeout_ms": 10_000,
                "base_redelivery_delay_ms": 1_000,
                "max_redelivery_delay_ms": 1_000,
            },
        ),
    ),
)

GET_DISPATCH_CONFIG = Operation(
    name="get_subscription_dispatch_config",
    words=("topics", "get-dispatch-config"),
    summary="Show the dispatch window: messages in flight per consumer of a subscription.",
    description="Where nothing is set, the default of the broker holds.",
    effect=Effect.READ,
    params=SubscriptionParams,
    result=DispatchResult,
    run=_dispatch,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(Example("That of `billing`", {"topic": "/default/orders", "subscription": "billing"}),),
)

SET_DISPATCH_CONFIG = Operation(
    name="set_subscription_dispatch_config",
    words=("topics", "set-dispatch-config"),
    summary="Set the dispatch window: messages in flight per consumer of a subscription.",
    description="More let a fast consumer work without pauses; fewer spread work among several. A subscription that"
    " does not exist yet begins with it.",
    effect=Effect.WRITE,
    params=SetDispatchParams,
    result=DispatchResult,
    run=_set_dispatch,
    done="Each consumer of {subscription} may hold {max_unacked_messages} messages",
    positional=("topic",),
    toolset=TOOLSET,
    examples=(
        Example("A hundred", {"topic": "/default/orders", "subscription": "billing", "max_unacked_messages": 100}),
    ),
    is_idempotent=True,
)

OPERATIONS = (GET_FAILURE_POLICY, SET_FAILURE_POLICY, SET_DROP_POLICY, GET_DISPATCH_CONFIG, SET_DISPATCH_CONFIG)

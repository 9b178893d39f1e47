"""subscriptions.*: on the command line they belong to the topics, as in the original."""

import asyncio

from pydantic import Field

from danube.admin.operations.fields import PageParams, PageResult, Params, Result, SubscriptionText, TopicText
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.operations.topics.topics import described_topic
from danube.model.plans.plan import Effect
from danube.model.topic import TopicName


class ListSubscriptionsParams(PageParams):
    """Of which topic."""

    topic: TopicText = Field(description="The topic: /namespace/name.")


class UnsubscribeParams(Params):
    """One subscription."""

    topic: TopicText = Field(description="The topic: /namespace/name.")
    subscription: SubscriptionText = Field(description="The subscription.")


class SubscriptionRow(Result):
    """One subscription."""

    name: str = Field(description="Its name.")


class SubscriptionList(PageResult):
    """The subscriptions of a topic."""

    topic: str = Field(description="The topic.")
    subscriptions: list[SubscriptionRow] = Field(description="Sorted by name.")
    pending_policies: list[str] = Field(
        description="Subscriptions that do not exist yet and have policies already; they begin with them."
    )


async def _list(call: Call, params: ListSubscriptionsParams) -> SubscriptionList:
    name = TopicName.parse(params.topic)
    there, described = await asyncio.gather(call.gateway.subscriptions(name), described_topic(call, name))
    return SubscriptionList(
        topic=params.topic,
        subscriptions=[SubscriptionRow(name=name) for name in there],
        pending_policies=list(described.pending_policies) if described else [],
    )


LIST_SUBSCRIPTIONS = Operation(
    name="list_subscriptions",
    words=("topics", "subscriptions"),
    summary="List the subscriptions of a topic.",
    description="For their lag and consumers, call describe_topic or analyze_consumer_lag.",
    effect=Effect.READ,
    params=ListSubscriptionsParams,
    result=SubscriptionList,
    run=_list,
    positional=("topic",),
    pages=Listing(rows="subscriptions", name="name"),
    toolset="messages",
    examples=(Example("The subscriptions of /default/orders", {"topic": "/default/orders"}),),
)

UNSUBSCRIBE = Operation(
    name="unsubscribe",
    words=("topics", "unsubscribe"),
    summary="Delete a subscription and its position in the topic.",
    description="One with connected consumers is refused: stop them first. The topic keeps its messages. Of one that"
    " does not exist yet, its policies are deleted.",
    effect=Effect.DESTROY,
    params=UnsubscribeParams,
    result=PlannedResult,
    positional=("topic",),
    examples=(
        Example("The subscription `audit` of /default/orders", {"topic": "/default/orders", "subscription": "audit"}),
    ),
)

OPERATIONS = (LIST_SUBSCRIPTIONS, UNSUBSCRIBE)

"""namespaces.*"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any

from pydantic import Field

from danube.admin.operations.fields import WIDE, NamespaceText, PageParams, PageResult, Params, Result
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.operations.topics.effective import limit_text, origins_of
from danube.model.calls.admin import NamespacePolicies
from danube.model.errors import NotFoundError, UnsupportedError
from danube.model.plans.durability import Durability, durability_of
from danube.model.plans.plan import Effect
from danube.model.policies import DURABILITY_NAME, POLICY_NAMES, PoliciesView


class NamespaceParams(Params):
    """One namespace."""

    namespace: NamespaceText = Field(description="The namespace, without a slash.")


class NamespaceRow(Result):
    """One namespace."""

    name: str = Field(description="Its name.")


class NamespaceList(PageResult):
    """Namespaces."""

    namespaces: list[NamespaceRow] = Field(description="Sorted by name.")


class Policies(Result):
    """The limits of a namespace; 0 is no limit beyond what the broker itself can do."""

    max_producers_per_topic: int = Field(description="Producers attached to one topic.")
    max_subscriptions_per_topic: int = Field(description="Subscriptions of one topic.")
    max_consumers_per_topic: int = Field(description="Consumers of one topic.")
    max_consumers_per_subscription: int = Field(description="Consumers of one subscription.")
    max_publish_rate: int = Field(description="Messages a second.")
    max_subscription_dispatch_rate: int = Field(description="Messages a second.")
    max_message_size: int = Field(description="Bytes.")
    max_publish_rate_bytes: int | None = Field(description="Bytes a second; null where the broker has no such limit.")
    message_ttl_s: int | None = Field(
        description="Seconds after which subscriptions pass over a message they have not acknowledged; null where the"
        " broker has no such limit."
    )
    retention_time_s: int | None = Field(
        description="Seconds after which messages are deleted for good; null where the broker has no such limit."
    )
    retention_bytes: int | None = Field(
        description="Bytes of one topic above which its oldest messages are deleted for good; null where the broker has"
        " no such limit."
    )
    retention_drops_unread: bool | None = Field(
        description="Whether retention also deletes what a subscription has not acknowledged; null where the broker has"
        " no retention."
    )
    durability: Durability | None = Field(
        description="When a publish is acknowledged: fsync, after the sync; interval and os, before. Null where the"
        " broker does not tell."
    )
    origins: Annotated[dict[str, str], WIDE] = Field(
        description="Where each comes from: `namespace`, or `broker` for its settings; empty where it does not tell."
    )

    def words(self) -> Mapping[str, str]:
        """Each limit with its origin."""
        return {name: limit_text(name, getattr(self, name), origin) for name, origin in self.origins.items()}


class NamespaceCreated(Result):
    """A namespace that was created."""

    namespace: str = Field(description="Its name.")
    created: bool = Field(description="True: it is there now and was not before.")


_OURS_ALONE = tuple(name for name in POLICY_NAMES if name not in {field.name for field in fields(NamespacePolicies)})
"""Limits that the original's answer has no words for."""


async def _list(call: Call, _: PageParams) -> NamespaceList:
    return NamespaceList(namespaces=[NamespaceRow(name=name) for name in await call.gateway.namespaces()])


async def _policies(call: Call, params: NamespaceParams) -> Policies:
    known, limits = await asyncio.gather(
        call.gateway.namespace_policies(params.namespace), _limits(call, params.namespace)
    )
    holding = limits.holding if limits else None
    names = _OURS_ALONE if holding is None else POLICY_NAMES
    ours: dict[str, Any] = {name: getattr(holding, name, None) for name in names}
    ours[DURABILITY_NAME] = durability_of(getattr(holding, DURABILITY_NAME, None))
    ours["origins"] = origins_of(("namespace", limits.own)) if limits else {}
    return Policies.model_validate(asdict(known) | ours)


async def _limits(call: Call, namespace: str) -> PoliciesView | None:
    try:
        return await call.gateway.namespace_limits(namespace)
    except (UnsupportedError, NotFoundError):  # what is not there is for the other call to say
        return None


async def _create(call: Call, params: NamespaceParams) -> NamespaceCreated:
    await call.gateway.create_namespace(params.namespace)
    return NamespaceCreated(namespace=params.namespace, created=True)


LIST_NAMESPACES = Operation(
    name="list_namespaces",
    words=("namespaces", "list"),
    summary="List the namespaces.",
    description="Each once. Call list_topics with one of them to see what is in it.",
    effect=Effect.READ,
    params=PageParams,
    result=NamespaceList,
    run=_list,
    pages=Listing(rows="namespaces", name="name"),
    examples=(Example("Every namespace"),),
)

GET_NAMESPACE_POLICIES = Operation(
    name="get_namespace_policies",
    words=("namespaces", "policies"),
    summary="Show the limits of a namespace.",
    effect=Effect.READ,
    params=NamespaceParams,
    result=Policies,
    run=_policies,
    positional=("namespace",),
    toolset="policies",
    examples=(Example("The limits of the namespace `default`", {"namespace": "default"}),),
)

CREATE_NAMESPACE = Operation(
    name="create_namespace",
    words=("namespaces", "create"),
    summary="Create a namespace.",
    description="Topics can be created in it from then on.",
    effect=Effect.WRITE,
    params=NamespaceParams,
    result=NamespaceCreated,
    run=_create,
    done="Namespace created: {namespace}",
    positional=("namespace",),
    examples=(Example("A namespace for payments", {"namespace": "payments"}),),
)

DELETE_NAMESPACE = Operation(
    name="delete_namespace",
    words=("namespaces", "delete"),
    summary="Delete a namespace that has no topics.",
    description="One with topics is refused: delete its topics first (list_topics, delete_topic).",
    effect=Effect.DESTROY,
    params=NamespaceParams,
    result=PlannedResult,
    positional=("namespace",),
    examples=(Example("The empty namespace `staging`", {"namespace": "staging"}),),
)

OPERATIONS = (LIST_NAMESPACES, GET_NAMESPACE_POLICIES, CREATE_NAMESPACE, DELETE_NAMESPACE)

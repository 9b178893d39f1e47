"""topics.list: topics with their lag, size and partitions."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from pydantic import Field, model_validator

from danube.admin.gateway import AdminGateway
from danube.admin.operations.fields import (
    VOLATILE,
    WIDE,
    BrokerText,
    NamespaceText,
    NotAnswered,
    PageParams,
    PageResult,
    Result,
)
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.model.calls.admin import DescribeTopics, TopicDescription, TopicInfo
from danube.model.errors import DanubeError, InvalidNameError, UnsupportedError
from danube.model.limits.broker import DESCRIBE_TOPICS_MAX
from danube.model.ownership import OwnershipState
from danube.model.plans.plan import Effect
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.text import count_text
from danube.model.topic import DispatchStrategy, TopicName

DELIVERY = {DispatchStrategy.RELIABLE: "Reliable", DispatchStrategy.NON_RELIABLE: "NonReliable"}


class ListTopicsParams(PageParams):
    """Which topics."""

    namespace: NamespaceText | None = Field(default=None, description="Only topics of this namespace.")
    broker: BrokerText | None = Field(default=None, description="Only topics of this broker: its address, or its id.")
    system: bool = Field(default=False, description="Also topics of the namespace `system`, which brokers keep.")
    brief: bool = Field(default=False, description="Leave out lag and size, which brokers have to be asked for.")

    @model_validator(mode="after")
    def _not_both(self) -> "ListTopicsParams":
        if self.namespace is not None and self.broker is not None:
            raise ValueError("namespace and broker exclude each other: give one of them, or neither for all topics")
        return self


class TopicRow(Result):
    """One topic, or one partition."""

    name: str = Field(description="Its name.")
    broker_id: Annotated[str, VOLATILE] = Field(
        title="Broker", description="The broker that it belongs to; empty for none."
    )
    delivery: Annotated[str, WIDE] = Field(description="`Reliable` or `NonReliable`.")
    state: OwnershipState | None = Field(description="As describe_topic tells it; null is not known.")
    lag_messages: Annotated[int | None, VOLATILE] = Field(
        default=None, title="Lag", description="Unread messages of the subscription furthest behind; null is not known."
    )
    stored_bytes: Annotated[int | None, VOLATILE] = Field(
        default=None, title="Size", description="Bytes of the messages that can be read; null is not known."
    )
    partitions: Annotated[int | None, WIDE] = Field(
        default=None, description="How many partitions its topic has; null for a topic without."
    )


class TopicList(PageResult):
    """Topics, partitions each on their own."""

    topics: list[TopicRow] = Field(description="Sorted by name.")
    not_answered: NotAnswered = Field(default=[])


async def _list(call: Call, params: ListTopicsParams) -> TopicList:
    is_wanted = params.system or params.namespace == SYSTEM_NAMESPACE
    infos, states = await asyncio.gather(_infos(call, params), _states(call, params.namespace))
    found = [info for info in infos if is_wanted or info.topic.namespace != SYSTEM_NAMESPACE]
    partitions = Counter(info.base for info in found)
    return TopicList(topics=[_row(info, states, partitions[info.base]) for info in found])


async def _fill(call: Call, params: ListTopicsParams, page: list[TopicRow]) -> dict[str, Any]:
    """Lag and size of the topics of a page."""
    if params.brief:
        return {}
    described, missing = await described_topics(call.gateway, [row.name for row in page[:DESCRIBE_TOPICS_MAX]])
    rest = len(page) - DESCRIBE_TOPICS_MAX
    unasked = [f"lag and size of {count_text(rest, 'more topic')}: ask for pages, with a limit"] if rest > 0 else []
    counted = [_counted(row, described.get(row.name)) for row in page]
    return {"topics": counted, "not_answered": [*missing, *unasked]}


async def described_topics(
    gateway: AdminGateway, names: Sequence[str]
) -> tuple[dict[str, TopicDescription], Sequence[str]]:
    """The topics in full, by name, and the brokers of others that did not answer.

    None where the brokers do not tell, or a topic went meanwhile.
    """
    topics = []
    for name in names:
        with suppress(InvalidNameError):  # brokers of the original's have names that nobody can ask for
            topics.append(TopicName.parse(name))
    if not topics:
        return {}, ()
    try:
        page = await gateway.describe_topics(DescribeTopics(topics=tuple(topics), page_size=DESCRIBE_TOPICS_MAX))
    except DanubeError:
        return {}, ()
    return {str(topic.topic): topic for topic in page.topics}, page.not_answered


def lags_of(topic: TopicDescription) -> dict[str, int]:
    """The lag of each subscription; none where nothing is kept."""
    return {each.name: each.reliable.lag for each in topic.subscriptions if each.reliable is not None}


def summed_lags(partitions: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The lag of each subscription over the partitions of a topic."""
    sums: dict[str, int] = {}
    for lags in partitions:
        for name, lag in lags.items():
            sums[name] = sums.get(name, 0) + lag
    return sums


def largest_lag(lags: Mapping[str, int]) -> int | None:
    """The lag of a topic: that of the subscription that is furthest behind; None where nothing is kept."""
    return max(lags.values(), default=None)


async def _states(call: Call, namespace: str | None) -> Mapping[TopicName, OwnershipState] | None:
    """States of topics that are not simply served; None where the broker does not tell, or lists only some."""
    try:
        found = await call.gateway.topic_states(namespace)
    except UnsupportedError:
        return None
    is_whole = len(found.topics) == found.topic_count
    return {each.topic: each.state for each in found.topics} if is_whole else None


async def _infos(call: Call, params: ListTopicsParams) -> list[TopicInfo]:
    if params.broker is not None:
        return list(await call.gateway.topics_on(params.broker))
    if params.namespace is not None:
        return list(await call.gateway.topics(params.namespace))
    return [info for namespace in await call.gateway.namespaces() for info in await call.gateway.topics(namespace)]


def _row(
    info: TopicInfo,
    states: Mapping[TopicName, OwnershipState] | None,
    partitions: int,
) -> TopicRow:
    return TopicRow(
        name=str(info.topic),
        broker_id=info.broker_id or "",
        delivery=DELIVERY[info.strategy],
        state=states.get(info.topic, OwnershipState.SERVED) if states is not None else None,
        partitions=partitions if info.base is not None else None,
    )


def _counted(row: TopicRow, described: TopicDescription | None) -> TopicRow:
    if described is None or not described.is_served:
        return row
    size = described.storage.stored_bytes if described.storage else None
    return row.model_copy(update={"lag_messages": largest_lag(lags_of(described)), "stored_bytes": size})


LIST_TOPICS = Operation(
    name="list_topics",
    words=("topics", "list"),
    summary="List topics: all, or those of a namespace or of a broker.",
    description="Partitions are listed each on their own. `system` is left out unless it is asked for."
    " Lag and size are told of the first 1,000 of a page."
    " For causes of lag, call analyze_consumer_lag.",
    effect=Effect.READ,
    params=ListTopicsParams,
    result=TopicList,
    run=_list,
    pages=Listing(rows="topics", name="name", fill=_fill),
    examples=(
        Example("Every topic of the namespace `default`", {"namespace": "default"}),
        Example("The first two topics there are", {"limit": 2}),
    ),
)

OPERATIONS = (LIST_TOPICS,)

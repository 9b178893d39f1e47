"""brokers.*"""

from typing import Annotated

from pydantic import Field

from danube.admin.operations.fields import (
    VOLATILE,
    BrokerText,
    NamespaceText,
    PageParams,
    PageResult,
    Params,
    Result,
)
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.model.calls.admin import BrokerInfo
from danube.model.limits.faces import NAMESPACES_NAMED_MAX
from danube.model.limits.moves import PARALLEL_MOVES_MAX
from danube.model.plans.plan import Effect


class BrokerParams(Params):
    """One broker."""

    broker_id: BrokerText = Field(title="Broker", description="Its address or id, as in the list of brokers.")


_Namespaces = Annotated[list[NamespaceText], Field(max_length=NAMESPACES_NAMED_MAX)]


class UnloadBrokerParams(BrokerParams):
    """The broker that topics leave, and which."""

    max_parallel: int = Field(1, ge=1, le=PARALLEL_MOVES_MAX, description="Topics on the move at a time.")
    namespaces_include: _Namespaces = Field([], description="Only topics of these namespaces; empty for all.")
    namespaces_exclude: _Namespaces = Field([], description="Topics of these namespaces stay.")


class BrokerRow(Result):
    """One broker."""

    broker_id: Annotated[str, VOLATILE] = Field(
        title="Broker", description="Its id, decimal digits; people see its address."
    )
    broker_status: str = Field(title="Status", description="`active`, `draining`, `drained` or `unreachable`.")
    broker_addr: Annotated[str, VOLATILE] = Field(title="Address", description="What producers and consumers dial.")
    broker_role: str = Field(
        title="Role", description="`Cluster_Leader`, `Cluster_Follower`, or `None` outside a cluster."
    )
    admin_addr: Annotated[str, VOLATILE] = Field(title="Admin address", description="What administrators dial.")
    metrics_addr: Annotated[str, VOLATILE] = Field(
        title="Metrics address", description="Where Prometheus reads it; empty without a metrics port."
    )


class BrokerList(PageResult):
    """Brokers."""

    brokers: list[BrokerRow] = Field(description="Sorted by id.")


async def _list(call: Call, _: PageParams) -> BrokerList:
    return BrokerList(brokers=[_row(info) for info in await call.gateway.brokers()])


def _row(info: BrokerInfo) -> BrokerRow:
    addresses = {"broker_addr": info.broker_url, "admin_addr": info.admin_url, "metrics_addr": info.metrics_url}
    return BrokerRow.of(info, broker_status=info.status, broker_role=info.role, **addresses)


LIST_BROKERS = Operation(
    name="list_brokers",
    words=("brokers", "list"),
    summary="List the brokers of the cluster.",
    description="Returns broker IDs, status and addresses. Use this first to discover the brokers that others name.",
    effect=Effect.READ,
    params=PageParams,
    result=BrokerList,
    run=_list,
    pages=Listing(rows="brokers", name="broker_id"),
    examples=(Example("Every broker"),),
)

UNLOAD_BROKER = Operation(
    name="unload_broker",
    words=("brokers", "unload"),
    summary="Drain a broker: move its topics to others, such as before it is stopped.",
    description="It gets no new ones until activate_broker. list_brokers shows it `draining`, then `drained`;"
    " cluster_status shows the moves under way.",
    effect=Effect.MOVE,
    params=UnloadBrokerParams,
    result=PlannedResult,
    examples=(
        Example("All topics of broker 1, four at a time", {"broker_id": "1", "max_parallel": 4}),
        Example("Those of one namespace", {"broker_id": "1", "namespaces_include": ["default"]}),
    ),
)

ACTIVATE_BROKER = Operation(
    name="activate_broker",
    words=("brokers", "activate"),
    summary="Activate a drained broker: it is assigned topics again.",
    description="Topics that left it stay where they are; unload_topic moves one back.",
    effect=Effect.MOVE,
    params=BrokerParams,
    result=PlannedResult,
    examples=(Example("Broker 1", {"broker_id": "1"}),),
)

OPERATIONS = (LIST_BROKERS, UNLOAD_BROKER, ACTIVATE_BROKER)

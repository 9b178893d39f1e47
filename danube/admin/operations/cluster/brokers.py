"""brokers.*"""

from typing import Annotated

from pydantic import Field

from danube.admin.operations.fields import VOLATILE, PageParams, PageResult, Result
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.paging import page_of
from danube.model.calls.admin import BrokerInfo
from danube.model.plans.plan import Effect


class BrokerRow(Result):
    """One broker."""

    broker_id: Annotated[str, VOLATILE] = Field(description="Its id, decimal digits.")
    broker_status: str = Field(description="`active`, `draining`, `drained` or `unreachable`.")
    broker_addr: Annotated[str, VOLATILE] = Field(description="What producers and consumers dial.")
    broker_role: str = Field(description="`Cluster_Leader`, `Cluster_Follower`, or `None` outside a cluster.")
    admin_addr: Annotated[str, VOLATILE] = Field(description="What administrators dial.")
    metrics_addr: Annotated[str, VOLATILE] = Field(
        description="Where Prometheus reads it; empty without a metrics port."
    )


class BrokerList(PageResult):
    """Brokers."""

    brokers: list[BrokerRow] = Field(description="Sorted by id.")


async def _list(call: Call, params: PageParams) -> BrokerList:
    brokers = sorted(await call.gateway.brokers(), key=lambda info: info.broker_id)
    page, cursor = page_of(brokers, lambda info: info.broker_id, params)
    return BrokerList(total=len(brokers), next_cursor=cursor, brokers=[_row(info) for info in page])


def _row(info: BrokerInfo) -> BrokerRow:
    addresses = {"broker_addr": info.broker_url, "admin_addr": info.admin_url, "metrics_addr": info.metrics_url}
    return BrokerRow.of(info, broker_status=info.status, broker_role=info.role, **addresses)


LIST_BROKERS = Operation(
    name="list_brokers",
    words=("brokers", "list"),
    summary="List the brokers of the cluster with their broker IDs, status and addresses.",
    description="Use first: other operations take the broker IDs that it answers.",
    effect=Effect.READ,
    params=PageParams,
    result=BrokerList,
    run=_list,
    listing=Listing(rows="brokers", key="broker_id"),
    examples=(Example("Every broker"),),
)

OPERATIONS = (LIST_BROKERS,)

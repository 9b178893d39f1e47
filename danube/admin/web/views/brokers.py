"""Brokers: those in trouble first, each with its load and the cause of it."""

from typing import Any

from danube.admin.operations.cluster.balance import GET_CLUSTER_BALANCE
from danube.admin.operations.cluster.brokers import LIST_BROKERS, BrokerList
from danube.admin.web.pages.catalog import links_from
from danube.admin.web.views.look import Look

_ORDER = {"unreachable": 0, "draining": 1, "drained": 2}


async def brokers_page(look: Look) -> dict[str, Any]:
    """The values of the page of brokers, beside the answer of list_brokers."""
    listed = look.result
    if not isinstance(listed, BrokerList):
        raise TypeError(f"{LIST_BROKERS.name} answered {type(listed).__name__}")
    balance = await look.part(GET_CLUSTER_BALANCE, {})
    loads = {row.broker_id: row for row in balance.result.brokers} if balance.result else {}
    rows = sorted(listed.brokers, key=lambda row: (_ORDER.get(row.broker_status, 9), row.broker_id))
    idle = sum(row.broker_status != "active" for row in rows)
    return {
        "rows": [(row, loads.get(row.broker_id), links_from({"broker": row.broker_id}, "broker")) for row in rows],
        "summary": f"{idle} of {listed.total} brokers {'is' if idle == 1 else 'are'} not active"
        if idle
        else f"All {listed.total} brokers are active"
        if listed.total != 1
        else "The broker is active",
        "has_trouble": idle > 0,
        "balance": balance,
        "largest": max((row.load for row in loads.values()), default=0.0),
    }

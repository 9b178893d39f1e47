"""storage.*: the bill of a broker's object store."""

from typing import Annotated

from pydantic import Field

from danube.admin.operations.fields import VOLATILE, Params, Result
from danube.admin.operations.operation import Call, Example, Operation
from danube.model.calls.object_use import ObjectRequests, ObjectStoreDescription
from danube.model.plans.plan import Effect


class RequestRow(Result):
    """Requests of one kind and cause."""

    kind: str = Field(description="`put`, `get`, `list`, `head` or `delete`.")
    cause: str = Field(description="`journal`, `recovery`, `fence`, `segment`, `read` or `probe`.")
    requests: Annotated[int, VOLATILE] = Field(description="Since the broker started.")
    failed: Annotated[int, VOLATILE] = Field(description="Of these: refused, or not answered.")
    per_hour: Annotated[float, VOLATILE] = Field(description="An hour, on average.")
    sent_bytes: Annotated[int, VOLATILE] = Field(description="Bytes sent.")
    received_bytes: Annotated[int, VOLATILE] = Field(description="Bytes received.")
    month_dollars: Annotated[float, VOLATILE] = Field(description="Of a month, if it goes on like this.")


class StorageCost(Result):
    """The bill of one broker."""

    url: str = Field(description="Bucket and prefix; empty where messages are on disks alone.")
    elapsed_s: Annotated[float, VOLATILE] = Field(description="Seconds that the counters cover.")
    month_dollars: Annotated[float, VOLATILE] = Field(
        description="Requests and bytes read of a month, if it goes on like this."
    )
    stored_bytes: Annotated[int, VOLATILE] = Field(description="Of the segments of the broker's topics.")
    stored_month_dollars: Annotated[float, VOLATILE] = Field(description="For keeping them a month.")
    cache_hit_rate: Annotated[float | None, VOLATILE] = Field(
        description="Share of blocks read from memory; null before the first."
    )
    waiting_bytes: Annotated[int, VOLATILE] = Field(
        description="Acknowledged by the disk, or sealed and due, and not yet uploaded."
    )
    waiting_s: Annotated[float, VOLATILE] = Field(
        description="Age of the oldest acknowledged message among them, at most; 0 where all are uploaded."
    )
    unanswered_s: Annotated[float, VOLATILE] = Field(
        description="Seconds for which the store has not answered; 0 while it does."
    )
    rows: list[RequestRow] = Field(description="Requests by kind and cause.")


_NOTHING = StorageCost(
    url="",
    elapsed_s=0,
    month_dollars=0,
    stored_bytes=0,
    stored_month_dollars=0,
    cache_hit_rate=None,
    waiting_bytes=0,
    waiting_s=0,
    unanswered_s=0,
    rows=[],
)


async def _cost(call: Call, params: Params) -> StorageCost:  # noqa: ARG001 - it has none
    storage = (await call.gateway.describe_broker()).storage
    use = storage.object_store if storage is not None else None
    if use is None:
        return _NOTHING
    reads = use.cache_hits + use.cache_misses
    return StorageCost(
        url=use.url,
        elapsed_s=round(use.elapsed_s, 1),
        month_dollars=round(use.month_dollars, 2),
        stored_bytes=use.stored_bytes,
        stored_month_dollars=round(use.stored_month_dollars, 2),
        cache_hit_rate=round(use.cache_hits / reads, 3) if reads else None,
        waiting_bytes=use.waiting_bytes,
        waiting_s=round(use.waiting_s, 1),
        unanswered_s=round(use.unanswered_s, 1),
        rows=[_row(one, use) for one in use.requests],
    )


def _row(line: ObjectRequests, use: ObjectStoreDescription) -> RequestRow:
    hours = max(use.elapsed_s, 1.0) / 3_600
    return RequestRow(
        kind=line.kind,
        cause=line.cause,
        requests=line.requests,
        failed=line.failed,
        per_hour=round(line.requests / hours, 1),
        sent_bytes=line.sent_bytes,
        received_bytes=line.received_bytes,
        month_dollars=round(line.dollars / hours * 730, 2),
    )


STORAGE_COST = Operation(
    name="storage_cost",
    words=("storage", "cost"),
    summary="Show the bill of a broker's object store: requests by kind and cause, and dollars a month.",
    description="Of the broker that is asked, since it started. Prices are its settings object_store.price_*.",
    effect=Effect.READ,
    params=Params,
    result=StorageCost,
    rows="rows",
    run=_cost,
    toolset="storage",
    examples=(Example("The bill"),),
)

OPERATIONS = (STORAGE_COST,)

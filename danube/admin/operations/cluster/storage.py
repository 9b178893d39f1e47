"""storage.*: the bill of the object store."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from danube.admin.gateway import not_answered
from danube.admin.operations.fields import VOLATILE, NotAnswered, Params, Result
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
    """The bill of all brokers."""

    url: str = Field(description="Bucket and prefix; empty where messages are on disks alone.")
    elapsed_s: Annotated[float, VOLATILE] = Field(description="Seconds that the counters cover, at most.")
    month_dollars: Annotated[float, VOLATILE] = Field(
        description="Requests and bytes read of a month, if it goes on like this."
    )
    stored_bytes: Annotated[int, VOLATILE] = Field(description="Of the segments of all topics.")
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
    not_answered: NotAnswered = Field(default=[])
    rows: list[RequestRow] = Field(description="Requests by kind and cause.")


async def _cost(call: Call, params: Params) -> StorageCost:  # noqa: ARG001 - it has none
    told = await call.gateway.describe_brokers()
    stores = [each.told.storage for each in told if each.told is not None and each.told.storage is not None]
    uses = [store.object_store for store in stores if store.object_store is not None]
    hits, reads = sum(use.cache_hits for use in uses), sum(use.cache_hits + use.cache_misses for use in uses)
    return StorageCost(
        url=uses[0].url if uses else "",
        elapsed_s=round(max((use.elapsed_s for use in uses), default=0), 1),
        month_dollars=round(sum(use.month_dollars for use in uses), 2),
        stored_bytes=sum(use.stored_bytes for use in uses),
        stored_month_dollars=round(sum(use.stored_month_dollars for use in uses), 2),
        cache_hit_rate=round(hits / reads, 3) if reads else None,
        waiting_bytes=sum(use.waiting_bytes for use in uses),
        waiting_s=round(max((use.waiting_s for use in uses), default=0), 1),
        unanswered_s=round(max((use.unanswered_s for use in uses), default=0), 1),
        not_answered=not_answered(told),
        rows=_rows(uses),
    )


def _rows(uses: Sequence[ObjectStoreDescription]) -> list[RequestRow]:
    """Requests of all brokers by kind and cause; each broker's average is over its own time."""
    found: dict[tuple[str, str], list[tuple[ObjectRequests, float]]] = {}
    for use in uses:
        for line in use.requests:
            found.setdefault((line.kind, line.cause), []).append((line, max(use.elapsed_s, 1.0) / 3_600))
    return [
        RequestRow(
            kind=kind,
            cause=cause,
            requests=sum(line.requests for line, _ in lines),
            failed=sum(line.failed for line, _ in lines),
            per_hour=round(sum(line.requests / hours for line, hours in lines), 1),
            sent_bytes=sum(line.sent_bytes for line, _ in lines),
            received_bytes=sum(line.received_bytes for line, _ in lines),
            month_dollars=round(sum(line.dollars / hours * 730 for line, hours in lines), 2),
        )
        for (kind, cause), lines in found.items()
    ]


STORAGE_COST = Operation(
    name="storage_cost",
    words=("storage", "cost"),
    summary="Show the bill of the object store: requests by kind and cause, and dollars a month.",
    description="Of all brokers, each since it started. Prices are their settings object_store.price_*.",
    effect=Effect.READ,
    params=Params,
    result=StorageCost,
    rows="rows",
    run=_cost,
    toolset="storage",
    examples=(Example("The bill"),),
)

OPERATIONS = (STORAGE_COST,)

"""get_broker_logs: the newest records of the brokers' logs, which they keep in memory without secrets."""

from typing import Annotated

from pydantic import Field

from danube.admin.gateway import not_answered
from danube.admin.operations.fields import (
    VOLATILE,
    WIDE,
    BrokerText,
    Millis,
    NotAnswered,
    Params,
    Result,
    SpanS,
    TopicText,
)
from danube.admin.operations.operation import Call, Example, Operation
from danube.model.calls.inspection import LogLevel, ReadLog
from danube.model.limits.inspection import LOG_READ_DEFAULT, LOG_READ_MAX, METRIC_RANGE_S_MAX
from danube.model.plans.plan import Effect
from danube.model.topic import TopicName


class LogsParams(Params):
    """Records to read."""

    broker_id: BrokerText | None = Field(default=None, title="Broker", description="Only of this broker.")
    level: LogLevel = Field(default=LogLevel.INFO, description="The least level.")
    topic: TopicText | None = Field(default=None, description="Only records that name this topic or its partitions.")
    last: Annotated[SpanS, Field(ge=1, le=METRIC_RANGE_S_MAX)] | None = Field(
        default=None, description="Only of the last so many seconds, such as 15m or 2h."
    )
    until_ms: int | None = Field(
        default=None, ge=0, description="Only before this time, in milliseconds since the epoch: to go further back."
    )
    limit: int = Field(default=LOG_READ_DEFAULT, ge=1, le=LOG_READ_MAX, description="The newest so many records.")


class LogRow(Result):
    """One record."""

    time_ms: Millis
    broker_id: str = Field(title="Broker", description="The broker that wrote it.")
    level: LogLevel = Field(description="`debug`, `info`, `warning` or `error`.")
    logger: Annotated[str, WIDE] = Field(description="The part of the broker.")
    text: str = Field(description="The record; secrets in it are replaced by `[redacted]`.")


class BrokerLogs(Result):
    """Records of the brokers' logs."""

    found: Annotated[int, VOLATILE] = Field(description="Records there are of this kind; the newest are shown.")
    kept_since_ms: Annotated[int | None, VOLATILE] = Field(description="Older records are kept by no broker.")
    not_answered: NotAnswered = Field(default=[])
    records: list[LogRow] = Field(description="The oldest first.")


async def _logs(call: Call, params: LogsParams) -> BrokerLogs:
    since_ms = call.clock.now_ms() - params.last * 1_000 if params.last is not None else None
    wanted = ReadLog(
        level=params.level,
        topic=TopicName.parse(params.topic) if params.topic else None,
        since_ms=since_ms,
        until_ms=params.until_ms,
        limit=params.limit,
    )
    rows, found, kept = list[LogRow](), 0, list[int]()
    told = await call.gateway.broker_logs(wanted, params.broker_id)
    for each in told:
        if each.told is None:
            continue
        found += each.told.record_count
        kept += [each.told.kept_since_ms] if each.told.kept_since_ms is not None else []
        rows += [LogRow.of(record, broker_id=each.broker_id) for record in each.told.records]
    rows.sort(key=lambda row: row.time_ms)
    return BrokerLogs(
        found=found,
        kept_since_ms=min(kept, default=None),
        not_answered=not_answered(told),
        records=rows[-params.limit :],
    )


GET_BROKER_LOGS = Operation(
    name="get_broker_logs",
    words=("brokers", "logs"),
    summary="Show the newest log records of brokers, by level, topic and time.",
    description="Brokers keep some thousand records in memory, from their start on, without secrets.",
    effect=Effect.READ,
    params=LogsParams,
    result=BrokerLogs,
    rows="records",
    run=_logs,
    examples=(Example("Errors about a topic", {"level": "error", "topic": "/default/orders"}),),
)

OPERATIONS = (GET_BROKER_LOGS,)

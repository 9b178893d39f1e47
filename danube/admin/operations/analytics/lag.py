"""lag.*: who is behind, why, and when it will have caught up."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import Field

from danube.admin.analytics.live import live_lag, require_telemetry
from danube.admin.analytics.published import lag_of, newest_lag, published_runs
from danube.admin.operations.fields import (
    DETAIL,
    IF_KNOWN,
    VOLATILE,
    WIDE,
    Millis,
    NamespaceText,
    Params,
    Result,
    SubscriptionText,
    TopicText,
)
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.paging import Key, page_of
from danube.model.errors import NotFoundError, UnavailableError
from danube.model.lag.evidence import evidence_of, group_evidence
from danube.model.lag.group import GroupLag, LagFilter, PartitionLag, groups_of, harm, worst_first
from danube.model.lag.rows import NEVER
from danube.model.lag.verdict import LagCause, LagPolicy, LagStatus, LagVerdict
from danube.model.limits.faces import (
    ANALYTICS_FRESH_S,
    CURSOR_CHARS_MAX,
    LAG_EVIDENCE_SHOWN,
    LAG_GROUPS_DEFAULT,
    LAG_GROUPS_MAX,
    LAG_HISTORY_S,
    LAG_PARTITIONS_SHOWN_MAX,
)
from danube.model.plans.plan import Effect
from danube.model.records.analytics import Run
from danube.model.text import span_text

R = TypeVar("R", bound="LagRow")


class LagSource(StrEnum):
    """Source of the answer."""

    AUTO = "auto"
    """The newest Spark result if it is fresh, else live."""
    LIVE = "live"
    SPARK = "spark"


class AnalyzeLagParams(Params):
    """Subscriptions to judge, and the source of the answer."""

    topic: TopicText | None = Field(
        default=None, description="Only this topic; of a partitioned one, all its partitions."
    )
    subscription: SubscriptionText | None = Field(default=None, description="Only this subscription.")
    namespace: NamespaceText | None = Field(
        default=None, description="Only this namespace; `system` is left out unless it is named."
    )
    status: LagStatus | None = Field(default=None, description="Only groups with this status.")
    source: LagSource = Field(
        default=LagSource.AUTO,
        description="`live` judges the last minutes here, `spark` takes the newest finished result of a run, `auto`"
        " takes that if it is fresh and answers live otherwise.",
    )
    partitions: bool = Field(default=False, description="Show the partitions of each group, too.")
    limit: int = Field(default=LAG_GROUPS_DEFAULT, ge=1, le=LAG_GROUPS_MAX, description="The most groups to answer.")
    cursor: str | None = Field(
        default=None,
        max_length=CURSOR_CHARS_MAX,
        description="`next_cursor` of the page before; the first page without it.",
    )


Moving = VOLATILE
"""What time alone changes."""


class LagRow(Result):
    """One subscription; null is not known. The columns are explained in docs/lag.md."""

    status: Annotated[str, Moving] = Field(
        description="`OK`, `WARN` (lag never falls), `STOP` (nobody reads), `STALL` (position stands still), `REWIND`"
        " (position went back), `UNKNOWN` (too little is known) or `NOT_KEPT` (topic is not reliable)."
    )
    topic: str = Field(description="The topic.")
    subscription: str = Field(description="The subscription.")
    lag_messages: int | None = Field(title="Lag", description="Messages stored and not acknowledged.")
    lag_s: Annotated[float | None, Moving] = Field(title="Oldest", description="Age of the oldest of them, seconds.")
    lag_method: Annotated[str, Moving, WIDE] = Field(
        description="How that is known: `measured`, `interpolated`, `extrapolated` or `unknown`."
    )
    arrival_rate: Annotated[float | None, Moving] = Field(title="In/s", description="Messages a second that arrive.")
    consume_rate: Annotated[float | None, Moving] = Field(
        title="Out/s", description="Messages a second that are acknowledged."
    )
    rate_window_s: Annotated[float | None, Moving, WIDE] = Field(description="Seconds that the rates are over.")
    eta_s: Annotated[float | None, Moving] = Field(
        title="Clears in",
        description="Seconds until nothing is unread at these rates; null when that never happens or is not known.",
    )
    eta_reason: Annotated[str | None, Moving, WIDE] = Field(
        description="Why `eta_s` is null: `nothing_consumed`, `falls_behind`, `no_rates` or `not_kept`."
    )
    consumers: Annotated[int | None, WIDE] = Field(description="Consumers with an open stream.")
    cause: Annotated[str | None, Moving] = Field(
        description="Why messages wait: `data_loss`, `blocked`, `rewound`, `nobody_reads`, `member_stuck`, `poison`,"
        " `storm`, `back_off`, `stuck`, `throttled`, `not_sent`, `too_slow` or `catching_up`; null when none do, or"
        " when it is not known."
    )
    evidence: Annotated[str, Moving, DETAIL] = Field(description="The rule that fired and its numbers.")
    blocked: Annotated[int | None, WIDE] = Field(
        description="Messages that failed too often, and hold up what follows until somebody decides."
    )
    retention_margin: Annotated[int | None, WIDE] = Field(
        description="Messages between the oldest that is kept and the position; negative: deleted unread."
    )
    retention_ratio: Annotated[float | None, WIDE] = Field(
        description="Of what is kept, the share that is unread; 0.8 and more is a risk, above 1 messages were lost."
    )

    @property
    def is_told(self) -> bool:
        """True if its evidence is worth a line: neither well nor without messages that are kept."""
        return self.status not in {LagStatus.OK, LagStatus.NOT_KEPT}

    def words(self) -> Mapping[str, str]:
        """The cause without underscores, and `never` for a time to catch up that does not come."""
        found = {"cause": self.cause.replace("_", " ")} if self.cause else {}
        return {**found, "eta_s": "never"} if self.eta_reason in NEVER else found


class LagGroupRow(LagRow):
    """One subscription over all partitions of its topic; as bad as the worst of them."""

    partitions: Annotated[int, WIDE] = Field(description="Partitions it reads; 1 for a plain topic.")
    complete: Annotated[float, Moving, WIDE] = Field(
        description="Share of the partitions that are known for the whole window."
    )
    worst_partition: Annotated[str, Moving, WIDE] = Field(description="The partition that gave status and cause.")
    eta_partition: Annotated[str, Moving, WIDE] = Field(description="The partition that `eta_s` hangs on.")


_BEHIND = frozenset({LagStatus.WARN, LagStatus.STOP, LagStatus.STALL, LagStatus.REWIND})


class LagReport(Result):
    """Subscriptions that are behind: the worst first."""

    answered_by: Annotated[str, Moving] = Field(
        title="Source",
        description="`live`: judged here from the last minutes; `spark`: a result of a run.",
    )
    reason: Annotated[str, Moving, WIDE] = Field(description="Why it was answered that way, and what to know of it.")
    as_of_ms: Millis = Field(description="The time that was judged, milliseconds since the epoch.")
    window_s: Annotated[float, WIDE] = Field(description="Seconds that the rules look at.")
    run_id: Annotated[str | None, Moving, WIDE] = Field(description="The run that found it; null when answered live.")
    statuses: Annotated[dict[str, int], Moving] = Field(
        title="Groups", description="How many groups have which status."
    )
    total: Annotated[int, WIDE] = Field(description="Groups there are, on whatever page.")
    next_cursor: Annotated[str | None, Moving, WIDE] = Field(
        default=None, description="Ask for the next page with it; null on the last one."
    )
    groups: list[LagGroupRow] = Field(description="One subscription over all partitions of its topic each.")
    partition_total: Annotated[int, WIDE] = Field(description="Partitions of the groups on this page.")
    partitions: Annotated[list[LagRow], IF_KNOWN] = Field(
        description="Those partitions, the worst first; only when asked for, and bounded."
    )

    def words(self) -> Mapping[str, str]:
        """Source and reason in one, and what stands badly before what stands well."""
        behind = sum(count for status, count in self.statuses.items() if status in _BEHIND)
        each = ", ".join(f"{count} {status}" for status, count in self.statuses.items())
        head = f"{behind} of {sum(self.statuses.values())} are behind" if self.statuses else "none"
        return {
            "answered_by": f"{self.answered_by}, {self.reason}",
            "statuses": f"{head} ({each})" if each else head,
        }

    def remarks(self) -> tuple[str, ...]:
        """The evidence of the worst groups, and the way to the rest."""
        told = [row for row in self.groups if row.is_told]
        lines = [f"{row.status} {row.topic} {row.subscription}: {row.evidence}" for row in told[:LAG_EVIDENCE_SHOWN]]
        if more := len(told) - len(lines):
            lines.append(f"{more:,} more have no line here.")
        if self.next_cursor:
            lines.append(
                f"{len(self.groups):,} of {self.total:,} groups are shown: go on with cursor {self.next_cursor}."
            )
        return tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    answered_by: LagSource
    reason: str
    as_of_ms: int
    policy: LagPolicy
    run_id: str | None
    groups: list[GroupLag]
    partitions: list[PartitionLag]


async def _analyze(call: Call, params: AnalyzeLagParams) -> LagReport:
    await require_telemetry(call.gateway)
    wanted = LagFilter(topic=params.topic, subscription=params.subscription, namespace=params.namespace)
    answer = await _answer(call, params.source, wanted)
    if not answer.groups and params.subscription is not None:
        where = params.topic or (f"namespace {params.namespace}" if params.namespace else "any topic")
        raise NotFoundError(
            f"there is no subscription {params.subscription!r} on {where}: describe_topic shows those of a topic"
        )
    return _report(answer, params)


async def _answer(call: Call, source: LagSource, wanted: LagFilter) -> _Answer:
    if source is LagSource.LIVE:
        return await _live(call, wanted, "as asked")
    try:
        run = newest_lag(await published_runs(call.gateway, call.clock), wanted)
    except UnavailableError as error:  # its topic is on its way to another broker: the brokers can tell by themselves
        if source is LagSource.SPARK:
            raise
        return await _live(call, wanted, f"the results of Spark were not read: {error}")
    if run is None:
        if source is LagSource.SPARK:
            raise NotFoundError(
                "there is no finished result of the job lag for this: call run_analytics, or ask with source live"
            )
        return await _live(call, wanted, "no recent Spark run")
    age_s = (call.clock.now_ms() - run.as_of_ms) / 1_000
    if source is LagSource.AUTO and age_s > ANALYTICS_FRESH_S:
        return await _live(call, wanted, f"newest Spark run {run.run_id} is {span_text(age_s)} old")
    return _from_spark(run, wanted, age_s)


async def _live(call: Call, wanted: LagFilter, reason: str) -> _Answer:
    policy = LagPolicy(history_s=LAG_HISTORY_S)
    found = await live_lag(call.gateway, call.clock, wanted, policy)
    skipped = f"; {found.skipped:,} damaged telemetry records skipped" if found.skipped else ""
    missing = f"; not asked: {'; '.join(found.not_answered)}" if found.not_answered else ""
    cut = "" if found.is_whole else "; too large a cluster to read whole, a Spark run reads all of it"
    return _Answer(
        answered_by=LagSource.LIVE,
        reason=f"last {span_text(policy.history_s)} ({reason}{skipped}{missing}{cut})",
        as_of_ms=found.as_of_ms,
        policy=policy,
        run_id=None,
        groups=groups_of(found.partitions, policy, found.plain),
        partitions=found.partitions,
    )


def _from_spark(run: Run, wanted: LagFilter, age_s: float) -> _Answer:
    groups, partitions = lag_of(run, wanted)
    cut = sum(run.totals.values()) > sum(len(rows) for rows in run.tables.values())
    return _Answer(
        answered_by=LagSource.SPARK,
        reason=f"run {run.run_id}, {span_text(age_s)} ago" + ("; it holds the worst rows only" if cut else ""),
        as_of_ms=run.as_of_ms,
        policy=LagPolicy(),
        run_id=run.run_id,
        groups=groups,
        partitions=partitions,
    )


def report_of_run(run: Run, params: AnalyzeLagParams, now_ms: int) -> LagReport:
    """The report of a finished lag run. Raises InvalidRequestError for rows that are none."""
    return _report(_from_spark(run, LagFilter(), (now_ms - run.as_of_ms) / 1_000), params)


def _report(answer: _Answer, params: AnalyzeLagParams) -> LagReport:
    statuses = {str(status): sum(one.status is status for one in answer.groups) for status in LagStatus}
    groups = [one for one in answer.groups if params.status in {None, one.status}]
    page, cursor = page_of(groups, _place, params.limit, params.cursor)
    on_page = {(one.topic, one.subscription) for one in page}
    plain = {one.topic for one in answer.groups}  # a partitioned topic has its base's name here
    members = worst_first(one for one in answer.partitions if one.group(plain) in on_page)
    verdicts = {(one.topic, one.subscription): one.verdict for one in members}
    return LagReport(
        answered_by=answer.answered_by,
        reason=answer.reason,
        as_of_ms=answer.as_of_ms,
        window_s=answer.policy.window_ms / 1_000,
        run_id=answer.run_id,
        statuses={status: count for status, count in statuses.items() if count},
        total=len(groups),
        next_cursor=cursor,
        groups=[_group_row(one, verdicts.get((one.worst_partition, one.subscription)), answer) for one in page],
        partition_total=len(members),
        partitions=[_partition_row(one, answer) for one in members[:LAG_PARTITIONS_SHOWN_MAX]]
        if params.partitions
        else [],
    )


def _place(group: GroupLag | LagGroupRow) -> Key:
    """The place of a group: the worst first."""
    status, cause = LagStatus(group.status), LagCause(group.cause) if group.cause else None
    return (*harm(status, cause, group.lag_messages), group.topic, group.subscription)


def _group_row(one: GroupLag, worst: LagVerdict | None, answer: _Answer) -> LagGroupRow:
    unknown = "its partitions are not in the result"
    evidence = group_evidence(one, worst, answer.policy, answer.as_of_ms) if worst else unknown
    return _row(LagGroupRow, one, evidence=evidence)


def _partition_row(one: PartitionLag, answer: _Answer) -> LagRow:
    evidence = evidence_of(one.verdict, answer.policy, answer.as_of_ms)
    return _row(LagRow, one.verdict, topic=one.topic, subscription=one.subscription, evidence=evidence)


def _row(kind: type[R], of: GroupLag | LagVerdict, **own: str) -> R:
    """The row of a group or a partition; a number has as many places as it is worth."""
    row = kind.of(of, **own)
    exact = {name: value for name in kind.model_fields if isinstance(value := getattr(row, name), float)}
    return row.model_copy(update={name: round(value, 3) for name, value in exact.items()})


ANALYZE_CONSUMER_LAG = Operation(
    name="analyze_consumer_lag",
    words=("analytics", "lag"),
    summary="Show consumer lag by group: status, cause and time to catch up.",
    description=(
        "Groups come worst first: by harm, those that are OK by name. A group is one subscription over all partitions"
        " of its topic. It says whether it was answered live or from a Spark run. Cause blocked: call retry_blocked."
        " STOP: start a consumer. STALL with cause poison or stuck: look at the consumer's errors. WARN with too_slow:"
        " add consumers or partitions. For one topic in full call describe_topic; for a long history call"
        " run_analytics."
    ),
    effect=Effect.READ,
    params=AnalyzeLagParams,
    result=LagReport,
    rows="groups",
    pages=Listing(rows="groups", name="topic", by=_place, is_report=True),
    run=_analyze,
    examples=(
        Example("Who is behind?"),
        Example(
            "The subscription `billing` of /default/orders", {"topic": "/default/orders", "subscription": "billing"}
        ),
        Example("Judged here and now, partitions too", {"source": "live", "partitions": True}),
    ),
)

OPERATIONS = (ANALYZE_CONSUMER_LAG,)

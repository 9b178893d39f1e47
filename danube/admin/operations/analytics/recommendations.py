"""get_recommendations: troubles of the cluster, worst first, each with the next call."""

import asyncio
from collections.abc import Awaitable, Sequence
from itertools import chain
from typing import TypeVar

from pydantic import Field

from danube.admin.operations.analytics.lag import ANALYZE_CONSUMER_LAG, AnalyzeLagParams, LagGroupRow, LagReport
from danube.admin.operations.analytics.troubles import (
    BROKER_METRICS,
    Confidence,
    Recommendation,
    of_broker,
    of_connections,
    of_retention,
    of_states,
)
from danube.admin.operations.cluster.balance_views import UNEVEN_CV, is_idle, wait_of
from danube.admin.operations.cluster.health import HEALTH_CHECK, Check, CheckStatus
from danube.admin.operations.fields import Params, Result
from danube.admin.operations.operation import Call, Example, Operation
from danube.model.calls.balance import ClusterBalance
from danube.model.calls.inspection import MetricSample, ReadMetrics
from danube.model.errors import DanubeError, NotFoundError, UnavailableError, UnsupportedError
from danube.model.lag.verdict import LagCause, LagStatus
from danube.model.limits.faces import LAG_GROUPS_MAX
from danube.model.limits.inspection import METRICS_READ_MAX, RECOMMEND_TOPICS_MAX
from danube.model.plans.plan import Effect
from danube.model.topic import TopicName

T = TypeVar("T")


class Recommendations(Result):
    """Troubles, the worst first."""

    total: int = Field(title="Troubles", description="How many there are; 0 where nothing is wrong.")
    not_judged: list[str] = Field(description="What could not be judged, and why.")
    recommendations: list[Recommendation] = Field(description="Each with the next call.")


_OF_CHECK = {
    "brokers": ("Topics of brokers that are away are not served.", "list_brokers"),
    "leader": ("Topics are not assigned until a leader is elected.", "cluster_status"),
    "agreement": ("Without a majority of voters no metadata changes.", "cluster_status"),
    "topics without owner": ("Clients of these topics wait.", "cluster_status"),
    "subscriptions": ("Messages behind the blocked ones are not delivered.", "analyze_consumer_lag"),
    "storage": ("Publishing stops when the disk is full.", "list_topics"),
}
_OF_CAUSE = {
    LagCause.DATA_LOSS: ("Retention deletes unread messages.", "get_topic_policies"),
    LagCause.MEMBER_STUCK: ("One consumer answers nothing while others do: restart it.", "list_connections"),
    LagCause.STORM: ("Most messages fail at first and are sent again.", "get_subscription_failure_policy"),
    LagCause.THROTTLED: ("Its dispatch limit holds it back: raise it.", "get_topic_policies"),
    LagCause.BLOCKED: ("Messages that failed too often hold up those behind them.", "retry_blocked"),
    LagCause.NOBODY_READS: ("No consumer is connected: lag grows until one is started.", "describe_topic"),
    LagCause.POISON: ("Messages come back again and again: consumers fail on them.", "get_subscription_failure_policy"),
    LagCause.BACK_OFF: ("Messages wait before they are sent again.", "get_subscription_failure_policy"),
    LagCause.STUCK: ("Consumers hold messages and acknowledge none.", "list_connections"),
    LagCause.NOT_SENT: ("Consumers are connected and get nothing.", "list_connections"),
    LagCause.TOO_SLOW: ("More arrives than is consumed: add consumers or partitions.", "describe_topic"),
    LagCause.REWOUND: ("The position went back: messages are delivered again.", "describe_topic"),
}
_OF_ANY = ("Its lag does not fall.", "describe_topic")
_OF_TOPIC = frozenset({"describe_topic", "list_connections", "get_topic_policies"})
_BAD = frozenset({LagStatus.STOP, LagStatus.STALL})
_SURE = {"measured": Confidence.HIGH, "interpolated": Confidence.MEDIUM}


def of_checks(checks: Sequence[Check]) -> list[Recommendation]:
    """Recommendations out of checks that are not ok."""
    found = []
    for check in checks:
        if check.status in {CheckStatus.WARNING, CheckStatus.CRITICAL}:
            meaning, tool = _OF_CHECK.get(check.name, ("The cluster does not work as it should.", "health_check"))
            found.append(
                Recommendation(
                    severity=check.status,
                    subject=check.name,
                    since_ms=None,
                    confidence=Confidence.HIGH,
                    meaning=meaning,
                    next_tool=tool,
                    next_arguments={},
                    seen=check.detail,
                )
            )
    return found


def of_groups(groups: Sequence[LagGroupRow], as_of_ms: int) -> list[Recommendation]:
    """Recommendations out of consumer groups: those that are behind, and those that retention has overtaken."""
    found = []
    for one in groups:
        if one.status in {LagStatus.WARN, LagStatus.REWIND, *_BAD}:
            meaning, tool = _OF_CAUSE.get(LagCause(one.cause), _OF_ANY) if one.cause else _OF_ANY
            is_critical = one.status in _BAD or one.cause == LagCause.DATA_LOSS
            severity = CheckStatus.CRITICAL if is_critical else CheckStatus.WARNING
            found.append(_of_group(one, as_of_ms, severity, meaning, tool))
        if one.cause != LagCause.DATA_LOSS and one.retention_ratio is not None and one.retention_ratio > 1:
            lost = "Retention deleted unread messages."
            found.append(_of_group(one, as_of_ms, CheckStatus.CRITICAL, lost, "get_topic_policies"))
    return found


def _of_group(one: LagGroupRow, as_of_ms: int, severity: CheckStatus, meaning: str, tool: str) -> Recommendation:
    topic = one.worst_partition or one.topic
    arguments = {"topic": topic} if tool in _OF_TOPIC else {"topic": topic, "subscription": one.subscription}
    lag = f"{one.lag_messages:,} unread; " if one.lag_messages is not None else ""
    return Recommendation(
        severity=severity,
        subject=f"{one.topic} {one.subscription}",
        since_ms=as_of_ms - round(one.lag_s * 1_000) if one.lag_s is not None else None,
        confidence=_SURE.get(one.lag_method, Confidence.LOW),
        meaning=meaning,
        next_tool=tool,
        next_arguments=arguments,
        seen=f"{one.status}: {lag}{one.evidence}",
    )


def of_balance(found: ClusterBalance) -> list[Recommendation]:
    """A recommendation where the load is uneven, with what a plan waits for."""
    waits = wait_of(found)
    if not waits and (found.figures.cv < UNEVEN_CV or is_idle(found)):
        return []
    return [
        Recommendation(
            severity=CheckStatus.WARNING,
            subject="balance",
            since_ms=None,
            confidence=Confidence.HIGH,
            meaning="Some brokers do most of the work, and the others little.",
            next_tool="analyze_cluster_balance" if waits else "trigger_rebalance",
            next_arguments={},
            seen=waits or f"The imbalance is {found.figures.cv:.2f}, {found.figures.band}.",
        )
    ]


async def _recommend(call: Call, params: Params) -> Recommendations:
    not_judged = list[str]()
    health, brokers, balance, lag = await asyncio.gather(
        HEALTH_CHECK.answer(call, params),
        _or_error(_of_brokers(call, not_judged)),
        _or_error(call.gateway.cluster_balance()),
        _or_error(ANALYZE_CONSUMER_LAG.answer(call, AnalyzeLagParams(limit=LAG_GROUPS_MAX))),
    )
    not_judged += [f"{each.name}: {each.detail}" for each in health.checks if each.status is CheckStatus.UNKNOWN]
    found, covered = list[Recommendation](), set[str]()
    try:
        found, covered = _answered(brokers)
        found += of_balance(_answered(balance))
        report = _answered(lag)
        found += of_groups(report.groups, report.as_of_ms)
        found += await of_topics(call, report, not_judged)
    except (UnsupportedError, NotFoundError) as error:
        not_judged.append(f"the rest: {error}")
    found = of_checks([each for each in health.checks if each.name not in covered]) + found
    worst_first = sorted(found, key=lambda each: each.severity is not CheckStatus.CRITICAL)
    return Recommendations(total=len(found), not_judged=not_judged, recommendations=worst_first)


async def _or_error(asked: Awaitable[T]) -> T | DanubeError:
    """The answer, or the error that is to be looked at in its turn."""
    try:
        return await asked
    except DanubeError as error:
        return error


def _answered(answer: T | DanubeError) -> T:
    if isinstance(answer, DanubeError):
        raise answer
    return answer


async def _of_brokers(call: Call, not_judged: list[str]) -> tuple[list[Recommendation], set[str]]:
    """Troubles of all brokers, and the checks of health, which know one broker, that they make needless."""
    now_ms = call.clock.now_ms()
    wanted = [ReadMetrics(prefix=prefix, limit=METRICS_READ_MAX) for prefix in BROKER_METRICS]
    cluster, told = await asyncio.gather(
        call.gateway.describe_cluster(), asyncio.gather(*(call.gateway.metrics(each, None) for each in wanted))
    )
    missing = of_states(cluster.brokers, now_ms)
    not_judged += [f"broker {each.broker_id}: {each.problem}" for each in told[0] if each.told is None]
    samples: dict[str, list[MetricSample]] = {}
    for each in chain.from_iterable(told):
        if each.told is not None:
            samples.setdefault(each.broker_id, []).extend(each.told.samples)
    troubles = [one for broker_id, read in samples.items() for one in of_broker(broker_id, read, now_ms)]
    return missing + troubles, ({"brokers"} if missing else set()) | ({"storage"} if troubles else set())


async def of_topics(call: Call, lag: LagReport, not_judged: list[str]) -> list[Recommendation]:
    """Retention deadlines and connections of the topics whose groups are worst; RECOMMEND_TOPICS_MAX of them."""
    by_topic: dict[str, list[LagGroupRow]] = {}
    for one in lag.groups:
        by_topic.setdefault(one.topic, []).append(one)
    worst = list(by_topic.items())[:RECOMMEND_TOPICS_MAX]
    found = await asyncio.gather(*(_of_topic(call, topic, rows, lag.as_of_ms, not_judged) for topic, rows in worst))
    return [*chain.from_iterable(found)]


async def _of_topic(
    call: Call, topic: str, groups: Sequence[LagGroupRow], as_of_ms: int, not_judged: list[str]
) -> list[Recommendation]:
    name = TopicName.parse(topic)
    try:
        limits, (shown, _) = await asyncio.gather(
            call.gateway.topic_policies(name), call.gateway.topic_connections(name)
        )
    except NotFoundError:  # deleted meanwhile
        return []
    except UnavailableError as error:  # nobody serves it at the moment: no reason to be silent about the others
        not_judged.append(f"{topic}: {error}")
        return []
    of_rows = [found for one in groups for found in of_retention(topic, one, limits.holding, as_of_ms)]
    return [*of_rows, *of_connections(topic, shown)]


GET_RECOMMENDATIONS = Operation(
    name="get_recommendations",
    words=("cluster", "recommendations"),
    summary="List troubles of brokers, Raft, disks, certificates, clients, lag and retention, with the next call.",
    description="Evidence, age and confidence stand beside each. Nothing is changed.",
    effect=Effect.READ,
    params=Params,
    result=Recommendations,
    rows="recommendations",
    run=_recommend,
    examples=(Example("What should be done?"),),
)

OPERATIONS = (GET_RECOMMENDATIONS,)

"""Troubles that a broker's numbers, a topic's retention and its connections show. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from danube.admin.operations.analytics.lag import LagGroupRow
from danube.admin.operations.cluster.health import CheckStatus
from danube.admin.operations.fields import DETAIL, TOOL_NAME, VOLATILE, WIDE, Result
from danube.model.calls.admin import UNREACHABLE, BrokerState
from danube.model.calls.inspection import MetricSample
from danube.model.calls.positions import Connection
from danube.model.policies import Limits
from danube.model.text import count_text, percent_text, size_text, span_text, time_of

CERTIFICATE_WARN_S = 30 * 86_400
"""A certificate is renewed within weeks; what renews itself does so before."""
CERTIFICATE_CRITICAL_S = 3 * 86_400
DEADLINE_SHARE = 0.8
"""Share of the retention time that the oldest unread message has used up, from which a person should know."""
TAKEOVERS_MIN = 3
"""One client that reconnects takes its own place once or twice."""


class Confidence(StrEnum):
    """Confidence in a recommendation, from low to high."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Recommendation(Result):
    """One trouble, and what to do about it."""

    severity: CheckStatus = Field(description="`critical` or `warning`.")
    subject: str = Field(description="The check, or topic and subscription, that it is about.")
    since_ms: Annotated[int | None, VOLATILE] = Field(description="Since when; null where that is not known.")
    confidence: Annotated[Confidence, VOLATILE] = Field(description="`low`, `medium` or `high`.")
    meaning: str = Field(description="The consequence, if nothing is done.")
    next_tool: Annotated[str, TOOL_NAME] = Field(title="Next", description="The operation to call next.")
    next_arguments: Annotated[dict[str, Any], WIDE] = Field(description="Its arguments.")
    seen: Annotated[str, VOLATILE, DETAIL] = Field(description="Evidence: what was found, with its numbers.")

    def words(self) -> Mapping[str, str]:
        """The next call as a command."""
        from danube.admin.operations import BY_NAME  # noqa: PLC0415 - this operation is one of them

        operation = BY_NAME.get(self.next_tool)
        if operation is None:  # it is a command already, where that tool is not offered
            return {}
        arguments = {name: shlex.quote(str(value)) for name, value in self.next_arguments.items()}
        given = [arguments[name] for name in operation.positional if name in arguments]
        options = [(name, value) for name, value in arguments.items() if name not in operation.positional]
        given += [f"--{name.replace('_', '-')} {value}" for name, value in options]
        return {"next_tool": " ".join(["danube-admin", operation.command, *given])}


CERTIFICATE = "danube_security_certificate_expiry_timestamp_seconds"
_STOPPED, _LEVEL, _FREE = "danube_journal_stopped", "danube_storage_disk_level", "danube_storage_disk_free_bytes"
_QUARANTINED, _REFUSED = "danube_storage_quarantined_topics", "danube_storage_refused_topics"
_NO_ROOM = 2.0
BROKER_METRICS = (_STOPPED, CERTIFICATE, "danube_storage_")
"""Beginnings of the names that `of_broker` reads."""


def of_broker(broker_id: str, samples: Iterable[MetricSample], now_ms: int) -> list[Recommendation]:
    """Troubles of one broker by its metrics: disk, journal, topics set aside, certificate."""
    values: Mapping[str, float] = {each.name: each.value for each in samples if not each.labels}
    errors = ("get_broker_logs", {"broker_id": broker_id, "level": "error"})
    found = [*_of_disk(broker_id, values), *_of_certificate(broker_id, values.get(CERTIFICATE), now_ms)]
    if values.get(_STOPPED):
        found.append(_of("disk of", broker_id, "No message is accepted until it starts again.", errors, "stopped"))
    if count := int(values.get(_REFUSED, 0)):
        seen = f"{count_text(count, 'topic')} with a history that cannot be read"
        found.append(_of("topics of", broker_id, "These topics are not served.", errors, seen))
    if count := int(values.get(_QUARANTINED, 0)):
        seen = f"{count_text(count, 'topic')} with a flush that fails"
        found.append(
            _of("topics of", broker_id, "The journal grows until it fills the disk.", errors, seen, is_critical=False)
        )
    return found


def _of_disk(broker_id: str, values: Mapping[str, float]) -> list[Recommendation]:
    level = values.get(_LEVEL, 0.0)
    if not level:
        return []
    largest = ("get_metrics", {"metric": "danube_topic_stored_bytes", "broker_id": broker_id})
    free = f"{size_text(values[_FREE])} free" if _FREE in values else "little room"
    if level >= _NO_ROOM:
        return [_of("disk of", broker_id, "Messages are refused until there is room.", largest, free)]
    return [_of("disk of", broker_id, "Publishing stops when it is full.", largest, free, is_critical=False)]


def _of_certificate(broker_id: str, expires_s: float | None, now_ms: int) -> list[Recommendation]:
    left_s = None if expires_s is None else expires_s - now_ms / 1_000
    if expires_s is None or left_s is None or left_s > CERTIFICATE_WARN_S:
        return []
    is_void = left_s <= 0
    meaning = "Clients refuse the broker." if is_void else "Clients refuse the broker once it is void."
    until = time_of(round(expires_s * 1_000))
    return [
        Recommendation(
            severity=CheckStatus.CRITICAL if left_s <= CERTIFICATE_CRITICAL_S else CheckStatus.WARNING,
            subject=f"certificate of broker {broker_id}",
            since_ms=round((expires_s if is_void else expires_s - CERTIFICATE_WARN_S) * 1_000),
            confidence=Confidence.HIGH,
            meaning=f"{meaning} Put a new one in its place: the broker reads it by itself.",
            next_tool="get_metrics",
            next_arguments={"metric": CERTIFICATE, "broker_id": broker_id},
            seen=f"void since {until}" if is_void else f"void in {span_text(left_s)}, at {until}",
        )
    ]


def of_states(states: Sequence[BrokerState], now_ms: int) -> list[Recommendation]:
    """Brokers that are missing, each with the time when it was last seen."""
    return [
        Recommendation(
            severity=CheckStatus.CRITICAL if each.topics else CheckStatus.WARNING,
            subject=f"broker {each.broker_id}",
            since_ms=each.last_seen_ms,
            confidence=Confidence.HIGH,
            meaning="Its topics wait for it: start it again." if each.topics else "Start it again, or remove it.",
            next_tool="list_topics" if each.topics else "cluster_status",
            next_arguments={"broker": each.broker_id} if each.topics else {},
            seen=f"{UNREACHABLE}{_ago(each.last_seen_ms, now_ms)}; {count_text(each.topics, 'topic')}",
        )
        for each in states
        if each.status == UNREACHABLE and each.broker_id != "0"
    ]


def _ago(at_ms: int | None, now_ms: int) -> str:
    return "" if at_ms is None else f" for {span_text(max(0, now_ms - at_ms) / 1_000)}"


def of_retention(topic: str, group: LagGroupRow, limits: Limits, as_of_ms: int) -> list[Recommendation]:
    """Deadlines at which retention, by time or by size, deletes the oldest unread message of a group."""
    if not limits.retention_drops_unread:
        return []
    lag_s, keeps_s, unread = group.lag_s, limits.retention_time_s, group.retention_ratio
    found = []
    if keeps_s and lag_s is not None and lag_s >= DEADLINE_SHARE * keeps_s:
        left_s = keeps_s - lag_s
        due = f"due since {span_text(-left_s)}" if left_s < 0 else f"due in {span_text(left_s)}"
        found.append(
            _retained(
                topic,
                group,
                severity=CheckStatus.CRITICAL if left_s < (1 - DEADLINE_SHARE) / 2 * keeps_s else CheckStatus.WARNING,
                since_ms=as_of_ms - round((lag_s - DEADLINE_SHARE * keeps_s) * 1_000),
                due=due,
                seen=f"oldest unread message is {span_text(lag_s)} old; messages are kept for {span_text(keeps_s)},"
                " unread ones too",
            )
        )
    if limits.retention_bytes and unread is not None and DEADLINE_SHARE <= unread <= 1:
        found.append(
            _retained(
                topic,
                group,
                severity=CheckStatus.WARNING,
                since_ms=None,
                due="soon",
                seen=f"{percent_text(unread)} of the messages that are kept are unread;"
                f" {size_text(limits.retention_bytes)} are kept, unread ones too",
            )
        )
    return found


def _retained(
    topic: str, group: LagGroupRow, *, severity: CheckStatus, since_ms: int | None, due: str, seen: str
) -> Recommendation:
    return Recommendation(
        severity=severity,
        subject=f"{topic} {group.subscription}",
        since_ms=since_ms,
        confidence=Confidence.HIGH if since_ms else Confidence.MEDIUM,
        meaning=f"Retention deletes unread messages, {due}: keep them for longer, or read them.",
        next_tool="get_topic_policies",
        next_arguments={"topic": topic},
        seen=seen,
    )


def of_connections(topic: str, connections: Sequence[Connection]) -> list[Recommendation]:
    """Clients that take a place from each other."""
    fought = [each for each in connections if each.takeovers >= TAKEOVERS_MIN or each.held_off]
    return [
        Recommendation(
            severity=CheckStatus.WARNING,
            subject=f"{topic} {each.subscription}",
            since_ms=None,
            confidence=Confidence.MEDIUM,
            meaning="Clients of one name take the place from each other: give each a name of its own.",
            next_tool="list_connections",
            next_arguments={"topic": topic},
            seen=f"{each.name!r}: {each.takeovers} takeovers and {each.held_off} waits{_rival(each)}",
        )
        for each in fought
    ]


def _rival(connection: Connection) -> str:
    return f", the last one by {connection.rival}" if connection.rival else ""


def _of(
    what: str,
    broker_id: str,
    meaning: str,
    next_call: tuple[str, dict[str, Any]],
    seen: str,
    *,
    is_critical: bool = True,
) -> Recommendation:
    return Recommendation(
        severity=CheckStatus.CRITICAL if is_critical else CheckStatus.WARNING,
        subject=f"{what} broker {broker_id}",
        since_ms=None,
        confidence=Confidence.HIGH,
        meaning=meaning,
        next_tool=next_call[0],
        next_arguments=next_call[1],
        seen=seen,
    )

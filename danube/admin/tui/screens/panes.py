"""The lists of the first screen: their columns, and the cells of a row."""

import json
from collections.abc import Mapping
from enum import StrEnum

from danube.admin.operations.analytics.lag import LagGroupRow
from danube.admin.operations.cluster.members import MemberRow
from danube.admin.operations.plan_views import PlanView
from danube.admin.operations.topics.topic_list import DELIVERY
from danube.admin.present import UNKNOWN, View, cell, heading
from danube.admin.tui.data.topic_rows import Order, TopicRow
from danube.admin.tui.widgets.rows import Cells, Column
from danube.model.calls.admin import BrokerInfo
from danube.model.records.audit import AuditRecord
from danube.model.text import age_text, span_text
from danube.report.tones import alarm_of


class Pane(StrEnum):
    """One of the lists; its value is the id of its widget, and the part that it shows."""

    TOPICS = "topics"
    BROKERS = "brokers"
    PLANS = "plans"
    AUDIT = "audit"
    LAG = "lag"
    MEMBERS = "members"


COLUMNS = {
    Pane.BROKERS: (
        Column("Broker", 22),
        Column("Status", 11),
        Column("Role", 14),
        Column("Clients dial"),
        Column("Administrators dial", from_width=100),
    ),
    Pane.PLANS: (
        Column("Plan", 18),
        Column("Status", 9),
        Column("Effect", 8),
        Column("What"),
        Column("Asked by", 26, from_width=100),
        Column("Left", 7, is_number=True),
    ),
    Pane.AUDIT: (
        Column("No.", 7, is_number=True),
        Column("When", 14, from_width=70),
        Column("Who", 14),
        Column("Face", 8, from_width=100),
        Column("What"),
        Column("Outcome", 8),
    ),
    Pane.LAG: (
        Column("Status", 8),
        Column("Topic"),
        Column("Subscription"),
        Column("Lag", 9, is_number=True),
        Column("Oldest", 11, is_number=True, from_width=90),
        Column("In/s", 8, is_number=True, from_width=110),
        Column("Out/s", 8, is_number=True, from_width=110),
        Column("Clears in", 11, is_number=True, from_width=100),
        Column("Cause", 12),
    ),
    Pane.MEMBERS: (
        Column("Node", 22),
        Column("Broker", 22, from_width=100),
        Column("Role", 8),
        Column("Connected", 9),
        Column("Behind", 9, is_number=True),
        Column("Address"),
    ),
}
_MARKS = {Order.NAME: "Topic", Order.LAG: "Lag", Order.RATE: "Msg/s"}


def topic_columns(order: Order) -> tuple[Column, ...]:
    """Columns of topics; the one that they are sorted by is marked."""

    def title(of: Order) -> str:
        return f"{_MARKS[of]}{'▴' if of is Order.NAME else '▾'}" if of is order else _MARKS[of]

    return (
        Column(title(Order.NAME)),
        Column("Delivery", 12, from_width=60),
        Column("Subs", 6, is_number=True),
        Column(title(Order.LAG), 11, is_number=True),
        Column(title(Order.RATE), 9, is_number=True),
        Column("State", 10, from_width=90),
        Column("Broker", 21, is_number=True, from_width=100),
    )


def topic_cells(line: TopicRow, *, is_below: bool, is_unfolded: bool) -> Cells:
    """A topic; a partitioned one with a sign that it unfolds, a partition below it with an indent."""
    rate = UNKNOWN if line.rate is None else f"{line.rate:,.1f}"
    return Cells(
        (
            _topic_name(line, is_below=is_below, is_unfolded=is_unfolded),
            DELIVERY[line.strategy],
            cell(line.subscriptions),
            cell(line.lag),
            rate,
            cell(line.state),
            line.broker_id or "none",
        ),
        alarm_of(line.state) if line.broker_id else "warning",
    )


def broker_cells(info: BrokerInfo) -> Cells:
    """A broker."""
    texts = (info.broker_id, info.status, info.role.removeprefix("Cluster_"), info.broker_url, info.admin_url)
    return Cells(texts, alarm_of(info.status))


def plan_cells(plan: PlanView, now_ms: int) -> Cells:
    """A plan."""
    left = UNKNOWN if plan.status.is_over else age_text(plan.expires_ms - now_ms)
    what = f"{plan.operation} {_arguments(plan.arguments)}"
    texts = (plan.plan_id, plan.status, plan.effect, what, f"{plan.asked_by}, {plan.asked_through}", left)
    return Cells(texts, "dim" if plan.status.is_over else alarm_of(plan.status))


def audit_cells(record: AuditRecord) -> Cells:
    """An audit record."""
    entry = record.entry
    what = f"{entry.operation} {_arguments(entry.arguments)}{f': {entry.detail}' if entry.detail else ''}"
    texts = (
        str(record.sequence),
        cell(record.at_ms, "at_ms")[5:19],
        entry.caller.who,
        entry.caller.face,
        what,
        entry.outcome,
    )
    return Cells(texts, alarm_of(entry.outcome))


def record_view(record: AuditRecord) -> View:
    """An audit record whole."""
    entry = record.entry
    facts = {
        "When": cell(record.at_ms, "at_ms"),
        "Who": entry.caller.who,
        "Face": entry.caller.face,
        "Program": entry.caller.client or UNKNOWN,
        "Operation": entry.operation,
        "Effect": entry.effect,
        "Arguments": json.dumps(dict(entry.arguments)),
        "Plan": cell(entry.plan_id),
        "Outcome": entry.outcome,
        "Error": cell(entry.error),
        "Detail": entry.detail or UNKNOWN,
        "Kept by": record.keeper,
        "Hash": record.hash,
        "Hash before": record.previous,
    }
    return View(tuple(facts.items()))


def _arguments(arguments: Mapping[str, object]) -> str:
    """As briefly as can be: the values, with their names where there are several."""
    given = {name: value for name, value in arguments.items() if value is not None}
    words = [value if isinstance(value, str) else json.dumps(value) for value in given.values()]
    if len(given) == 1:
        return words[0]
    return " ".join(f"{name}={word}" for name, word in zip(given, words, strict=True))


def lag_cells(line: tuple[LagGroupRow, bool]) -> Cells:
    """A group with its status and cause in words, or the evidence for it."""
    row, is_why = line
    if is_why:
        return Cells((row.evidence,), "dim", is_sentence=True)
    words = row.words()
    texts = (
        row.status,
        row.topic,
        row.subscription,
        cell(row.lag_messages),
        UNKNOWN if row.lag_s is None else span_text(row.lag_s),
        cell(row.arrival_rate),
        cell(row.consume_rate),
        words.get("eta_s") or (UNKNOWN if row.eta_s is None else span_text(row.eta_s)),
        words.get("cause", UNKNOWN),
    )
    return Cells(texts, alarm_of(row.status))


def member_cells(row: MemberRow) -> Cells:
    """A member of the Raft group."""
    connected = "yes" if row.connected else "no"
    texts = (row.node_id, cell(row.broker_id), row.role, connected, cell(row.lag), row.address)
    return Cells(texts, "" if row.connected else "error")


def lag_view(row: LagGroupRow) -> View:
    """All that is known of a group, its evidence last."""
    words = row.words()
    facts = tuple(
        (heading(LagGroupRow, name), words.get(name) or cell(getattr(row, name), name))
        for name in LagGroupRow.model_fields
        if name != "evidence"
    )
    return View(facts, notes=(f"Evidence: {row.evidence}",))


def _topic_name(line: TopicRow, *, is_below: bool, is_unfolded: bool) -> str:
    if is_below:
        return f"  {line.name}"
    return f"{line.name} {'-' if is_unfolded else '+'}{line.partitions} partitions" if line.partitions else line.name

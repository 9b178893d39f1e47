"""The first screen: topics, brokers, plans and the audit trail, each a list that is read again and again."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.widgets import Input, Static

from danube.admin.operations.plan_views import PlanView
from danube.admin.operations.topics.topics import DELIVERY
from danube.admin.present import UNKNOWN, View, cell
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.topic_rows import Order, TopicRow, arranged
from danube.admin.tui.data.watch import Part, Watch
from danube.admin.tui.header import age
from danube.admin.tui.palette import SelectionCommands
from danube.admin.tui.plan_actions import acts_on, whole_view
from danube.admin.tui.schemas.screens import SchemasScreen
from danube.admin.tui.screens.balance import BalanceScreen
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.decide import DecideScreen
from danube.admin.tui.screens.result import DetailScreen
from danube.admin.tui.screens.topic import TopicScreen
from danube.admin.tui.widgets.plain import PlainInput, plain
from danube.admin.tui.widgets.rows import Cells, Column, Rows
from danube.model.calls.admin import BrokerInfo
from danube.model.ownership import OwnershipState
from danube.model.plans.plan import PlanStatus
from danube.model.records.audit import AuditRecord, Outcome


class Pane(StrEnum):
    """One of the lists; its value is the id of its widget, and the part that it shows."""

    TOPICS = "topics"
    BROKERS = "brokers"
    PLANS = "plans"
    AUDIT = "audit"


_COLUMNS = {
    Pane.BROKERS: (
        Column("Broker", 22),
        Column("Status", 9),
        Column("Role", 16),
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
}
_TONES = {
    OwnershipState.MOVING: "warning",
    OwnershipState.OPENING: "warning",
    OwnershipState.UNASSIGNED: "warning",
    OwnershipState.WAITING: "error",
}
_MARKS = {Order.NAME: "Topic", Order.LAG: "Lag", Order.RATE: "Msg/s"}


class Workspace(BaseScreen):
    """The first screen."""

    KEYS = "1-4 lists  b balance  Enter open  o act  / filter  : operations  ? help"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(at), f"open('{pane}')", pane.title()) for at, pane in enumerate(Pane, 1)),
        Binding("tab", "next_pane(1)", "Next list", show=False),
        Binding("shift+tab", "next_pane(-1)", "List before", show=False),
        Binding("b", "balance", "Balance"),
        Binding("v", "schemas", "Schemas"),
        Binding("slash", "filter", "Filter"),
        Binding("s", "sort", "Sort"),
        Binding("o", "operations", "Operations"),
        Binding("a", "decide('a')", "Approve"),
        Binding("x", "decide('x')", "Reject"),
        Binding("q", "app.quit", "Quit"),
        Binding("escape", "clear_filter", "No filter", show=False),
    ]

    def __init__(self, app_context: AppContext) -> None:
        super().__init__(app_context)
        self.pane = Pane.TOPICS
        self.order = Order.NAME
        self._words = ""

    def parts(self) -> Sequence[Part]:
        return tuple(dict.fromkeys((Part.HEALTH, Part(self.pane), Part.PLANS, Part.BROKERS)))

    def selection(self) -> Mapping[str, str]:
        chosen = self._rows(self.pane).selected
        kinds = {Pane.TOPICS: "topic", Pane.BROKERS: "broker", Pane.PLANS: "plan"}
        return {kinds[self.pane]: chosen} if chosen is not None and self.pane in kinds else {}

    def body(self) -> ComposeResult:
        yield Static(id="tabs", markup=False)
        filtering = PlainInput(placeholder="words of the name, @7 for broker 7", compact=True, id="filter")
        filtering.display = False
        yield filtering
        yield Rows(_topic_columns(self.order), empty="", id=Pane.TOPICS)
        for pane, columns in _COLUMNS.items():
            rows = Rows(columns, empty="", id=pane)
            rows.display = False
            yield rows
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self._rows(self.pane).focus()

    def draw(self) -> None:
        watch = self.app_context.watch
        self.query_one("#tabs", Static).update(plain(self._tabs(watch)))
        draw = {
            Pane.TOPICS: self._draw_topics,
            Pane.BROKERS: self._draw_brokers,
            Pane.PLANS: self._draw_plans,
            Pane.AUDIT: self._draw_audit,
        }[self.pane]
        note = draw(watch)
        self.query_one("#note", Static).update(plain(watch.problems.get(Part(self.pane)) or note))

    def action_open(self, pane: str) -> None:
        self.pane = Pane(pane)
        for each in Pane:
            self._rows(each).display = each is self.pane
        self.query_one("#filter").display = self.pane is Pane.TOPICS and bool(self._words)
        self._rows(self.pane).focus()
        self.draw_all()
        self.app.call_later(self.app.run_action, "refresh")

    def action_next_pane(self, by: int) -> None:
        panes = list(Pane)
        self.action_open(panes[(panes.index(self.pane) + by) % len(panes)])

    def action_filter(self) -> None:
        self.action_open(Pane.TOPICS)
        filtering = self.query_one("#filter", Input)
        filtering.display = True
        filtering.focus()

    def action_clear_filter(self) -> None:
        filtering = self.query_one("#filter", Input)
        filtering.value = ""
        filtering.display = False
        self._rows(self.pane).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._words = event.value
        self.draw_all()

    def on_input_submitted(self) -> None:
        self.query_one("#filter").display = bool(self._words)
        self._rows(self.pane).focus()

    def action_sort(self) -> None:
        self.order = self.order.next
        self.draw_all()
        self._rows(Pane.TOPICS).action_move_to(0)

    def action_operations(self) -> None:
        if self.selection():
            self.app.push_screen(CommandPalette([SelectionCommands], placeholder="What to do with it?"))

    def action_balance(self) -> None:
        self.app.push_screen(BalanceScreen(self.app_context))
        self.app.call_later(self.app.run_action, "refresh")

    def action_schemas(self) -> None:
        self.app_context.watch.schemas.open("")
        self.app.push_screen(SchemasScreen(self.app_context))
        self.app.call_later(self.app.run_action, "refresh")

    def action_decide(self, key: str) -> None:
        if self.pane is Pane.PLANS:
            self._open_plan(self._rows(Pane.PLANS).selected, key)

    def on_rows_picked(self, event: Rows.Picked) -> None:
        match self.pane:
            case Pane.TOPICS:
                self._open_topic(event.key)
            case Pane.BROKERS:
                self._show_topics_of(event.key)
            case Pane.PLANS:
                self._open_plan(event.key, None)
            case Pane.AUDIT:
                self._open_record(int(event.key))

    def _open_topic(self, name: str) -> None:
        line = self.app_context.watch.topics.get(name)
        if line is None:
            return
        self.app_context.watch.opened = line.topic
        self.app.push_screen(TopicScreen(self.app_context, line.topic))
        self.app.call_later(self.app.run_action, "refresh")

    def _show_topics_of(self, broker_id: str) -> None:
        filtering = self.query_one("#filter", Input)
        filtering.value = self._words = f"@{broker_id}"
        self.action_open(Pane.TOPICS)

    def _open_plan(self, plan_id: str | None, key: str | None) -> None:
        plan = next((plan for plan in self.app_context.watch.plans if plan.plan_id == plan_id), None)
        if plan is not None:
            act = acts_on(plan).get(key) if key else None
            self.app.push_screen(DecideScreen(self.app_context, whole_view(plan), plan=plan, act=act))

    def _open_record(self, sequence: int) -> None:
        record = next((each for each in self.app_context.watch.audit.records if each.sequence == sequence), None)
        if record is not None:
            self.app.push_screen(DetailScreen(self.app_context, f"audit record {sequence}", _record_view(record)))

    def _rows(self, pane: Pane) -> Rows:
        return self.query_one(f"#{pane}", Rows)

    def _tabs(self, watch: Watch) -> str:
        waiting = f" ({watch.waiting_plans} waiting)" if watch.waiting_plans else ""
        more = {Pane.TOPICS: f" {len(watch.topics):,}", Pane.BROKERS: f" {len(watch.brokers):,}", Pane.PLANS: waiting}
        words = []
        for at, pane in enumerate(Pane, 1):
            text = f"{at} {pane.title()}{more.get(pane, '')}"
            words.append(f"[{text}]" if pane is self.pane else f" {text} ")
        return "  ".join(words)

    def _draw_topics(self, watch: Watch) -> str:
        lines = arranged(watch.topics.lines, self.order, self._words)
        empty = "no topic fits the filter" if self._words else "no topics"
        self._rows(Pane.TOPICS).show(
            lines,
            key=lambda line: line.name,
            cells=_topic_cells,
            columns=_topic_columns(self.order),
            empty=empty if watch.topics.is_complete else "reading ...",
        )
        notes = [f"{len(lines):,} of {len(watch.topics):,} fit the filter"] if self._words else []
        if not watch.topics.is_complete and len(watch.topics):
            notes.append(f"{len(watch.topics):,} read so far, reading on ...")
        if watch.topics.beyond:
            notes.append(f"{watch.topics.beyond:,} more topics are not shown")
        if watch.is_ours is False:
            notes.append("this broker does not tell lag and rates")
        return " · ".join(notes)

    def _draw_brokers(self, watch: Watch) -> str:
        self._rows(Pane.BROKERS).show(
            watch.brokers, key=lambda info: info.broker_id, cells=_broker_cells, empty="no brokers"
        )
        return "Enter shows the topics of a broker, b the load of all."

    def _draw_plans(self, watch: Watch) -> str:
        now_ms = self.app_context.clock.now_ms()
        self._rows(Pane.PLANS).show(
            watch.plans, key=lambda plan: plan.plan_id, cells=lambda plan: _plan_cells(plan, now_ms), empty="no plans"
        )
        return "Enter reads a plan whole; a approves, x rejects one that waits." if watch.plans else ""

    def _draw_audit(self, watch: Watch) -> str:
        audit = watch.audit
        records = audit.records[::-1]
        self._rows(Pane.AUDIT).show(
            records, key=lambda record: str(record.sequence), cells=_audit_cells, empty="no calls were recorded yet"
        )
        verdict = audit.verdict
        kept = f" · kept by {cell(records[0].keeper)}" if records else ""
        if not verdict.is_intact:
            return f"CHAIN BROKEN at record {verdict.broken_at}: {verdict.reason}{kept}"
        checked = f"{verdict.checked:,} of {audit.total:,} records checked"
        return f"chain intact: {checked} · Enter shows one{kept}"


def _topic_columns(order: Order) -> tuple[Column, ...]:
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


def _topic_cells(line: TopicRow) -> Cells:
    rate = UNKNOWN if line.rate is None else f"{line.rate:,.1f}"
    return Cells(
        (
            line.name,
            DELIVERY[line.strategy],
            cell(line.subscriptions),
            cell(line.lag),
            rate,
            cell(line.state),
            line.broker_id or "none",
        ),
        _TONES.get(line.state or OwnershipState.SERVED, "") if line.broker_id else "warning",
    )


def _broker_cells(info: BrokerInfo) -> Cells:
    texts = (info.broker_id, info.status, info.role.removeprefix("Cluster_"), info.broker_url, info.admin_url)
    return Cells(texts, "" if info.status == "active" else "warning")


def _plan_cells(plan: PlanView, now_ms: int) -> Cells:
    left = UNKNOWN if plan.status.is_over else age(plan.expires_ms - now_ms)
    what = f"{plan.operation} {_arguments(plan.arguments)}"
    texts = (plan.plan_id, plan.status, plan.effect, what, f"{plan.asked_by}, {plan.asked_through}", left)
    tone = "warning" if plan.status is PlanStatus.WAITING else "dim" if plan.status.is_over else ""
    return Cells(texts, tone)


def _audit_cells(record: AuditRecord) -> Cells:
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
    tones = {Outcome.REFUSED: "warning", Outcome.FAILED: "error"}
    return Cells(texts, tones.get(entry.outcome, ""))


def _record_view(record: AuditRecord) -> View:
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

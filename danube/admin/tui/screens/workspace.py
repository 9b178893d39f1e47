"""The first screen: topics, brokers, plans, audit, lag and members, each a list that is read again and again."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.widgets import Input, Static

from danube.admin.operations.analytics.lag import LagGroupRow
from danube.admin.present import cell
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.topic_rows import Order, TopicRow, arranged, folded
from danube.admin.tui.data.watch import Part, Watch
from danube.admin.tui.palette import SelectionCommands
from danube.admin.tui.plan_actions import acts_on, whole_view
from danube.admin.tui.schemas.screens import SchemasScreen
from danube.admin.tui.screens.balance import BalanceScreen
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.connections import ConnectionsScreen
from danube.admin.tui.screens.decide import DecideScreen
from danube.admin.tui.screens.messages import MessagesScreen
from danube.admin.tui.screens.panes import (
    COLUMNS,
    Pane,
    audit_cells,
    broker_cells,
    lag_cells,
    lag_view,
    member_cells,
    plan_cells,
    record_view,
    topic_cells,
    topic_columns,
)
from danube.admin.tui.screens.result import DetailScreen
from danube.admin.tui.screens.topic import TopicScreen
from danube.admin.tui.widgets.plain import PlainInput, plain
from danube.admin.tui.widgets.rows import Cells, Rows
from danube.model.records.audit import AuditRecord
from danube.model.topic import TopicName

_READING = "reading ..."
_FILTERED = (Pane.TOPICS, Pane.LAG)


class Workspace(BaseScreen):
    """The first screen."""

    KEYS = "1-6 lists  Enter open  o act  l lag  m messages  c clients  b load  ? help"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(at), f"open('{pane}')", pane.title()) for at, pane in enumerate(Pane, 1)),
        Binding("tab", "next_pane(1)", "Next list", show=False),
        Binding("shift+tab", "next_pane(-1)", "List before", show=False),
        Binding("b", "balance", "Balance"),
        Binding("v", "schemas", "Schemas"),
        Binding("l", "lag", "Lag of it"),
        Binding("m", "messages", "Messages"),
        Binding("c", "connections", "Connections"),
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
        self._filters = dict.fromkeys(_FILTERED, "")
        self._unfolded: set[str] = set()

    @property
    def _words(self) -> str:
        """The filter of the list that is shown."""
        return self._filters.get(self.pane, "")

    def parts(self) -> Sequence[Part]:
        return tuple(dict.fromkeys((Part.HEALTH, Part(self.pane), Part.PLANS, Part.BROKERS)))

    def selection(self) -> Mapping[str, str]:
        chosen = self._rows(self.pane).selected
        if chosen is None:
            return {}
        if self.pane is Pane.LAG:
            topic, _, subscription = chosen.partition(" ")
            return {"topic": topic, "subscription": subscription}
        kinds = {Pane.TOPICS: "topic", Pane.BROKERS: "broker", Pane.PLANS: "plan"}
        return {kinds[self.pane]: chosen} if self.pane in kinds else {}

    def body(self) -> ComposeResult:
        yield Static(id="tabs", markup=False)
        filtering = PlainInput(placeholder="words of the name, @7 for broker 7", compact=True, id="filter")
        filtering.display = False
        yield filtering
        yield Rows(topic_columns(self.order), empty=_READING, id=Pane.TOPICS)
        for pane, columns in COLUMNS.items():
            rows = Rows(columns, empty=_READING, id=pane)
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
            Pane.LAG: self._draw_lag,
            Pane.MEMBERS: self._draw_members,
        }[self.pane]
        note = draw(watch)
        self.query_one("#note", Static).update(plain(watch.problems.get(Part(self.pane)) or note))

    def action_open(self, pane: str) -> None:
        self.pane = Pane(pane)
        for each in Pane:
            self._rows(each).display = each is self.pane
        filtering = self.query_one("#filter", Input)
        filtering.value = self._words
        filtering.display = bool(self._words)
        self._rows(self.pane).focus()
        self.draw_all()
        self.app.call_later(self.app.run_action, "refresh")

    def action_next_pane(self, by: int) -> None:
        panes = list(Pane)
        self.action_open(panes[(panes.index(self.pane) + by) % len(panes)])

    def action_filter(self) -> None:
        self.action_open(self.pane if self.pane in _FILTERED else Pane.TOPICS)
        filtering = self.query_one("#filter", Input)
        filtering.display = True
        filtering.focus()

    def action_clear_filter(self) -> None:
        filtering = self.query_one("#filter", Input)
        filtering.value = ""
        filtering.display = False
        self._rows(self.pane).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.pane in self._filters:
            self._filters[self.pane] = event.value
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
        self._push(BalanceScreen(self.app_context))

    def action_lag(self) -> None:
        """The groups of the topic under the cursor, with status and cause; of all topics from another list."""
        self._filter(self.selection().get("topic", ""), Pane.LAG)

    def action_messages(self) -> None:
        if topic := self._plain_topic():
            self.app.push_screen(MessagesScreen(self.app_context, topic))

    def action_connections(self) -> None:
        if name := self.selection().get("topic"):
            self._push(ConnectionsScreen(self.app_context, TopicName.parse(name)))

    def action_schemas(self) -> None:
        self.app_context.watch.schemas.open("")
        self._push(SchemasScreen(self.app_context))

    def action_decide(self, key: str) -> None:
        if self.pane is Pane.PLANS:
            self._open_plan(self._rows(Pane.PLANS).selected, key)

    def on_rows_picked(self, event: Rows.Picked) -> None:
        match self.pane:
            case Pane.TOPICS:
                self._open_topic(event.key)
            case Pane.BROKERS:
                self._filter(f"@{event.key}", Pane.TOPICS)
            case Pane.PLANS:
                self._open_plan(event.key, None)
            case Pane.AUDIT:
                self._open_record(event.key)
            case Pane.LAG:
                self._open_group(event.key)

    def _push(self, screen: BaseScreen) -> None:
        self.app.push_screen(screen)
        self.app.call_later(self.app.run_action, "refresh")

    def _plain_topic(self) -> TopicName | None:
        """The topic under the cursor; the worst partition of a group, the first of a partitioned topic."""
        if self.pane is Pane.LAG and (row := self._group(self._rows(Pane.LAG).selected)):
            return TopicName.parse(row.worst_partition)
        name = self.selection().get("topic")
        topics = self.app_context.watch.topics
        if name is None:
            return None
        topic = TopicName.parse(name)
        return topic if topics.get(name) is not None else topic.partition(0)

    def _open_topic(self, name: str) -> None:
        """A topic; a partitioned one unfolds, or folds again."""
        line = self.app_context.watch.topics.get(name)
        if line is None:
            self._unfolded ^= {name}
            self.draw_all()
            return
        self.app_context.watch.opened = line.topic
        self._push(TopicScreen(self.app_context, line.topic))

    def _filter(self, words: str, pane: Pane) -> None:
        self._filters[pane] = words
        self.action_open(pane)

    def _group(self, key: str | None) -> LagGroupRow | None:
        report = self.app_context.watch.lag
        return next((row for row in report.groups if _group_key(row) == key), None) if report else None

    def _open_group(self, key: str) -> None:
        if row := self._group(key):
            heading = f"{row.subscription} of {row.topic}"
            self.app.push_screen(DetailScreen(self.app_context, heading, lag_view(row)))

    def _open_plan(self, plan_id: str | None, key: str | None) -> None:
        plan = next((plan for plan in self.app_context.watch.plans if plan.plan_id == plan_id), None)
        if plan is not None:
            act = acts_on(plan).get(key) if key else None
            self.app.push_screen(DecideScreen(self.app_context, whole_view(plan), plan=plan, act=act))

    def _open_record(self, key: str) -> None:
        record = next((each for each in self.app_context.watch.audit.records if _audit_key(each) == key), None)
        if record is not None:
            title = f"audit record {record.sequence} of broker {record.keeper}"
            self.app.push_screen(DetailScreen(self.app_context, title, record_view(record)))

    def _rows(self, pane: Pane) -> Rows:
        return self.query_one(f"#{pane}", Rows)

    def _tabs(self, watch: Watch) -> str:
        """Names of the lists; one that is not read yet has no number."""
        waiting = f" ({watch.waiting_plans} waiting)" if watch.waiting_plans else ""
        counts = {
            Pane.TOPICS: len(watch.topics) if watch.topics.is_complete else None,
            Pane.BROKERS: len(watch.brokers) if Part.BROKERS in watch.read else None,
        }
        words = []
        for at, pane in enumerate(Pane, 1):
            count = counts.get(pane)
            text = f"{at} {pane.title()}{'' if count is None else f' {count:,}'}{waiting if pane is Pane.PLANS else ''}"
            words.append(f"[{text}]" if pane is self.pane else f" {text} ")
        return "".join(words)

    def _draw_topics(self, watch: Watch) -> str:
        lines = arranged(watch.topics.lines, self.order, self._words)
        empty = "no topic fits the filter" if self._words else "no topics"
        self._rows(Pane.TOPICS).show(
            [(line, False) for line in lines] if self._words else folded(lines, self._unfolded),
            key=lambda row: row[0].name,
            cells=self._topic_cells,
            columns=topic_columns(self.order),
            empty=empty if watch.topics.is_complete else _READING,
        )
        notes = [f"{len(lines):,} of {len(watch.topics):,} fit the filter"] if self._words else []
        if not self._words and (hidden := len(watch.topics) - len(lines)):
            notes.append(f"{hidden:,} of the system: filter by /system")
        if not watch.topics.is_complete and len(watch.topics):
            notes.append(f"{len(watch.topics):,} read so far, reading on ...")
        if watch.topics.beyond:
            notes.append(f"{watch.topics.beyond:,} more topics are not shown")
        if watch.is_ours is False:
            notes.append("this broker does not tell lag and rates")
        return " · ".join(notes)

    def _topic_cells(self, row: tuple[TopicRow, bool]) -> Cells:
        line, is_below = row
        return topic_cells(line, is_below=is_below, is_unfolded=line.name in self._unfolded)

    def _draw_brokers(self, watch: Watch) -> str:
        self._rows(Pane.BROKERS).show(
            watch.brokers,
            key=lambda info: info.broker_id,
            cells=broker_cells,
            empty=self._empty(Part.BROKERS, "no brokers"),
        )
        return "Enter shows the topics of a broker, b the load of all."

    def _draw_plans(self, watch: Watch) -> str:
        now_ms = self.app_context.clock.now_ms()
        self._rows(Pane.PLANS).show(
            watch.plans,
            key=lambda plan: plan.plan_id,
            cells=lambda plan: plan_cells(plan, now_ms),
            empty=self._empty(Part.PLANS, "no plans"),
        )
        return "Enter reads a plan whole; a approves, x rejects one that waits." if watch.plans else ""

    def _draw_audit(self, watch: Watch) -> str:
        audit = watch.audit
        records = audit.records[::-1]
        self._rows(Pane.AUDIT).show(
            records,
            key=_audit_key,
            cells=audit_cells,
            empty=self._empty(Part.AUDIT, "no calls were recorded yet"),
        )
        if Part.AUDIT not in watch.read:
            return ""
        verdict = audit.verdict
        kept = f" · not read: {'; '.join(audit.missing)}" if audit.missing else ""
        if not verdict.is_intact:
            return f"CHAIN BROKEN at record {verdict.broken_at}: {verdict.reason}{kept}"
        checked = f"{verdict.checked:,} of {audit.total:,} records checked"
        return f"chain intact: {checked} · Enter shows one{kept}"

    def _draw_lag(self, watch: Watch) -> str:
        report, wanted = watch.lag, self._words.lower().split()
        groups = report.groups if report else []
        found = [row for row in groups if all(word in _group_key(row).lower() for word in wanted)]
        lines = [(row, is_why) for row in found for is_why in ((False, True) if row.is_told else (False,))]
        empty = "no group fits the filter" if wanted else "no subscriptions"
        rows = self._rows(Pane.LAG)
        rows.show(lines, key=lambda line: _group_key(line[0]), cells=lag_cells, empty=self._empty(Part.LAG, empty))
        if report is None:
            return ""
        words = report.words()
        source = f"{words['statuses']} · {words['answered_by'].removesuffix(' (as asked)')}"
        more = f" · {report.total - len(groups):,} more groups are not shown" if report.total > len(groups) else ""
        return f"{source}{more} · Enter shows all"

    def _draw_members(self, watch: Watch) -> str:
        status = watch.members
        members = status.members if status else []
        empty = "this broker stands alone: no other agrees with it on the metadata"
        self._rows(Pane.MEMBERS).show(
            members, key=lambda row: row.node_id, cells=member_cells, empty=self._empty(Part.MEMBERS, empty)
        )
        if status is None or not members:
            return ""
        quorum = "a majority is reached" if status.has_quorum else "NO MAJORITY: nothing can be changed"
        return f"{quorum} · term {cell(status.current_term)} · leader {cell(status.leader)}"

    def _empty(self, part: Part, words: str) -> str:
        """The words for an empty list: none only once it was read."""
        return words if part in self.app_context.watch.read else _READING


def _audit_key(record: AuditRecord) -> str:
    return f"{record.keeper} {record.sequence}"


def _group_key(row: LagGroupRow) -> str:
    return f"{row.topic} {row.subscription}"

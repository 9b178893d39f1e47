"""One topic: its numbers, and its subscriptions with their lag over the last minutes."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.widgets import Static

from danube.admin.operations.topics.topic_list import DELIVERY
from danube.admin.present import UNKNOWN, cell
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.lag_history import sparkline, trend
from danube.admin.tui.data.watch import OpenedTopic, Part
from danube.admin.tui.palette import SelectionCommands
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.connections import ConnectionsScreen
from danube.admin.tui.screens.messages import MessagesScreen
from danube.admin.tui.widgets.plain import plain
from danube.admin.tui.widgets.rows import Cells, Column, Rows
from danube.model.calls.admin import (
    SubscriptionActivity,
    SubscriptionDescription,
    TopicState,
)
from danube.model.calls.object_use import TopicStorageDescription
from danube.model.text import age_text, count_text, size_text
from danube.model.topic import TopicName

SPARK_CELLS = 16

_COLUMNS = (
    Column("Subscription"),
    Column("Type", 10, from_width=70),
    Column("Lag", 9, is_number=True),
    Column("Over time", SPARK_CELLS),
    Column("Trend", 9),
    Column("Sent", 6, is_number=True, from_width=100),
    Column("Waiting", 7, is_number=True, from_width=100),
    Column("Cons.", 5, is_number=True),
    Column("Oldest", 8, is_number=True, from_width=90),
)
_NONE = "no subscriptions"
_NAMES_ONLY = (Column("Subscription"),)


class TopicScreen(BaseScreen):
    """One topic."""

    KEYS = "↑↓ move  Enter act  m messages  c clients  p pause  r read now  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("o", "operations", "Operations"),
        Binding("m", "messages", "Messages"),
        Binding("c", "connections", "Connections"),
    ]

    def __init__(self, app_context: AppContext, name: TopicName) -> None:
        super().__init__(app_context)
        self._topic = name

    def parts(self) -> Sequence[Part]:
        return (Part.TOPIC, Part.HEALTH, Part.PLANS)

    def selection(self) -> Mapping[str, str]:
        chosen = self.query_one(Rows).selected
        return {"topic": str(self._topic), **({"subscription": chosen} if chosen is not None else {})}

    def body(self) -> ComposeResult:
        yield Static(plain(str(self._topic)), classes="heading")
        yield Static(id="facts", markup=False)
        yield Rows(_COLUMNS, empty="reading ...", id="subscriptions")

    def on_mount(self) -> None:
        self.query_one(Rows).focus()

    def draw(self) -> None:
        watch, rows = self.app_context.watch, self.query_one(Rows)
        facts = self.query_one("#facts", Static)
        topic = watch.topic if watch.topic is not None and watch.topic.name == self._topic else None
        if problem := watch.problems.get(Part.TOPIC):
            facts.update(plain(problem))
        elif topic is None:
            facts.update(plain("reading ..."))
        else:
            facts.update(plain(_facts(topic, self.app_context)))
        if topic is None:
            return
        if topic.description is None:
            rows.show(topic.subscriptions, key=str, cells=lambda name: Cells((name,)), columns=_NAMES_ONLY, empty=_NONE)
        else:
            rows.show(topic.description.subscriptions, key=_name, cells=self._cells, columns=_COLUMNS, empty=_NONE)

    def action_back(self) -> None:
        """Back to the list; the topic is not asked for on its own any more."""
        self.app_context.watch.opened = None
        self.app.pop_screen()

    def action_messages(self) -> None:
        self.app.push_screen(MessagesScreen(self.app_context, self._topic))

    def action_connections(self) -> None:
        self.app.push_screen(ConnectionsScreen(self.app_context, self._topic))
        self.app.call_later(self.app.run_action, "refresh")

    def action_operations(self) -> None:
        self.app.push_screen(CommandPalette([SelectionCommands], placeholder="What to do with it?"))

    def on_rows_picked(self) -> None:
        self.action_operations()

    def _cells(self, each: SubscriptionDescription) -> Cells:
        kept = each.reliable
        points = self.app_context.watch.lags.points(str(self._topic), each.name)
        is_blocked = each.state is SubscriptionActivity.BLOCKED
        is_unread = kept is not None and kept.lag > 0 and each.connected_count == 0
        oldest = kept.oldest_unacknowledged_ms if kept else None
        texts = (
            each.name,
            each.type.name.replace("_", "-").title().replace("-", ""),
            cell(kept.lag if kept else None),
            sparkline(points, SPARK_CELLS) if kept else "",
            "blocked" if is_blocked else "no reader" if is_unread else trend(points) if kept else "",
            cell(kept.in_flight if kept else None),
            cell(kept.waiting if kept else None),
            cell(each.connected_count),
            age_text(self.app_context.clock.now_ms() - oldest) if oldest is not None else UNKNOWN,
        )
        return Cells(texts, "error" if is_blocked else "warning" if is_unread else "")


def _name(each: SubscriptionDescription) -> str:
    return each.name


def _facts(topic: OpenedTopic, app_context: AppContext) -> str:
    described = topic.description
    if described is None:
        return "This broker tells the names of subscriptions, and not their lag."
    if described.state is not None and not described.is_served:
        moving = _moving(described.state)
        return f"{DELIVERY[described.strategy]}{moving} · nobody serves it: it {described.state.reason}"
    line = app_context.watch.topics.get(str(topic.name))
    shown = len(topic.subscriptions)
    total = described.subscription_count
    more = f" · the first {shown:,} of {total:,} subscriptions" if shown < total else ""
    return (
        f"{DELIVERY[described.strategy]} · broker {described.broker_id}{_moving(described.state)}"
        f" · offsets {described.start_offset:,} to"
        f" {described.end_offset:,}{_kept(described.storage)} · producers {described.producers:,}"
        f" · taken {described.messages_in:,}"
        f"{f' ({line.rate:,.1f} a second)' if line is not None and line.rate is not None else ''}"
        f"{more}"
    )


def _moving(state: TopicState | None) -> str:
    """The broker that it moves to, and how far a copy of its log has come; nothing while it stays."""
    if state is None or state.target_broker_id is None:
        return ""
    is_copied = state.copied_bytes is not None and state.log_bytes is not None
    copied = f", {size_text(state.copied_bytes or 0)} of {size_text(state.log_bytes or 0)} copied" if is_copied else ""
    return f" · moves to broker {state.target_broker_id}{copied}"


def _kept(storage: TopicStorageDescription | None) -> str:
    """The bytes that messages take; nothing where the broker does not tell."""
    if storage is None:
        return ""
    segments = f" in {count_text(storage.segments, 'segment')}" if storage.segments else ""
    return f" · {size_text(storage.stored_bytes)}{segments}"

"""Clients of one topic: producers and consumers that are connected, and a way to disconnect one."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from danube.admin.operations.topics.connections import DISCONNECT_CLIENT
from danube.admin.present import UNKNOWN
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.watch import Part
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.widgets.plain import plain
from danube.admin.tui.widgets.rows import Cells, Column, Rows
from danube.model.calls.positions import Connection
from danube.model.topic import TopicName

_COLUMNS = (
    Column("Client"),
    Column("Kind", 9),
    Column("Subscription", 18),
    Column("Takeovers", 9, is_number=True, from_width=90),
    Column("Held off", 8, is_number=True, from_width=90),
    Column("Rival", 22, from_width=110),
    Column("Client ID", 21, is_number=True),
)


class ConnectionsScreen(BaseScreen):
    """The connected clients of one topic."""

    KEYS = "↑↓ move  Enter disconnect ...  p pause  r read now  ? help  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back")]

    def __init__(self, app_context: AppContext, name: TopicName) -> None:
        super().__init__(app_context)
        self._topic = name
        self._opened_before, app_context.watch.opened = app_context.watch.opened, name

    def parts(self) -> Sequence[Part]:
        return (Part.CONNECTIONS, Part.HEALTH, Part.PLANS)

    def selection(self) -> Mapping[str, str]:
        return {"topic": str(self._topic)}

    def body(self) -> ComposeResult:
        yield Static(plain(f"Clients of {self._topic}"), classes="heading")
        yield Rows(_COLUMNS, empty="reading ...", id="connections")
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Rows).focus()

    def draw(self) -> None:
        watch = self.app_context.watch
        found = watch.connections if watch.connections and watch.connections.name == self._topic else None
        note = f"the first {len(found.shown):,} of {found.count:,}" if found and len(found.shown) < found.count else ""
        self.query_one("#note", Static).update(plain(watch.problems.get(Part.CONNECTIONS) or note))
        if found is not None:
            self.query_one(Rows).show(found.shown, key=_key, cells=_cells, empty="nobody is connected")

    def action_back(self) -> None:
        """Back; the screen below has its own topic open, or none."""
        self.app_context.watch.opened = self._opened_before
        self.app.pop_screen()

    def on_rows_picked(self, event: Rows.Picked) -> None:
        initial = {"topic": str(self._topic), "client": event.key}
        self.app.push_screen(FormScreen(self.app_context, DISCONNECT_CLIENT, initial))


def _key(each: Connection) -> str:
    return str(each.client_id)


def _cells(each: Connection) -> Cells:
    is_consumer = each.subscription is not None
    texts = (
        each.name,
        "consumer" if is_consumer else "producer",
        each.subscription or UNKNOWN,
        str(each.takeovers),
        str(each.held_off),
        each.rival or UNKNOWN,
        str(each.client_id),
    )
    return Cells(texts, "warning" if each.takeovers or each.held_off else "")

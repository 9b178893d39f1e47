"""Browser of a topic's stored messages, a page at a time. Reading is a call like another: it is in the audit log."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from danube.admin.execution import parse_arguments
from danube.admin.operations.topics.positions import PEEK_MESSAGES, Peeked, PeekedRow
from danube.admin.present import UNKNOWN, Table, View, cell, heading
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.watch import Part
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.result import DetailScreen, answer_of
from danube.admin.tui.widgets.plain import plain
from danube.admin.tui.widgets.rows import Cells, Column, Rows
from danube.model.errors import DanubeError
from danube.model.limits.broker import PEEK_PAYLOAD_BYTES_MAX
from danube.model.limits.faces import TUI_MESSAGES_PAGE
from danube.model.text import size_text
from danube.model.topic import TopicName

_COLUMNS = (
    Column("Offset", 12, is_number=True),
    Column("Stored", 19, from_width=70),
    Column("Key", 14, from_width=90),
    Column("Size", 10, is_number=True),
    Column("Payload"),
)


class MessagesScreen(BaseScreen):
    """Stored messages of one topic."""

    KEYS = "Enter whole message  n next  b back  f first  e end  r read now  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("n", "turn(1)", "Next page"),
        Binding("b", "turn(-1)", "Page before"),
        Binding("f", "go(0)", "First"),
        Binding("e", "end", "Newest"),
        Binding("r", "again", "Read now"),
    ]

    def __init__(self, app_context: AppContext, name: TopicName) -> None:
        super().__init__(app_context)
        self._topic = name
        self._start = 0
        self._page: Peeked | None = None
        self._problem = ""

    def parts(self) -> Sequence[Part]:
        return (Part.HEALTH, Part.PLANS)

    def selection(self) -> Mapping[str, str]:
        return {"topic": str(self._topic)}

    def body(self) -> ComposeResult:
        yield Static(plain(f"Messages of {self._topic}"), classes="heading")
        yield Rows(_COLUMNS, empty="reading ...", id="messages")
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Rows).focus()
        self.action_end()

    def draw(self) -> None:
        page = self._page
        self.query_one("#note", Static).update(plain(self._problem or (_note(page) if page else "")))
        if page is not None:
            self.query_one(Rows).show(page.messages, key=_key, cells=_cells, empty="no messages")

    def action_turn(self, by: int) -> None:
        """The next page, or the one before."""
        page = self._page
        if page is None or not page.messages:
            return
        if by > 0:
            if page.next_offset is not None:
                self.action_go(page.next_offset)
            return
        self.action_go(page.messages[0].offset - TUI_MESSAGES_PAGE)

    def action_go(self, offset: int) -> None:
        self._start = max(offset, 0)
        self.run_worker(self._read(), group="call", exclusive=True)

    def action_end(self) -> None:
        """The newest messages."""
        self.run_worker(self._read_end(), group="call", exclusive=True)

    def action_again(self) -> None:
        self.action_go(self._start)

    def on_rows_picked(self, event: Rows.Picked) -> None:
        self.run_worker(self._open(event.key), group="call", exclusive=True)

    async def _read_end(self) -> None:
        first = await self._peek(start="earliest", count=1, payload_bytes=0)
        if first is not None:
            self._start = max(first.end_offset - TUI_MESSAGES_PAGE, 0)
            await self._read()

    async def _read(self) -> None:
        page = await self._peek(start=str(self._start), count=TUI_MESSAGES_PAGE)
        self._page = page or self._page
        self.draw_all()

    async def _open(self, offset: str) -> None:
        page = await self._peek(start=offset, count=1, payload_bytes=PEEK_PAYLOAD_BYTES_MAX)
        if page is not None and page.messages:
            title = f"message {offset} of {self._topic}"
            await self.app.push_screen(DetailScreen(self.app_context, title, _view(page.messages[0])))

    async def _peek(self, **arguments: object) -> Peeked | None:
        params = parse_arguments(PEEK_MESSAGES, {"topic": str(self._topic), **arguments})
        answer = await answer_of(self.app_context, PEEK_MESSAGES, params)
        self._problem = str(answer) if isinstance(answer, DanubeError) else ""
        self.draw_all()
        return answer if isinstance(answer, Peeked) else None


def _key(row: PeekedRow) -> str:
    return str(row.offset)


def _cells(row: PeekedRow) -> Cells:
    stored = cell(row.append_time_ms, "append_time_ms")[:19]
    return Cells((f"{row.offset:,}", stored, row.routing_key or UNKNOWN, size_text(row.payload_size), row.payload))


def _note(page: Peeked) -> str:
    kept = f"offsets {page.start_offset:,} to {page.end_offset:,} are kept"
    if not page.messages:
        return kept
    ending = "" if page.next_offset is not None else ", the newest"
    return f"{page.messages[0].offset:,} to {page.messages[-1].offset:,}{ending} · {kept}"


def _view(row: PeekedRow) -> View:
    hidden = {"payload", "attributes"}
    facts = tuple(
        (heading(PeekedRow, name), cell(getattr(row, name), name))
        for name in PeekedRow.model_fields
        if name not in hidden
    )
    attributes = tuple((name, value) for name, value in row.attributes.items())
    tables = (Table("Attributes", ("Name", "Value"), attributes),) if attributes else ()
    return View(facts, tables, ("Payload:", *row.payload.splitlines()))

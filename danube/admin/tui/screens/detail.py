"""One row of a list, whole."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from danube.admin.present import View
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.screens.framed import Framed
from danube.admin.tui.widgets.lines import Lines, view_lines
from danube.admin.tui.widgets.plain import plain


class DetailScreen(Framed):
    """A view under a heading."""

    KEYS = "↑↓ move  ? help  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(self, app_context: AppContext, heading: str, view: View) -> None:
        super().__init__(app_context)
        self._heading = heading
        self._view = view

    def body(self) -> ComposeResult:
        yield Static(plain(self._heading), classes="heading")
        yield Lines(id="detail")

    def on_mount(self) -> None:
        self.query_one(Lines).show(lambda width: view_lines(self._view, width))
        self.query_one(Lines).focus()

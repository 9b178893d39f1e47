"""The frame around every screen: which cluster, at which access level, how it is, and which keys there are."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Static

from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.watch import Part
from danube.admin.tui.header import level_text, place, status_text
from danube.admin.tui.widgets.plain import plain


class BaseScreen(Screen[None]):
    """A screen in the frame. `body` is what stands in it; `draw` shows what is known now."""

    KEYS: ClassVar[str] = ""
    """The line of keys at its foot."""

    def __init__(self, app_context: AppContext) -> None:
        super().__init__()
        self.app_context = app_context

    def body(self) -> ComposeResult:
        """The widgets between header and footer."""
        yield from ()

    def draw(self) -> None:
        """Show what is known now."""

    def parts(self) -> Sequence[Part]:
        """Parts that a round reads for this screen, the most wanted first."""
        return (Part.HEALTH, Part.PLANS)

    def selection(self) -> Mapping[str, str]:
        """Names under the cursor, by the kinds of names that parameters take."""
        return {}

    def compose(self) -> ComposeResult:
        frame = Vertical(id="frame", classes=f"level-{self.app_context.level} colour-{self.app_context.target.colour}")
        frame.border_title = plain(f"danube-admin · {place(self.app_context.target)}")
        frame.border_subtitle = plain(level_text(self.app_context.target))
        with frame:
            yield Static(id="status", markup=False)
            yield from self.body()
            yield Static(self.KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        self.draw_all()

    def on_screen_resume(self) -> None:
        self.draw_all()

    def draw_all(self) -> None:
        if not self.is_mounted:
            return
        self.draw_status()
        with suppress(NoMatches):  # the screen is being taken down, and its widgets go one by one
            self.draw()

    def draw_status(self) -> None:
        app_context = self.app_context
        text, tone = status_text(
            app_context.watch,
            app_context.clock.now_ms(),
            refresh_s=app_context.refresh_s,
            is_paused=app_context.is_paused,
        )
        for status in self.query("#status").results(Static):
            status.update(plain(text))
            status.set_classes(f"tone-{tone}")

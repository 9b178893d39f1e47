"""The terminal UI: looks at the cluster in rounds, and shows screens. It never waits for a broker before it draws."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme

from danube.admin.gateway import AdminGateway
from danube.admin.target import Target
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.watch import Watch
from danube.admin.tui.palette import OperationCommands
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.help import HelpScreen
from danube.admin.tui.screens.workspace import Workspace
from danube.model.limits.faces import TUI_REFRESH_S
from danube.model.plans.plan import Caller
from danube.runtime.clock import Clock

_TICK_S = 1.0
"""How often the ages on the screen are drawn anew."""

THEME = Theme(
    name="danube",
    primary="#5f9ec9",
    secondary="#7d8fa3",
    accent="#8fb8d8",
    foreground="#d4dae1",
    background="#12171d",
    surface="#171d24",
    panel="#1f2730",
    success="#7bb88a",
    warning="#d9b062",
    error="#d97b6c",
    dark=True,
)


class AdminApp(App[None]):
    """One terminal at one cluster."""

    TITLE = "danube-admin"
    CSS = Path(__file__).with_name("app.tcss").read_text(encoding="utf-8")
    """Read once with this module, so that no file is read while the screen waits."""
    COMMANDS = {OperationCommands}  # noqa: RUF012 - Textual's own declaration
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "command_palette", "Operations"),
        Binding("question_mark", "help", "Help"),
        Binding("p", "pause", "Pause"),
        Binding("r", "refresh", "Refresh"),
        Binding("plus,equals_sign", "pace(0.5)", "More often", show=False),
        Binding("minus", "pace(2)", "Less often", show=False),
    ]

    def __init__(
        self,
        gateway: AdminGateway,
        target: Target,
        *,
        clock: Clock,
        caller: Caller,
        refresh_s: float = TUI_REFRESH_S,
    ) -> None:
        super().__init__()
        watch = Watch(gateway, clock=clock, caller=caller, timeout_s=target.timeout_s)
        self.app_context = AppContext(
            gateway=gateway, target=target, clock=clock, caller=caller, watch=watch, refresh_s=refresh_s
        )
        self._next_refresh_s = 0.0
        self.is_refreshing = False
        """Whether a round is under way."""
        self._refreshed = asyncio.Event()

    def on_mount(self) -> None:
        self.register_theme(THEME)
        self.theme = THEME.name
        self.push_screen(Workspace(self.app_context))
        self.set_interval(min(_TICK_S, self.app_context.refresh_s / 2), self._tick)
        self.call_later(self.action_refresh)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        del screen
        yield SystemCommand("help", "Keys, and what the words mean", self.action_help)
        yield SystemCommand("pause", "Stop refreshing, or go on", self.action_pause)
        yield SystemCommand("quit", "Leave", self.exit)

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.app_context))

    def action_pause(self) -> None:
        self.app_context.is_paused = not self.app_context.is_paused
        self.draw()

    def action_pace(self, factor: float) -> None:
        """Refresh more, or less, often."""
        self.app_context.change_pace(factor)
        self.draw()

    def action_refresh(self) -> None:
        if not self.is_refreshing:
            self.is_refreshing = True
            self.run_worker(self._round(), group="round")

    async def refreshed(self) -> None:
        """Return when a round has ended, well or not; at once if one has."""
        await self._refreshed.wait()

    def draw(self) -> None:
        if top := self._top():
            top.draw_all()

    async def _round(self) -> None:
        try:
            shown = next((each for each in reversed(self.screen_stack) if isinstance(each, BaseScreen)), None)
            if shown is not None:
                await self.app_context.watch.round(shown.parts(), self.draw)
        finally:
            self.is_refreshing = False
            self._refreshed.set()
            self._next_refresh_s = self.app_context.clock.monotonic_s() + self.app_context.refresh_s

    def _tick(self) -> None:
        app_context = self.app_context
        if not app_context.is_paused and app_context.clock.monotonic_s() >= self._next_refresh_s:
            self.action_refresh()
        if top := self._top():
            top.draw_status()

    def _top(self) -> BaseScreen | None:
        """The screen on top. None when it is another's, and when all are closed: rounds and ticks end after them."""
        stack = self.screen_stack
        return stack[-1] if stack and isinstance(stack[-1], BaseScreen) else None

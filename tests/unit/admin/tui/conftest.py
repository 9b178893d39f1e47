"""A terminal before a cluster in memory. Its clock stands still unless a test moves it, so it looks when it is told."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest
from rich.console import Console
from textual.pilot import Pilot

from danube.admin.access import AccessLevel, Guard
from danube.admin.target import Target
from danube.admin.tui.app import AdminApp
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.model.plans.plan import Caller, Face
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway

ANN = Caller(who="ann@desk", face=Face.TUI)


@dataclass(frozen=True, slots=True)
class Terminal:
    """A person's terminal."""

    pilot: Pilot[None]
    app: AdminApp
    gateway: MemoryGateway
    clock: SimClock

    async def press(self, *keys: str) -> None:
        """Press keys, and let what they start come to rest."""
        await self.pilot.press(*keys)
        await self.rest()

    async def rest(self) -> None:
        """Wait until no call is under way, unless the gateway is held."""
        async with asyncio.timeout(PATIENCE_S):
            while self.gateway.held is None and self.app.is_refreshing:
                await self.pilot.pause()
        await self.pilot.pause()

    async def look(self, *, passed_s: float = 2.0) -> None:
        """Let time pass and look at the cluster again."""
        self.clock.advance(passed_s)
        self.app.action_refresh()
        await self.rest()

    @property
    def framed(self) -> BaseScreen:
        """The screen on top."""
        assert isinstance(self.app.screen, BaseScreen)
        return self.app.screen

    @property
    def text(self) -> str:
        """All that is on the screen, without its colours."""
        width, height = self.app.size
        console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, record=True)
        screens = self.app._background_screens
        console.print(self.app.screen._compositor.render_update(full=True, screen_stack=screens))
        return "\n".join(line.rstrip() for line in console.export_text().splitlines())

    @property
    def flat(self) -> str:
        """The same as one line: sentences that are wrapped are whole."""
        return " ".join(self.text.replace("│", " ").split())


Open = Callable[..., AbstractAsyncContextManager[Terminal]]


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def gateway(clock: SimClock) -> MemoryGateway:
    return seeded_gateway(clock)


@pytest.fixture
def open_terminal(gateway: MemoryGateway, clock: SimClock) -> Open:
    """Opens a terminal; the first look has ended when it is there."""

    @asynccontextmanager
    async def opened(
        *, size: tuple[int, int] = (80, 24), level: AccessLevel = AccessLevel.DESTROY
    ) -> AsyncIterator[Terminal]:
        target = Target(context="prod", endpoint="https://broker-1:50051", guard=Guard(level=level))
        app = AdminApp(gateway, target, clock=clock, caller=ANN)
        async with app.run_test(size=size) as pilot:
            terminal = Terminal(pilot, app, gateway, clock)
            if gateway.held is None:
                await app.refreshed()
            await terminal.rest()
            yield terminal

    return opened


@pytest.fixture
async def terminal(open_terminal: Open) -> AsyncIterator[Terminal]:
    """Of 80 by 24, at access level destroy."""
    async with open_terminal() as terminal:
        yield terminal

"""Carries out what a session decides: looks up, attaches, waits, watches the broker's health.

One task per attachment. An exception that is no DanubeError, such as one of the application's token supplier, ends it,
and whoever waits for a link is told.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Protocol

from danube.client.connection import session
from danube.client.connection.address import BrokerAddress
from danube.client.connection.health import wait_for_close
from danube.client.connection.session import Event, Instruction, Link, Session
from danube.model.calls.client import HealthStatus
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    InternalError,
    TopicDeletedError,
    UnrecoverableError,
)
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


class Member(Protocol):
    """What is attached: a producer or consumer of one topic."""

    async def look_up(self, url: str) -> BrokerAddress:
        """Ask the broker at `url` who serves the topic. Raises DanubeError."""

    async def attach(self, address: BrokerAddress, *, may_create: bool) -> int:
        """Create the producer or subscribe, and answer its id; a topic only if it may. Raises DanubeError."""

    async def check_health(self, link: Link) -> HealthStatus:
        """Ask the broker whether the link still holds. Raises DanubeError."""

    async def leave(self, link: Link) -> None:
        """The broker asks to attach anew; the link counts as lost when this returns."""


class Attachment:
    """A link to the broker of a topic that is made anew whenever it is lost."""

    def __init__(self, name: str, member: Member, session: Session, scope: TaskScope, clock: Clock) -> None:
        self._name = name
        self._member = member
        self._session = session
        self._scope = scope
        self._clock = clock
        self._running: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Link] | None = None
        self._lost: asyncio.Future[DanubeError | None] | None = None
        self._link: Link | None = None
        self._was_of_use = False

    def open(self, *, may_create: bool = False) -> None:
        """Begin to attach, also after having given up; nothing happens when that is under way or done.

        `may_create`: the application asks for it, so a topic that is not there may be created.
        """
        if may_create and self._link is None:
            self._session.may_create = True
        if self._running is not None and not self._running.done():
            return
        self._ready = asyncio.get_running_loop().create_future()
        self._running = self._scope.spawn(self._run(), "attachment")

    async def ready(self) -> Link:
        """The link, waiting until there is one. Raises DanubeError when no further try is made."""
        if self._link is not None:
            return self._link
        if self._ready is None:
            raise UnrecoverableError("not connected yet: call create() on a producer, subscribe() on a consumer first")
        return await asyncio.shield(self._ready)

    @property
    def link(self) -> Link | None:
        """The link of the moment, if there is one."""
        return self._link

    def note_use(self, link: Link) -> None:
        """Say that something was received, stored or acknowledged on `link`; of an older link that is no news."""
        if self._link is link:
            self._was_of_use = True

    def lose(self, link: Link, error: DanubeError | None) -> None:
        """Say that `link` is of no use any more; the loss of an older link than today's is no news."""
        if self._link != link or self._lost is None:
            return
        self._link = None
        self._ready = asyncio.get_running_loop().create_future()
        self._lost.set_result(error)

    async def close(self) -> None:
        """Stop, for good; who waits for a link is told."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._ready is not None and not self._ready.done():
            self._fail(_closed())

    async def _run(self) -> None:
        event: Event = session.Opened()
        try:
            while True:
                instruction = self._session.handle(event, self._clock.monotonic_s())
                if isinstance(instruction, session.Abandon):
                    if isinstance(instruction.error, TopicDeletedError):
                        _log.warning("%s ends: %s", self._name, instruction.error)
                    self._fail(instruction.error)
                    return
                event = await self._carry_out(instruction)
        except asyncio.CancelledError:
            self._fail(_closed())
            raise
        except Exception as error:
            self._fail(InternalError(f"the client failed with {type(error).__name__}: {error}"))
            raise

    async def _carry_out(self, instruction: Instruction) -> Event:
        match instruction:
            case session.LookUp(url):
                return await self._look_up(url)
            case session.Attach():
                return await self._attach(instruction)
            case session.Delay(seconds):
                await sleep_for(self._clock, seconds)
                return session.DelayEnded()
            case session.Hold(link):
                error = await self._hold(link)
                return session.Lost(error, self._was_of_use)
        raise AssertionError(instruction)

    async def _look_up(self, url: str) -> Event:
        try:
            return session.Located(await self._member.look_up(url))
        except DanubeError as error:
            return session.NotLocated(error)

    async def _attach(self, wanted: session.Attach) -> Event:
        try:
            return session.Attached(await self._member.attach(wanted.address, may_create=wanted.may_create))
        except DanubeError as error:
            return session.Refused(error)

    async def _hold(self, link: Link) -> DanubeError | None:
        lost: asyncio.Future[DanubeError | None] = asyncio.get_running_loop().create_future()
        self._lost = lost
        self._link = link
        self._was_of_use = False
        assert self._ready is not None  # noqa: S101 - `open` and `lose` make one before there is a link
        self._ready.set_result(link)
        watch = self._scope.spawn(self._watch(link), "health")
        try:
            error = await lost
        finally:
            watch.cancel()
        level = logging.WARNING if isinstance(error, BrokerUnreachableError) else logging.INFO
        _log.log(level, "%s lost its broker and looks for it again: %s", self._name, error or "asked to move")
        return error

    async def _watch(self, link: Link) -> None:
        await wait_for_close(lambda: self._member.check_health(link), self._clock)
        await self._member.leave(link)
        self.lose(link, None)

    def _fail(self, error: DanubeError) -> None:
        self._link = None
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()
        self._ready.set_exception(error)
        with suppress(DanubeError):
            self._ready.result()  # nobody may be waiting, and that is no fault


def _closed() -> UnrecoverableError:
    return UnrecoverableError("it is closed: create another one")

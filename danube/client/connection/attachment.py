"""Attachment to the broker of a topic: carries out a session's instructions, checks health, makes calls.

One task per attachment. An exception that is no DanubeError, such as one of the application's token supplier, ends it,
and reaches everybody that waits for a link.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from danube.client.connection import session
from danube.client.connection.connection import Connection
from danube.client.connection.paths import BrokerAddress
from danube.client.connection.retry import Failure, Failures, GiveUp, Reattach, Wait, after_failed_call
from danube.client.connection.session import Event, Instruction, Link, Session
from danube.client.settings import RetryOptions
from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    DeadlineExceededError,
    InternalError,
    NotFoundError,
    TopicDeletedError,
    UnrecoverableError,
)
from danube.model.limits.broker import CLIENT_FAILOVER_S, CLIENT_HEALTH_INTERVAL_S, CLIENT_RETRY_TOTAL_S
from danube.model.topic import TopicName
from danube.runtime.clock import sleep_for
from danube.runtime.tasks import TaskScope, resolve

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Member(Protocol):
    """The producer or consumer of one topic that is attached."""

    async def attach(self, address: BrokerAddress, *, may_create: bool) -> int:
        """Create the producer or subscribe, and answer its id; a topic only if it may. Raises DanubeError."""

    async def leave(self) -> None:
        """Prepare for the loss of the link, which the broker asks for; it is lost when this returns."""


class Attachment:
    """A link to the broker of a topic that is made anew whenever it is lost."""

    def __init__(
        self,
        connection: Connection,
        kind: ClientKind,
        topic: TopicName,
        *,
        member: Member,
        options: RetryOptions,
        scope: TaskScope,
    ) -> None:
        is_producer = kind is ClientKind.PRODUCER
        again_s = options.retry_total_s or (CLIENT_FAILOVER_S if is_producer else CLIENT_RETRY_TOTAL_S)
        self._session = Session(
            connection.service_url,
            first=options.policy(options.connect_total_s),
            again=options.policy(again_s),
            rng=connection.rng,
            creates=is_producer,
        )
        self._name = f"the {kind.name.lower()} on {topic}"
        self._connection = connection
        self._kind = kind
        self._topic = topic
        self._member = member
        self._options = options
        self._scope = scope
        self._clock = connection.clock
        self._running: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Link] | None = None
        self._lost: asyncio.Future[DanubeError | None] | None = None
        self._was_of_use = False
        self._moved: BrokerAddress | None = None
        """Where the broker that was lost sent its clients: one look-up less."""
        self.link: Link | None = None
        """The current link, if there is one."""

    def open(self, *, may_create: bool = False) -> None:
        """Begin to attach, also after having given up; nothing happens when that is under way or done.

        `may_create`: the application asks for it, so a topic that is not there may be created. Raises
        UnrecoverableError once its owner is closed.
        """
        if self._scope.closed:
            raise _closed()
        if may_create and self.link is None:
            self._session.may_create = True
        if self._running is not None and not self._running.done():
            return
        self._ready = asyncio.get_running_loop().create_future()
        self._running = self._scope.spawn(self._run(), "attachment")

    async def ready(self) -> Link:
        """The link, waiting until there is one. Raises DanubeError when no further try is made."""
        if self.link is not None:
            return self.link
        if self._ready is None:
            raise UnrecoverableError("not connected yet: call create() on a producer, subscribe() on a consumer first")
        return await asyncio.shield(self._ready)

    async def call(self, make: Callable[[Link], Awaitable[T]]) -> T:
        """The answer of `make` on the current link, repeated while that may help: at least once.

        Raises the DanubeError after which no further try was made.
        """
        failures = Failures()
        while True:
            link = await self.ready()
            try:
                answer = await make(link)
            except TopicDeletedError as error:
                self.lose(link, error)
                raise
            except DanubeError as error:
                await self._recover(link, failures, failures.add(error, self._clock.monotonic_s()))
            else:
                self.mark_used(link)
                return answer

    async def _recover(self, link: Link, failures: Failures, failure: Failure) -> None:
        """Wait or reattach; raises the failure's error where neither helps."""
        chance, total_s = self._connection.rng.uniform(0, 1), self._options.call_total_s
        match after_failed_call(self._options.policy(0), failure, total_s=total_s, chance=chance):
            case Wait(delay_s):
                await sleep_for(self._clock, delay_s)
            case Reattach():
                self.lose(link, failure.error)
                failures.restart_count()
            case GiveUp():
                raise failure.error

    def mark_used(self, link: Link) -> None:
        """Something was received, stored or acknowledged on `link`; an older link changes nothing."""
        if self.link is link:
            self._was_of_use = True

    def lose(self, link: Link, error: DanubeError | None, moved: BrokerAddress | None = None) -> None:
        """`link` is lost; an older link than the current one changes nothing. `moved` is where the topic is now."""
        if self.link != link or self._lost is None:
            return
        self._moved = moved
        self.link = None
        self._ready = asyncio.get_running_loop().create_future()
        resolve(self._lost, error)

    async def close(self) -> None:
        """Stop for good; whoever waits for a link gets an error."""
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
                moved, self._moved = self._moved, None
                if moved is not None:
                    return session.Located(moved)
                try:
                    return session.Located(await self._connection.locate(self._topic, url))
                except DanubeError as error:
                    return session.NotLocated(error)
            case session.Attach(address, may_create):
                try:
                    return session.Attached(await self._member.attach(address, may_create=may_create))
                except DanubeError as error:
                    return session.Refused(error)
            case session.Delay(seconds):
                await sleep_for(self._clock, seconds)
                return session.DelayEnded()
            case session.Hold(link):
                return session.Lost(await self._hold(link), self._was_of_use)
        raise AssertionError(instruction)

    async def _hold(self, link: Link) -> DanubeError | None:
        """Offer the link until it is lost; answers why."""
        lost: asyncio.Future[DanubeError | None] = asyncio.get_running_loop().create_future()
        self._lost = lost
        self.link = link
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
        """Check the link's health every few seconds, until the broker answers CLOSE or does not know it any more."""
        status = HealthStatus.OK
        while status is not HealthStatus.CLOSE:
            await sleep_for(self._clock, CLIENT_HEALTH_INTERVAL_S)
            try:
                status = await self._connection.check_health(self._kind, link)
            except NotFoundError:
                break
            except DanubeError as error:
                _log.debug("health check failed, asking again later: %s", error)
                is_silent = isinstance(error, DeadlineExceededError)
                if is_silent and await self._connection.leave_silent(self._topic, link.address):
                    self.lose(link, error)
                    return
        await self._member.leave()
        self.lose(link, None)

    def _fail(self, error: DanubeError) -> None:
        self.link = None
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()
        self._ready.set_exception(error)
        with suppress(DanubeError):
            self._ready.result()  # retrieved, so that nothing is logged where nobody waits


def _closed() -> UnrecoverableError:
    return UnrecoverableError("it is closed: create another one")

"""How the four official clients react, as small models: rules without I/O, and a consumer that lives by them.

The rules are those of the published clients (Python 0.5.0 and the Go, Rust and Java clients of its time). What they do
in a loop without a pause they do here once a step of simulated time, so a loop that spins shows as an opening a step.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from danube.model.calls.client import ClientKind, HealthStatus, Receive, ReceivedMessage
from danube.model.errors import DanubeError, NotFoundError, NotPermittedError, PreconditionFailedError, UnavailableError
from danube.model.limits.broker import CLIENT_HEALTH_INTERVAL_S, CLIENT_RETRIES_DEFAULT, CLIENT_RETRY_STEP_S
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.carrier import Channel, ClientStream
from danube.testing.peers.client import Peer
from danube.testing.simulated.clock import SimClock, settle
from danube.wire import client_messages, decode

STEP_S = 0.05
_JAVA_UNRECOVERABLE = (NotFoundError, NotPermittedError, PreconditionFailedError)


class Client(Enum):
    """The official clients."""

    PYTHON = "python"
    GO = "go"
    RUST = "rust"
    JAVA = "java"


class Next(Enum):
    """What a consumer does when its stream is over."""

    REOPEN = "open the stream again"
    SUBSCRIBE = "look the topic up and subscribe"
    STOP = "tell the application, or just end"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream was over."""

    error: DanubeError | None
    had_headers: bool
    told_close: bool
    failures: int
    """In a row, this one included, where the client counts them."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """What a consumer does, and when."""

    next: Next
    delay_s: float = 0.0


def react(client: Client, end: StreamEnd) -> Reaction:
    """The table of what ends a stream and what each client does then."""
    if end.told_close:
        return Reaction(Next.SUBSCRIBE)
    if end.error is None:
        return Reaction(Next.STOP if client is Client.GO else Next.REOPEN)
    if client is Client.PYTHON or (client is Client.RUST and end.had_headers):
        return Reaction(Next.REOPEN)
    if isinstance(end.error, UnavailableError):
        return Reaction(Next.REOPEN, 0.1) if client is Client.GO else _back_off(end.failures)
    unrecoverable = client is Client.JAVA and isinstance(end.error, _JAVA_UNRECOVERABLE)
    return Reaction(Next.SUBSCRIBE if unrecoverable else Next.STOP)


def react_to_refused_send(client: Client, error: DanubeError, attempt: int) -> Reaction:
    """What a producer does after a send that failed: REOPEN sends again, SUBSCRIBE looks up and creates anew."""
    if isinstance(error, UnavailableError):
        return _back_off(attempt)
    if client is Client.JAVA and isinstance(error, _JAVA_UNRECOVERABLE):
        return Reaction(Next.SUBSCRIBE)
    return Reaction(Next.STOP)


def _back_off(failures: int) -> Reaction:
    if failures > CLIENT_RETRIES_DEFAULT:
        return Reaction(Next.SUBSCRIBE)
    return Reaction(Next.REOPEN, CLIENT_RETRY_STEP_S * failures / 2)  # the shortest that its chance allows


@dataclass(slots=True)
class _Poller:
    consumer_id: int
    due_s: float


class _Reading:
    """One stream, read by a task of its own."""

    def __init__(self, stream: ClientStream) -> None:
        self.messages: list[ReceivedMessage] = []
        self.had_headers = self.is_over = False
        self.error: DanubeError | None = None
        self._stream = stream
        self._task = asyncio.ensure_future(self._read())

    async def close(self) -> None:
        self._stream.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        try:
            await self._stream.opened()
            self.had_headers = True
            while (data := await self._stream.receive()) is not None:
                self.messages.append(decode.received_message(data))
        except DanubeError as error:
            self.error = error
        self.is_over = True


class ModelConsumer:
    """A consumer that acknowledges all it gets, and lives by its client's rules; `step` it as time goes by."""

    def __init__(self, client: Client, channel: Channel, topic: TopicName, clock: SimClock) -> None:
        self.client = client
        self.offsets: list[int] = []
        """What the application got."""
        self.opened_s: list[float] = []
        """When it opened streams."""
        self.subscribed = 0
        self.stopped_by: DanubeError | None = None
        self.is_stopped = False
        self.ends: list[StreamEnd] = []
        self._peer = Peer(channel)
        self._channel = channel
        self._topic = topic
        self._clock = clock
        self._told_close = False
        self._pollers: list[_Poller] = []
        self._consumer_id = 0
        self._reading: _Reading | None = None
        self._failures = self._refused = 0
        self._next: tuple[Next, float] | None = (Next.SUBSCRIBE, 0.0)

    async def step(self) -> None:
        """Do all that is due now."""
        if self.is_stopped:
            return
        await self._poll()
        if self._reading is not None:
            await self._read(self._reading)
        if self._next is not None and self._clock.monotonic_s() >= self._next[1]:
            what, self._next = self._next[0], None
            await self._do(what)

    async def close(self) -> None:
        """Drop the stream."""
        if self._reading is not None:
            await self._reading.close()

    def openings_in_a_second(self) -> int:
        """The most streams that it opened within one second."""
        times = self.opened_s
        return max((sum(start <= at < start + 1 for at in times) for start in times), default=0)

    async def _poll(self) -> None:
        """All but Java end a poller at an error; Go and Rust leave theirs behind with the old id after CLOSE."""
        now_s = self._clock.monotonic_s()
        for poller in [one for one in self._pollers if one.due_s <= now_s]:
            poller.due_s = now_s + CLIENT_HEALTH_INTERVAL_S
            try:
                told = await self._peer.health(ClientKind.CONSUMER, poller.consumer_id) is HealthStatus.CLOSE
            except DanubeError:
                if self.client is not Client.JAVA:
                    self._pollers.remove(poller)
                continue
            self._told_close = self._told_close or told
            if told and self.client is Client.PYTHON:
                self._pollers.remove(poller)

    async def _read(self, reading: _Reading) -> None:
        while reading.messages:
            message = reading.messages.pop(0)
            if self._told_close and self.client is Client.PYTHON:
                await self._leave(reading)  # the message is discarded
                return
            self._failures = 0
            self.offsets.append(message.offset)
            await self._acknowledge(message.offset)
            if self._told_close and self.client is not Client.JAVA:
                await self._leave(reading)
                return
        if reading.is_over:
            self._ended(reading)

    async def _acknowledge(self, offset: int) -> None:
        try:
            await self._peer.acknowledge(self._topic, offset)
        except UnavailableError:
            return  # of a broker that is down; any other error fails the test, as it would reach the application

    async def _leave(self, reading: _Reading) -> None:
        self._reading = None
        self._told_close = False
        self._next = (Next.SUBSCRIBE, 0.0)
        await reading.close()

    def _ended(self, reading: _Reading) -> None:
        self._reading = None
        self._failures += 1
        end = StreamEnd(reading.error, reading.had_headers, self._told_close, self._failures)
        self.ends.append(end)
        reaction = react(self.client, end)
        if reaction.next is Next.STOP:
            self._stop(reading.error)
            return
        if reaction.next is Next.SUBSCRIBE:
            self._told_close = False
        self._next = (reaction.next, self._clock.monotonic_s() + reaction.delay_s)

    async def _do(self, what: Next) -> None:
        if what is Next.SUBSCRIBE:
            if not await self._subscribe():
                return
            self._failures = 0
        self.opened_s.append(self._clock.monotonic_s())
        request = client_messages.RECEIVE.encode(Receive(request_id=1, consumer_id=self._consumer_id))
        self._reading = _Reading(self._channel.server_stream("/danube.ConsumerService/ReceiveMessages", request))

    async def _subscribe(self) -> bool:
        """Five retries with a growing pause; after them, or another error, the consumer is at its end."""
        self.subscribed += 1
        try:
            self._consumer_id = await self._peer.subscribe(self._topic, kind=SubscriptionType.EXCLUSIVE)
        except DanubeError as error:
            self._refused += 1
            if not isinstance(error, UnavailableError) or self._refused > CLIENT_RETRIES_DEFAULT:
                self._stop(error)
                return False
            self._next = (Next.SUBSCRIBE, self._clock.monotonic_s() + CLIENT_RETRY_STEP_S * self._refused / 2)
            return False
        self._refused = 0
        first_s = self._clock.monotonic_s() + (CLIENT_HEALTH_INTERVAL_S if self.client is Client.JAVA else 0.0)
        if self.client is Client.JAVA:
            self._pollers.clear()
        self._pollers.append(_Poller(self._consumer_id, first_s))
        return True

    def _stop(self, error: DanubeError | None) -> None:
        self.is_stopped, self.stopped_by = True, error


async def live(consumers: Sequence[ModelConsumer], clock: SimClock, seconds: float) -> None:
    """Let time go by, with everybody doing what is due at each step."""
    for _ in range(round(seconds / STEP_S)):
        clock.advance(STEP_S)
        await settle()
        for consumer in consumers:
            await consumer.step()
        await settle()


Send = Callable[[], Awaitable[int]]


async def send_as(client: Client, send: Send, create: Send, clock: SimClock) -> int:
    """Send one message as a client does; answers how often it created its producer anew. Raises what it raises."""
    created = attempt = 0
    while True:
        try:
            await send()
        except DanubeError as error:
            attempt += 1
            reaction = react_to_refused_send(client, error, attempt)
            if reaction.next is Next.STOP:
                raise
            if reaction.next is Next.SUBSCRIBE:
                created, attempt = created + 1, 0
                await create()
            clock.advance(reaction.delay_s)
            await settle()
        else:
            return created

"""`danube consume`: write the messages of a subscription to standard output, and acknowledge what was written."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from danube.cli.arguments import Access
from danube.cli.output import say
from danube.cli.render import NO_VALUE, OutputFormat, renderer
from danube.client import Consumer, DanubeClient, Message, SubType
from danube.model.calls.stream import FetchFrom, FetchStart
from danube.model.errors import DanubeError, InvalidRequestError, TopicNotFoundError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import CLI_AT_END_IDLE_S, CLI_WRITE_MESSAGES_MAX
from danube.model.text import count_text
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.runtime.console import is_terminal

Write = Callable[[bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeRequest:
    """The messages to receive, and when to stop."""

    topic: str
    subscription: str | None
    """None reads stored messages without one."""
    consumer_name: str
    sub_type: SubType = SubType.SHARED
    count: int | None = None
    """Stop after this many; 0 creates the subscription and nothing else; None goes on."""
    idle_timeout_s: float | None = None
    """Stop when nothing came for this long."""
    acknowledge: bool = True
    output: OutputFormat = OutputFormat.TEXT
    start: FetchStart = FetchFrom.EARLIEST
    """Without a subscription: the first message."""
    exit_at_end: bool = False
    quiet: bool = False


async def run_consume(access: Access, request: ConsumeRequest) -> ExitCode:
    """Connect and consume, to standard output. Raises DanubeError, and BrokenPipeError when its reader left."""
    thread = BlockingThread("danube-output")
    async with await access.connect() as client:
        await consume(client, access, request, Sink(write_stdout, thread))
    return ExitCode.OK


def write_stdout(data: bytes) -> None:
    """Write and flush."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@dataclass
class Sink:
    """Writes messages away from the event loop."""

    write: Write
    thread: BlockingRunner
    written: deque[Message] = field(default_factory=deque)
    """Written and flushed, and not yet acknowledged; right also when the waiting for it was interrupted."""

    async def put(self, messages: list[Message], data: bytes) -> None:
        """Write `data`, which is `messages` in the chosen format."""

        def work() -> None:
            self.write(data)
            self.written.extend(messages)

        await self.thread.run(work)


async def consume(client: DanubeClient, access: Access, request: ConsumeRequest, sink: Sink) -> int:
    """Write messages until it is time to stop, and answer how many there were. Raises DanubeError."""
    try:
        if request.subscription is None:
            return await Reading(client, request, sink).run()
        consumer = _consumer(client, access, request, request.subscription)
        session = ConsumeSession(consumer, request, sink)
        if request.exit_at_end:
            session.ends = await ends_of(client, request.topic)
        async with consumer:
            await session.run()
    except TopicNotFoundError as error:
        raise TopicNotFoundError(
            f"topic {request.topic} does not exist: create it by producing to it (danube produce -t {request.topic}) "
            f"or with danube-admin topics create {request.topic}"
        ) from error
    return session.count


def _consumer(client: DanubeClient, access: Access, request: ConsumeRequest, subscription: str) -> Consumer:
    builder = client.new_consumer().with_topic(request.topic).with_consumer_name(request.consumer_name)
    builder.with_subscription(subscription).with_subscription_type(request.sub_type)
    if request.output is not OutputFormat.RAW:
        builder.with_schema()
    return builder.with_options(access.consumer_options()).build()


class ConsumeSession:
    """One run of the command, once subscribed."""

    def __init__(self, consumer: Consumer, request: ConsumeRequest, sink: Sink) -> None:
        self._consumer = consumer
        self._request = request
        self._sink = sink
        self._render = renderer(request.output)
        self.ends: dict[str, int] | None = None
        """End offsets of topics at the start; those that were read so far are removed. None goes on."""
        self.count = 0
        """Messages written."""

    async def run(self) -> None:
        """Go on until the count, the idle time, Ctrl-C or an error; what was written is acknowledged in any case."""
        if self._request.count == 0:
            self._report(f"subscription {self._request.subscription} is there on {self._request.topic}")
            return
        if is_terminal(sys.stderr):
            kind = self._request.sub_type.name.lower().replace("_", "-")
            self._report(
                f"subscribed to {self._request.topic} as {self._request.subscription} ({kind}), waiting for messages;"
                " Ctrl-C ends"
            )
        try:
            while batch := await self._next_batch():
                await self._sink.put(
                    batch, b"".join(self._render(message.received, self._value(message)) for message in batch)
                )
                await self._settle()
        finally:
            await self._settle()
            self._report(f"received {count_text(self.count, 'message')} from {self._request.topic}")
        await self._consumer.flush_acks()

    def _value(self, message: Message) -> object:
        """The payload decoded by its writer's schema; NO_VALUE where that cannot be."""
        if self._request.output is OutputFormat.RAW or message.received.schema_id is None:
            return NO_VALUE
        try:
            return message.value
        except DanubeError:
            return NO_VALUE

    async def _next_batch(self) -> list[Message]:
        """The received messages; none when it is time to stop."""
        room = CLI_WRITE_MESSAGES_MAX
        if self._request.count is not None:
            room = min(room, self._request.count - self.count)
        if room <= 0 or self.ends == {}:
            return []
        idle_s = self._request.idle_timeout_s
        if self.ends is not None:
            idle_s = min(idle_s or CLI_AT_END_IDLE_S, CLI_AT_END_IDLE_S)  # what is read already does not come
        return await self._consumer.receive_many(room, timeout_s=idle_s)

    async def _settle(self) -> None:
        """Count and acknowledge what the sink has written."""
        written = tuple(self._sink.written)
        if not written:
            return
        if self._request.acknowledge:
            await self._consumer.ack_many(written, waits=False)
        self._sink.written.clear()
        self.count += len(written)
        ends = self.ends or {}
        for message in (each.received for each in written):
            if message.offset + 1 >= ends.get(message.topic, message.offset + 2):
                ends.pop(message.topic)

    def _report(self, text: str) -> None:
        if not self._request.quiet:
            say(text)


async def ends_of(client: DanubeClient, topic: str) -> dict[str, int]:
    """End offsets of a topic, or of each of its partitions; empty ones are left out. Raises TopicNotFoundError."""
    bounds = {name: await client.bounds(name) for name in await _behind(client, topic)}
    return {name: each.end_offset for name, each in bounds.items() if each.end_offset > each.start_offset}


async def _behind(client: DanubeClient, topic: str) -> tuple[str, ...]:
    names = await client.partitions(topic)
    if not names:
        raise TopicNotFoundError(f"topic {topic} does not exist")
    return names


class Reading:
    """Stored messages without a subscription: a topic's, or those of its partitions one after the other."""

    def __init__(self, client: DanubeClient, request: ConsumeRequest, sink: Sink) -> None:
        self._client = client
        self._request = request
        self._sink = sink
        self._render = renderer(request.output)
        self._count = 0

    async def run(self) -> int:
        """Read until the count or the end is reached, or Ctrl-C. Raises DanubeError."""
        names = await _behind(self._client, self._request.topic)
        follow = not self._request.exit_at_end
        if follow and len(names) > 1:
            raise InvalidRequestError(
                f"{self._request.topic} has {len(names)} partitions: follow one of them (-t {names[0]}), read what is"
                " stored with --exit-at-end, or name a subscription with -s"
            )
        try:
            for name in names:
                await self._read(name, follow=follow)
        finally:
            if not self._request.quiet:
                say(f"read {count_text(self._count, 'message')} from {self._request.topic}")
        return self._count

    async def _read(self, name: str, *, follow: bool) -> None:
        async with aclosing(self._client.fetch(name, start=self._request.start, follow=follow)) as messages:
            while self._request.count is None or self._count < self._request.count:
                try:
                    async with asyncio.timeout(self._request.idle_timeout_s):
                        message = await anext(messages, None)
                except TimeoutError:
                    return
                if message is None:
                    return
                await self._sink.put([message], self._render(message.received, NO_VALUE))
                self._sink.written.clear()
                self._count += 1

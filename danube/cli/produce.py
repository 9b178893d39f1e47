"""`danube produce`: send one message a line, or one message over and over."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from danube.cli.arguments import Access, SchemaSource
from danube.cli.json_lines import LineMessage, message_of_line
from danube.cli.lines import lines
from danube.cli.output import Progress, say
from danube.cli.written_schema import PLAIN, WrittenSchema, prepare_schema
from danube.client import DanubeClient, DispatchStrategy, Producer
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    DispatchStrategyMismatchError,
    MessageTooLargeError,
    PreconditionFailedError,
    SettingsError,
)
from danube.model.exit_codes import ExitCode
from danube.model.limits.broker import CLIENT_SENDS_IN_FLIGHT_MAX, MESSAGE_BYTES_MAX
from danube.model.text import count_text, size_text
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.runtime.clock import Clock, SystemClock

STDIN = Path("-")
_ASK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """The messages to send, and their topic."""

    topic: str
    lines_of: Path | None = None
    """A file with one message a line; `-` or None is standard input."""
    message: bytes | None = None
    """Sent in place of lines."""
    whole_file: Path | None = None
    """Sent as one message, in place of lines."""
    count: int = 1
    """How often the one message is sent."""
    interval_s: float = 0.0
    """Between two messages."""
    strategy: DispatchStrategy = DispatchStrategy.RELIABLE
    producer_name: str = "danube-cli"
    attributes: dict[str, str] = field(default_factory=dict)
    partitions: int | None = None
    """Of a new topic; None takes those that the topic has."""
    key: str | None = None
    is_json: bool = False
    """Each line is a JSON object with payload, attributes and key."""
    unordered: bool = False
    """Send the next messages before the broker has the last, where it takes no batches: those keep the order anyway."""
    schema: SchemaSource | None = None
    quiet: bool = False


async def run_produce(access: Access, request: ProduceRequest) -> ExitCode:
    """Connect and produce. Raises DanubeError."""
    thread = BlockingThread("danube-input")
    async with await access.connect() as client:
        await produce(client, access, request, thread)
    return ExitCode.OK


async def produce(client: DanubeClient, access: Access, request: ProduceRequest, thread: BlockingRunner) -> None:
    """Send everything and say how much that was, also when it ends early. Raises DanubeError."""
    try:
        if request.partitions is None:
            found = await _topics_behind(client, access, request.topic)
            request = replace(request, partitions=0 if request.topic in found else len(found))
        written = await prepare_schema(client, request.topic, request.schema, thread) if request.schema else PLAIN
        async with _producer(client, access, request, written) as producer:
            await _send(producer, request, thread, written)
    except PreconditionFailedError as error:
        if request.schema is not None and not isinstance(error, DispatchStrategyMismatchError):
            raise
        other = "--non-reliable" if request.strategy is DispatchStrategy.RELIABLE else "--reliable"
        raise PreconditionFailedError(f"{error}; where the topic delivers the other way, use {other}") from error
    except OSError as error:
        raise SettingsError(f"cannot read {error.filename or 'the input'}: {error.strerror}") from error


async def _topics_behind(client: DanubeClient, access: Access, topic: str) -> tuple[str, ...]:
    """The topic itself, its partitions, or nothing. Raises BrokerUnreachableError once the time to connect is over."""
    clock = SystemClock()
    until_s = clock.monotonic_s() + access.connect_timeout_s
    while True:
        try:
            return await client.partitions(topic)
        except DanubeError as error:
            if not error.retryable:
                raise
            if clock.monotonic_s() >= until_s:
                raise BrokerUnreachableError(
                    f"no broker answers at {access.service_addr} ({error}): check that it runs there and that the"
                    " address is right"
                ) from error
        await clock.sleep_until(clock.monotonic_s() + _ASK_AGAIN_S)


async def _send(producer: Producer, request: ProduceRequest, thread: BlockingRunner, written: WrittenSchema) -> None:
    tally = Tally(request, SystemClock())
    in_flight_max = CLIENT_SENDS_IN_FLIGHT_MAX if request.unordered and not request.interval_s else 1
    try:
        async with aclosing(_payloads(request, thread, tally, written)) as payloads:
            if request.is_json or request.key is not None:
                await _send_each(producer, request, payloads, tally, written)
                return
            await producer.send_many(payloads, request.attributes, in_flight_max=in_flight_max, on_sent=tally.confirm)
    finally:
        tally.report()


async def _send_each(
    producer: Producer,
    request: ProduceRequest,
    payloads: AsyncGenerator[bytes, None],
    tally: "Tally",
    written: WrittenSchema,
) -> None:
    """Messages with keys or attributes of their own, one after the other."""
    sent = 0
    async for given in payloads:
        message = message_of_line(given) if request.is_json else LineMessage(given)
        payload = written.of_line(message) if request.is_json else given
        attributes = {**request.attributes, **message.attributes}
        key = message.key if message.key is not None else request.key
        if key is None:
            await producer.send(payload, attributes)
        else:
            await producer.send_with_key(payload, attributes, key)
        sent += 1
        tally.confirm(sent)
        if request.is_json:
            tally.add(len(payload))


def _producer(client: DanubeClient, access: Access, request: ProduceRequest, written: WrittenSchema) -> Producer:
    builder = client.new_producer().with_topic(request.topic).with_name(request.producer_name)
    builder.with_dispatch_strategy(request.strategy).with_partitions(request.partitions or 0)
    if written.subject and written.version:
        builder.with_schema_version(written.subject, written.version)
    elif written.subject:
        builder.with_schema_subject(written.subject)
    return builder.with_options(access.producer_options()).build()


async def _payloads(
    request: ProduceRequest, thread: BlockingRunner, tally: "Tally", written: WrittenSchema
) -> AsyncGenerator[bytes, None]:
    """The payloads to send, each not before its time."""
    clock = tally.clock
    due_s = clock.monotonic_s()
    async with aclosing(_source(request, thread)) as source:
        async for given in source:
            payload = given if request.is_json else written.encode(given)  # the payload within a line comes later
            if request.interval_s:
                await clock.sleep_until(due_s)
                due_s = clock.monotonic_s() + request.interval_s
            if not request.is_json:  # a line is longer than its payload
                tally.add(len(payload))
            yield payload


async def _source(request: ProduceRequest, thread: BlockingRunner) -> AsyncGenerator[bytes, None]:
    message = request.message
    if request.whole_file is not None:
        path = Path("/dev/stdin") if request.whole_file == STDIN else request.whole_file
        message = await thread.run(lambda: _content(path))
    if message is not None:
        for _ in range(request.count):
            yield message
        return
    file = await thread.run(lambda: _open(request.lines_of))
    try:
        async with aclosing(lines(file.fileno(), thread)) as found:
            async for line in found:
                yield line
    finally:
        await thread.run(file.close)


def _content(path: Path) -> bytes:
    """The file. Raises MessageTooLargeError, with the size where the system knows it, for one that no message holds."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > MESSAGE_BYTES_MAX else file.read(MESSAGE_BYTES_MAX + 1)
    if size > MESSAGE_BYTES_MAX or len(content) > MESSAGE_BYTES_MAX:
        told = f"{size:,} bytes" if size else f"more than {MESSAGE_BYTES_MAX:,} bytes"
        raise MessageTooLargeError(
            f"{path} has {told}, and a message may have {MESSAGE_BYTES_MAX:,}: split it, or send a reference to it"
        )
    return content


def _open(path: Path | None) -> BinaryIO:
    if path is not None and path != STDIN:
        return path.open("rb", buffering=0)
    if sys.stdin.isatty():
        say("reading messages from the terminal, one a line; Ctrl-D ends")
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)


class Tally:
    """Counts what is sent, shows it while it grows, reports it at the end."""

    def __init__(self, request: ProduceRequest, clock: Clock) -> None:
        self.clock = clock
        self._request = request
        self._started_s = clock.monotonic_s()
        self._progress = Progress(f"sending to {request.topic}", clock, quiet=request.quiet)
        self._taken_bytes = 0
        self._confirmed = 0

    def add(self, payload_bytes: int) -> None:
        """A message is about to be sent."""
        self._taken_bytes += payload_bytes

    def confirm(self, count: int) -> None:
        """The broker has `count` messages by now."""
        self._confirmed = count
        self._progress.update(count)

    def report(self) -> None:
        """Say how much was sent."""
        self._progress.close()
        if self._request.quiet:
            return
        elapsed_s = max(self.clock.monotonic_s() - self._started_s, 1e-6)
        kind = "reliable" if self._request.strategy is DispatchStrategy.RELIABLE else "non-reliable"
        say(
            f"sent {count_text(self._confirmed, 'message')} ({size_text(self._taken_bytes)}) to the {kind} topic "
            f"{self._request.topic} in {elapsed_s:.2f} s ({self._confirmed / elapsed_s:,.0f}/s)"
        )

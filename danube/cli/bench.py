"""`danube bench`: how many messages a second a broker takes and gives, how long each takes, and whether any is lost.

A message begins with its number and the time when it was given to the producer: loss, order and latency are read from
what arrives. The topic is left as it is, its name says what it is for.
"""

import asyncio
import struct
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from danube.cli.arguments import Access
from danube.cli.compare.compare import Comparison, compare, comparison_lines, connected
from danube.client import Consumer, DanubeClient, DispatchStrategy, Producer, SubType
from danube.model.errors import InvalidRequestError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import COMPARE_RATE, COMPARE_ROUNDS

HEAD_BYTES = 16
_HEAD = struct.Struct("<Qd")  # number, monotonic time


class Part(StrEnum):
    """Part of the way that is measured."""

    PRODUCE = "produce"
    CONSUME = "consume"
    END_TO_END = "end-to-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """Messages to send, and the way."""

    part: Part
    topic: str
    messages: int
    size: int
    rate: int = 0
    """Messages a second; 0 as fast as they go."""
    streams: bool = True
    compression: str = "none"
    idle_timeout_s: float = 30.0


@dataclass(slots=True)
class Received:
    """Messages that arrived: numbers seen, and latencies in seconds."""

    expected: int
    seen: bytearray
    latencies_s: "array[float]"
    repeated: int = 0
    out_of_order: int = 0
    highest: int = -1

    def add(self, payload: bytes, now_s: float) -> None:
        """A message came."""
        number, given_s = _HEAD.unpack_from(payload)
        if number >= self.expected or self.seen[number]:
            self.repeated += 1
            return
        self.seen[number] = 1
        self.out_of_order += number < self.highest
        self.highest = max(self.highest, number)
        self.latencies_s.append(now_s - given_s)

    @property
    def missing(self) -> int:
        """Messages that did not come."""
        return self.expected - len(self.latencies_s)


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Outcome of a measurement."""

    part: Part
    messages: int
    size: int
    seconds: float
    received: Received | None

    def lines(self) -> Iterator[str]:
        """For people."""
        rate = self.messages / self.seconds
        yield f"{self.part}: {self.messages:,} messages of {self.size:,} bytes in {self.seconds:.2f} s"
        yield f"  {rate:,.0f} messages a second, {rate * self.size / 1e6:,.1f} MB a second"
        if self.received is None:
            return
        ordered = sorted(self.received.latencies_s)
        if ordered and self.part is Part.END_TO_END:
            points = ((50, "p50"), (90, "p90"), (99, "p99"), (99.9, "p99.9"))
            values = (
                f"{name} {ordered[min(int(len(ordered) * at / 100), len(ordered) - 1)] * 1e3:,.2f}"
                for at, name in points
            )
            yield f"  latency in ms: {', '.join(values)}, max {ordered[-1] * 1e3:,.2f}"
        found = self.received
        yield f"  lost {found.missing:,}, repeated {found.repeated:,}, out of order {found.out_of_order:,}"

    @property
    def is_sound(self) -> bool:
        """Tell whether everything arrived, in order."""
        return self.received is None or not (self.received.missing or self.received.out_of_order)


async def run_bench(access: Access, request: BenchRequest) -> tuple[BenchReport, ExitCode]:
    """Connect and measure. Raises DanubeError."""
    _check_size(request)
    async with await access.connect() as client:
        report = await _measure(client, request)
    return report, ExitCode.OK if report.is_sound else ExitCode.FAILURE


def _check_size(request: BenchRequest) -> None:
    if request.size < HEAD_BYTES:
        raise InvalidRequestError(f"a message of a bench has {HEAD_BYTES} bytes at least: choose a larger --size")


async def run_comparison(access: Access, request: BenchRequest, others: Sequence[str]) -> list[str]:
    """Connect to all and measure them in turns. Raises DanubeError."""
    _check_size(request)
    wanted = Comparison(request.messages, request.size, COMPARE_ROUNDS, request.rate or COMPARE_RATE)
    async with await access.connect() as client, connected(client, request.topic, others) as peers:
        return list(comparison_lines(await compare(peers, wanted), wanted))


async def _measure(client: DanubeClient, request: BenchRequest) -> BenchReport:
    builder = client.new_producer().with_topic(request.topic).with_name("danube-bench")
    builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).with_compression(request.compression)
    async with builder.build() as producer:
        end = (await client.bounds(request.topic)).end_offset
        readers = client.new_consumer().with_topic(request.topic).with_subscription(f"danube-bench-{time.time_ns()}")
        readers.with_consumer_name("danube-bench").with_subscription_type(SubType.EXCLUSIVE)
        async with readers.with_start(end).with_streams(request.streams).build() as consumer:
            return await _PARTS[request.part](request, producer, consumer)


async def _produce(request: BenchRequest, producer: Producer, _: Consumer) -> BenchReport:
    started_s = time.monotonic()
    await _send(request, producer)
    return BenchReport(request.part, request.messages, request.size, time.monotonic() - started_s, None)


async def _consume(request: BenchRequest, producer: Producer, consumer: Consumer) -> BenchReport:
    await _send(request, producer)
    started_s = time.monotonic()
    received = await _receive(request, consumer)
    return BenchReport(request.part, request.messages, request.size, time.monotonic() - started_s, received)


async def _end_to_end(request: BenchRequest, producer: Producer, consumer: Consumer) -> BenchReport:
    started_s = time.monotonic()
    async with asyncio.TaskGroup() as both:
        receiving = both.create_task(_receive(request, consumer))
        both.create_task(_send(request, producer))
    return BenchReport(request.part, request.messages, request.size, time.monotonic() - started_s, receiving.result())


_PARTS = {Part.PRODUCE: _produce, Part.CONSUME: _consume, Part.END_TO_END: _end_to_end}


async def _send(request: BenchRequest, producer: Producer) -> None:
    if not request.rate:
        await producer.send_many(_payloads(request))
        return
    started_s = time.monotonic()
    for number, payload in enumerate(_payloads(request)):
        wait_s = started_s + number / request.rate - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        await producer.send(payload)


def _payloads(request: BenchRequest) -> Iterator[bytes]:
    rest = bytes(request.size - HEAD_BYTES)
    pack, now = _HEAD.pack, time.monotonic
    for number in range(request.messages):
        yield pack(number, now()) + rest


async def _receive(request: BenchRequest, consumer: Consumer) -> Received:
    """Receive until all have come, or none does; acknowledge each batch."""
    received = Received(request.messages, bytearray(request.messages), array("d"))
    while received.missing:
        found = await consumer.receive_many(timeout_s=request.idle_timeout_s)
        if not found:
            break
        now_s = time.monotonic()
        for message in found:
            received.add(message.payload, now_s)
        await consumer.ack_up_to(found[-1], waits=False)
    await consumer.flush_acks()
    return received

"""An application under load, for the soak: producers that send and consumers that acknowledge until told to stop.

    python -I soak_load.py SERVICE_URL PLAN REPORT

It is a program of its own and needs nothing but a client: it runs with ours and, unchanged, with the published
`danube-client`. PLAN is JSON (`lab.soak.plan`). What it was told goes into the file REPORT, a line of JSON
at a time; the end of its standard input ends it. What a client raises is counted and the next message is sent: its
number tells whether it is there in spite of that.
"""

import asyncio
import itertools
import json
import os
import sys
import time
from collections import defaultdict, deque
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

REPORT_S = 0.05  # between two lines of the report
PAUSE_S = {"single": 0.002, "keyed": 0.002, "many": 0.05}  # between two sends: consumers have to keep up
RETRY_S = 0.1  # after a send that was given up
MANY = 50  # messages of one `send_many`
ACKS_AT_ONCE = 32
FILLER_BYTES_MAX = 2_000
KEYS = 7

M = TypeVar("M")


def payload_of(producer: str, number: int) -> bytes:
    """The message with this number; its length and all its bytes follow from producer and number."""
    unit = b"%d-" % number
    size = number * 997 % FILLER_BYTES_MAX
    return b"%s:%d:%s" % (producer.encode(), number, (unit * (size // len(unit) + 1))[:size])


def identity_of(payload: bytes) -> tuple[str, int]:
    """Which producer's which message it is. Raises ValueError when a byte of it is not what was sent."""
    producer, _, rest = payload.partition(b":")
    identity = producer.decode(), int(rest.partition(b":")[0])
    if payload != payload_of(*identity):
        raise ValueError(f"a message of {len(payload)} bytes is not what was sent: it begins with {payload[:40]!r}")
    return identity


def key_of(number: int) -> str:
    """The routing key of a keyed producer's message."""
    return f"key-{number % KEYS}"


class Report:
    """Events since the last line, and the file that they go into."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sent: dict[str, int] = {}  # by producer: after the highest number that was handed to the client
        self.stored = defaultdict[str, list[int]](list)  # by producer: numbers that the broker said it has
        self.ranges = defaultdict[str, list[tuple[int, int, int]]](list)
        """By producer, the same with offsets: first number, first offset, count."""
        self.got = defaultdict[str, list[tuple[int, str, int, float]]](list)
        """By topic and subscription, in the order in which they came: offset, producer, number (-1: damaged), and the
        monotonic time before which it cannot have come."""
        self.confirmed = defaultdict[str, list[int]](list)
        """By topic and subscription: offsets whose acknowledgement the broker has answered."""
        self.given_up = 0

    def take(self, of: str, offset: int, payload: bytes, not_before_s: float) -> None:
        """Note a message that a subscription got; before `not_before_s` it cannot have come (monotonic seconds)."""
        try:
            producer, number = identity_of(payload)
        except ValueError as error:
            producer, number = str(error), -1
        self.got[of].append((offset, producer, number, not_before_s))

    def write(self) -> None:
        """Append what is new, as one line. The time on it is not before anything that it tells."""
        line = {
            "at": time.monotonic(),
            "sent": self.sent,
            "stored": self.stored,
            "ranges": self.ranges,
            "got": self.got,
            "confirmed": self.confirmed,
            "given_up": self.given_up,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        for part in (self.stored, self.ranges, self.got, self.confirmed):
            part.clear()
        self.given_up = 0


async def waiting_in(queue: asyncio.Queue[M]) -> list[M]:
    """The messages at hand, at least one and ACKS_AT_ONCE at most."""
    messages = [await queue.get()]
    while len(messages) < ACKS_AT_ONCE and not queue.empty():
        messages.append(queue.get_nowait())
    return messages


class Arrivals:
    """Before when what is taken from a consumer's queue cannot have come: it was empty, or full of others."""

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        self._queue = queue
        self._empty_s = time.monotonic()
        self._taken_s = deque[float](maxlen=queue.maxsize)

    def look(self) -> None:
        """Look at the queue, before anything is taken from it."""
        if self._queue.empty():
            self._empty_s = time.monotonic()

    def note_taken(self) -> float:
        """Before when the message that is taken now cannot have come; monotonic seconds."""
        others_s = self._taken_s[0] if self._taken_s and len(self._taken_s) == self._queue.maxsize else self._empty_s
        self._taken_s.append(time.monotonic())
        return max(self._empty_s, others_s)


class Load:
    """The producers and consumers of one application."""

    def __init__(self, client: DanubeClient, report: Report) -> None:
        self._client = client
        self._report = report

    async def run(self, plan: list[dict[str, Any]]) -> None:
        """Attach everybody, then go on for ever."""
        work = [self._consume(topic["topic"], **row) for topic in plan for row in topic["subscriptions"]]
        work += [self._produce(topic["topic"], **row) for topic in plan for row in topic["producers"]]
        await asyncio.gather(self._tell(), *work)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            self._report.write()

    async def _produce(self, topic: str, *, name: str, kind: str) -> None:
        builder = self._client.new_producer().with_topic(topic).with_name(name)
        builder = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE)
        if kind == "many":
            builder = builder.with_deduplication()
        producer = builder.build()
        await producer.create()
        for start in itertools.count(0, MANY if kind == "many" else 1):
            try:
                if kind == "many":
                    await self._send_many(producer, name, start)
                else:
                    await self._send(producer, name, start, kind)
            except Exception:
                self._report.given_up += 1
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(PAUSE_S[kind])

    async def _send(self, producer: Producer, name: str, number: int, kind: str) -> None:
        self._report.sent[name] = number + 1
        payload = payload_of(name, number)
        if kind == "keyed":
            await producer.send_with_key(payload, None, key_of(number))
        else:
            await producer.send(payload)
        self._report.stored[name].append(number)

    async def _send_many(self, producer: Producer, name: str, start: int) -> None:
        first = start

        def note(stored: Any) -> None:  # noqa: ANN401 - the published client has no such type
            nonlocal first
            self._report.ranges[name].append((first, stored.first_offset, stored.count))
            first += stored.count

        self._report.sent[name] = start + MANY
        payloads = [payload_of(name, number) for number in range(start, start + MANY)]
        await producer.send_many(payloads, on_stored=note)

    async def _consume(self, topic: str, *, name: str, kind: str, consumers: int) -> None:
        await asyncio.gather(*(self._read(topic, name, SubType[kind], f"{name}-{i}") for i in range(consumers)))

    async def _read(self, topic: str, subscription: str, kind: SubType, name: str) -> None:
        builder = self._client.new_consumer().with_topic(topic).with_subscription(subscription)
        consumer = builder.with_consumer_name(name).with_subscription_type(kind).build()
        await consumer.subscribe()
        queue = await consumer.receive()
        of = f"{topic} {subscription}"
        arrivals = Arrivals(queue)
        while True:
            arrivals.look()
            messages = await waiting_in(queue)
            for message in messages:
                self._report.take(of, message.msg_id.topic_offset, message.payload, arrivals.note_taken())
            offsets = [message.msg_id.topic_offset for message in messages]
            acknowledged = zip(offsets, map(consumer.ack, messages), strict=True)
            await asyncio.gather(*(self._acknowledge(of, offset, done) for offset, done in acknowledged))

    async def _acknowledge(self, of: str, offset: int, done: Awaitable[None]) -> None:
        try:
            await done
        except Exception:
            self._report.given_up += 1
        else:
            self._report.confirmed[of].append(offset)


async def main(url: str, plan: str, path: str) -> None:
    """Run until standard input ends."""
    report = Report(Path(path))
    client = await DanubeClientBuilder().service_url(url).build()
    loads = asyncio.ensure_future(Load(client, report).run(json.loads(plan)))
    told = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await asyncio.wait((loads, told), return_when=asyncio.FIRST_COMPLETED)
    report.write()
    if loads.done():
        loads.result()
    os._exit(0)  # the broker may be dead: no clean disconnect is waited for


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))

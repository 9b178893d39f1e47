"""A broker to measure, whichever it is: publish, receive with acknowledgement, and the measurements made of these."""

import asyncio
import struct
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from danube.model.errors import UnavailableError
from danube.model.limits.faces import COMPARE_IDLE_S
from danube.runtime.tasks import TaskScope

HEAD = struct.Struct("<Qd")
"""A payload begins with its number, and the monotonic time when it was due."""


class Arrived(NamedTuple):
    """Some messages, and when they came."""

    payloads: Sequence[bytes]
    at_s: float


class Peer(Protocol):
    """One topic of a broker, with a producer and a consumer that are connected."""

    name: str
    """Also says what an acknowledgement stands for, where that is known."""

    async def publish(self, payloads: Sequence[bytes]) -> None:
        """Return once the broker has acknowledged all of these."""

    def start(self, payload: bytes) -> None:
        """Hand one message over, and wait for nothing."""

    async def flush(self) -> None:
        """Return once everything that was handed over, and every receipt, is acknowledged."""

    async def receive(self) -> Arrived:
        """The next messages, none when nothing comes for a while; their receipt is acknowledged, also later."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Messages from the producer to the consumer, as fast as they go."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


async def throughput(peer: Peer, messages: int, size: int) -> Throughput:
    """Publish and receive so many at once. Raises UnavailableError when some do not come."""
    payloads = [HEAD.pack(number, 0.0).ljust(size, b".") for number in range(messages)]
    started_s = time.monotonic()
    async with asyncio.TaskGroup() as both:
        both.create_task(peer.publish(payloads))
        received = both.create_task(_receive(peer, messages))
    await peer.flush()
    return Throughput(messages, (await received) - started_s)


async def latencies_s(peer: Peer, rate: int, messages: int, size: int) -> Sequence[float]:
    """Seconds from when each message was due to when it came, at a steady rate. Raises as `throughput`."""
    scope, found = TaskScope("a steady load"), array("d")
    receiving = scope.spawn(_receive(peer, messages, found), "receive")
    started_s = time.monotonic() + 0.01
    for number in range(messages):
        due_s = started_s + number / rate
        wait_s = due_s - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        peer.start(HEAD.pack(number, due_s).ljust(size, b"."))
    await receiving
    await peer.flush()
    await scope.close()
    return found


async def _receive(peer: Peer, messages: int, latencies: "array[float] | None" = None) -> float:
    """Receive each number once; answers when the last one came."""
    seen, left, at_s, heard_s = bytearray(messages), messages, 0.0, time.monotonic()
    while left:
        payloads, at_s = await peer.receive()
        if payloads:
            heard_s = at_s
        elif time.monotonic() - heard_s > COMPARE_IDLE_S:
            raise UnavailableError(f"{peer.name}: {left} of {messages} messages did not come")
        for payload in payloads:
            number, due_s = HEAD.unpack_from(payload)
            if number < messages and not seen[number]:
                seen[number] = 1
                left -= 1
                if latencies is not None:
                    latencies.append(at_s - due_s)
    return at_s

"""Kafka as a peer, by its usual client `confluent-kafka`, in threads: it blocks, and works in threads of its own."""

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from danube.cli.compare.peer import Arrived
from danube.model.errors import UnavailableError, UnsupportedError
from danube.model.limits.faces import COMPARE_IDLE_S, COMPARE_POLL_S, COMPARE_PULLED
from danube.runtime.blocking import BlockingThread

T = TypeVar("T")

_LINGER_MS = 5
"""The client's default, for throughput; a message that is sent alone waits for no other."""


class KafkaPeer:
    """A `Peer`."""

    def __init__(self, client: Any, servers: str, topic: str) -> None:  # noqa: ANN401 - the package has no types
        self.name = "Kafka"
        self._topic = topic
        self._client = client
        common = {"bootstrap.servers": servers, "acks": "all", "queue.buffering.max.messages": 10_000_000}
        self._bulk = client.Producer(common | {"linger.ms": _LINGER_MS})
        self._single = client.Producer(common | {"linger.ms": 0})
        reading = {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._consumer = client.Consumer({"bootstrap.servers": servers, "fetch.wait.max.ms": 100} | reading)
        self._producing = BlockingThread("kafka producer")
        self._consuming = BlockingThread("kafka consumer")

    async def join(self) -> None:
        """Return once the consumer has the topic."""
        assigned: list[object] = []

        def wait() -> None:
            self._consumer.subscribe([self._topic], on_assign=lambda *_: assigned.append(True))
            deadline_s = time.monotonic() + COMPARE_IDLE_S
            while not assigned and time.monotonic() < deadline_s:
                self._consumer.poll(COMPARE_POLL_S)
            if not assigned:
                raise UnavailableError("Kafka gave the consumer no partition")

        await self._consuming.run(wait)

    async def publish(self, payloads: Sequence[bytes]) -> None:
        def work() -> None:
            for payload in payloads:
                self._bulk.produce(self._topic, payload, on_delivery=_delivered)
                self._bulk.poll(0)
            self._bulk.flush(COMPARE_IDLE_S)

        await self._producing.run(work)

    def start(self, payload: bytes) -> None:
        self._single.produce(self._topic, payload, on_delivery=_delivered)
        self._single.poll(0)

    async def flush(self) -> None:
        await self._producing.run(lambda: self._single.flush(COMPARE_IDLE_S))

    async def receive(self) -> Arrived:
        return await self._consuming.run(self._receive)

    async def close(self) -> None:
        """End the threads and the connections."""
        await self._consuming.run(self._consumer.close)
        await self._consuming.aclose()
        await self._producing.aclose()

    def _receive(self) -> Arrived:
        """The messages at hand: one that comes alone does not wait for others."""
        first = self._consumer.poll(COMPARE_POLL_S)
        if first is None:
            return Arrived((), time.monotonic())
        at_s = time.monotonic()
        found = [first, *self._consumer.consume(COMPARE_PULLED, timeout=0)]
        for message in found:
            if message.error():
                raise UnavailableError(f"Kafka refused: {message.error()}")
        self._consumer.commit(message=found[-1], asynchronous=True)
        return Arrived([message.value() for message in found], at_s)


def _delivered(error: object, _message: object) -> None:
    if error is not None:
        raise UnavailableError(f"Kafka refused: {error}")


@asynccontextmanager
async def kafka_peer(servers: str) -> AsyncIterator[KafkaPeer]:
    """Connect to a cluster, and make a topic that syncs each batch, which is deleted at the end.

    Raises UnsupportedError without the package `confluent-kafka`, UnavailableError.
    """
    client, admin = _client("confluent_kafka"), _client("confluent_kafka.admin")
    topic, asking = f"danube-compare-{time.time_ns()}", admin.AdminClient({"bootstrap.servers": servers})
    wanted = admin.NewTopic(topic, 1, 1, config={"flush.messages": "1"})
    await _settled(lambda: asking.create_topics([wanted])[topic].result(COMPARE_IDLE_S))
    peer = KafkaPeer(client, servers, topic)
    try:
        await peer.join()
        yield peer
    finally:
        await peer.close()
    await _settled(lambda: asking.delete_topics([topic])[topic].result(COMPARE_IDLE_S))


async def _settled(work: Callable[[], T]) -> T:
    thread = BlockingThread("kafka admin")
    try:
        return await thread.run(work)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        raise UnavailableError(f"Kafka refused: {error}") from error
    finally:
        await thread.aclose()


def _client(module: str) -> Any:  # noqa: ANN401 - the package has no types
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UnsupportedError("Kafka is measured by its client: install confluent-kafka") from None

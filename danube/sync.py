"""The client without `await`, for scripts and notebooks: its event loop runs in a thread of its own.

    from danube.sync import Client

    with Client("http://127.0.0.1:6650") as client:
        with client.producer("/default/orders", "shop") as producer:
            producer.send(b"hello")
        with client.consumer("/default/orders", "billing") as consumer:
            while messages := consumer.receive_many(timeout_s=5):
                consumer.ack_many(messages)

Each call waits for its outcome, and raises what the async client raises. Ctrl-C ends the wait, and cancels what it was
for. A client may be used by several threads.
"""

import asyncio
import concurrent.futures
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.client.consume.consumer import Consumer as AsyncConsumer
from danube.client.message import Message
from danube.client.publish.producer import Producer as AsyncProducer
from danube.model.calls.stream import FetchFrom, FetchStart
from danube.model.errors import UnrecoverableError
from danube.model.limits.stream import CLIENT_PREFETCH_BYTES, CLIENT_RECEIVE_MANY_MAX
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy
from danube.runtime.blocking import LoopThread

__all__ = ["Client", "Consumer", "Producer"]

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._thread: LoopThread | None = LoopThread("danube-client")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of `work`. Raises what it raises, and UnrecoverableError once closed."""
        if self._thread is None:
            work.close()
            raise UnrecoverableError("the client is closed: make another one")
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(work, self._thread.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def end(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this last work; nothing is left to do once closed."""
        if self._thread is None:
            work.close()
        else:
            self.run(work)

    def close(self) -> None:
        """Stop the loop and its thread. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()


class _Closing:
    """Closes at the end of `with`."""

    def close(self) -> None:
        """End it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Client(_Closing):
    """A connection to a broker or cluster."""

    def __init__(self, service_url: str, *, builder: DanubeClientBuilder | None = None) -> None:
        """`builder` has what else the client is made of: TLS, a token. Raises SettingsError for a wrong URL."""
        self._loop = _Loop()
        try:
            self._client: DanubeClient = self._loop.run(
                (builder or DanubeClientBuilder()).service_url(service_url).build()
            )
        except BaseException:
            self._loop.close()
            raise

    def producer(
        self,
        topic: str,
        name: str,
        *,
        strategy: DispatchStrategy = DispatchStrategy.RELIABLE,
        partitions: int = 0,
        compression: str = "none",
    ) -> "Producer":
        """A producer that is attached; the topic is created if need be. Raises DanubeError."""
        builder = self._client.new_producer().with_topic(topic).with_name(name).with_dispatch_strategy(strategy)
        producer = builder.with_partitions(partitions).with_compression(compression).build()
        self._loop.run(producer.create())
        return Producer(self._loop, producer)

    def consumer(
        self,
        topic: str,
        subscription: str,
        name: str = "sync",
        *,
        subscription_type: SubscriptionType = SubscriptionType.SHARED,
        start: FetchStart = FetchFrom.LATEST,
        prefetch_bytes: int = CLIENT_PREFETCH_BYTES,
    ) -> "Consumer":
        """A consumer that is subscribed. Raises TopicNotFoundError, DanubeError."""
        builder = self._client.new_consumer().with_topic(topic).with_subscription(subscription)
        builder.with_consumer_name(name).with_subscription_type(subscription_type)
        consumer = builder.with_start(start).with_prefetch_bytes(prefetch_bytes).build()
        self._loop.run(consumer.subscribe())
        return Consumer(self._loop, consumer)

    def close(self) -> None:
        """Close what it made, disconnect, and end its thread. Idempotent."""
        try:
            self._loop.end(self._client.close())
        finally:
            self._loop.close()


class Producer(_Closing):
    """Sends messages to a topic."""

    def __init__(self, loop: _Loop, producer: AsyncProducer) -> None:
        self._loop = loop
        self._producer = producer

    def send(self, data: bytes, attributes: dict[str, str] | None = None, *, key: str | None = None) -> None:
        """Send one message; the broker has it when this returns."""
        if key is None:
            self._loop.run(self._producer.send(data, attributes))
        else:
            self._loop.run(self._producer.send_with_key(data, attributes, key))

    def send_many(self, payloads: Iterable[bytes], attributes: dict[str, str] | None = None) -> int:
        """Send all, and answer how many; the iterable is read in the client's thread."""
        return self._loop.run(self._producer.send_many(payloads, attributes))

    def send_many_with_keys(
        self, messages: Iterable[tuple[str, bytes]], attributes: dict[str, str] | None = None
    ) -> int:
        """The same, of pairs of key and payload."""
        return self._loop.run(self._producer.send_many_with_keys(messages, attributes))

    def close(self) -> None:
        """Stop. Idempotent."""
        self._loop.end(self._producer.close())


class Consumer(_Closing):
    """Receives the messages of a subscription. Iterated, it waits for each message."""

    def __init__(self, loop: _Loop, consumer: AsyncConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    def receive_many(
        self, messages_max: int = CLIENT_RECEIVE_MANY_MAX, *, timeout_s: float | None = None
    ) -> list[Message]:
        """The next messages; empty when none came for `timeout_s`."""
        return self._loop.run(self._consumer.receive_many(messages_max, timeout_s=timeout_s))

    def receive(self, *, timeout_s: float | None = None) -> Message | None:
        """The next message; None when none came for `timeout_s`."""
        found = self.receive_many(1, timeout_s=timeout_s)
        return found[0] if found else None

    def ack(self, message: Message) -> None:
        """Acknowledge a message."""
        self._loop.run(self._consumer.ack(message))

    def ack_many(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages."""
        self._loop.run(self._consumer.ack_many(messages))

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge all that was received of the message's topic up to it."""
        self._loop.run(self._consumer.ack_up_to(message))

    def nack(self, message: Message, delay_ms: int | None = None, reason: str | None = None) -> None:
        """Ask for a message to be sent again."""
        self._loop.run(self._consumer.nack(message, delay_ms, reason))

    def close(self) -> None:
        """Leave. Idempotent."""
        self._loop.end(self._consumer.close())

    def __iter__(self) -> Iterator[Message]:
        while True:
            yield from self.receive_many(1)

"""Pipelines of `send_many`: in batches where the broker takes them, else one call for each message."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from danube.client.publish.batch_stream import BatchStream, OnStored, StoredRange
from danube.client.publish.topic_producer import TopicProducer
from danube.model.calls.client import NO_ATTRIBUTES
from danube.runtime.tasks import TaskScope

Payloads = Iterable[bytes] | AsyncIterable[bytes]


class OutgoingRecord(NamedTuple):
    """A message with what is its own."""

    data: Any
    """Bytes, or with a schema a value that follows it."""
    routing_key: str | None = None
    attributes: Mapping[str, str] = NO_ATTRIBUTES


Records = Iterable[OutgoingRecord] | AsyncIterable[OutgoingRecord]
Item = TypeVar("Item")
OnSent = Callable[[int], None]
"""Gets the number of messages that the broker has by now."""


class BatchPipeline:
    """Collects payloads, in order, into the batches of one topic or of the partitions of one."""

    def __init__(
        self,
        producers: Sequence[TopicProducer],
        choose: Callable[[], int],
        attributes: dict[str, str] | None,
        *,
        on_sent: OnSent | None,
        on_stored: OnStored | None,
        are_whole: bool = False,
    ) -> None:
        """`choose` answers the index in `producers` for the next payload; what it raises ends the pipeline."""
        self._choose = choose
        self._on_sent = on_sent
        self._on_stored = on_stored
        self._sent = 0
        self._scope = TaskScope("send_many")
        self._batch_streams = [
            producer.batch_stream(attributes or NO_ATTRIBUTES, self._stored, are_whole=are_whole, is_counted=True)
            for producer in producers
        ]

    async def open(self) -> None:
        """Open a stream to each topic. Raises UnsupportedError where a broker takes no batches, and DanubeError."""
        try:
            for batch_stream in self._batch_streams:
                await batch_stream.open(self._scope)
        except BaseException:
            await self._scope.close()
            raise

    async def run(self, payloads: Payloads) -> int:
        """Send them all and answer how many. Raises what the first failing batch, or the source, raised.

        After a failure of the source the payloads read before it are sent all the same.
        """
        try:
            try:
                if isinstance(payloads, AsyncIterable):
                    async for payload in payloads:
                        if (full := self._add(payload)) is not None:
                            await self._add_later(payload, full)
                else:
                    for payload in payloads:
                        if (full := self._add(payload)) is not None:
                            await self._add_later(payload, full)
            finally:
                await self._finish()
        finally:
            await self._scope.close()
        return self._sent

    def _add(self, payload: bytes) -> BatchStream | None:
        """Add to a batch; answers the stream whose batch is full, None as a rule: no coroutine for each message."""
        batch_stream = self._batch_streams[self._choose()]
        return None if batch_stream.append(payload) else batch_stream

    @staticmethod
    async def _add_later(payload: bytes, full: BatchStream) -> None:
        await full.wait_for_room()
        while not full.append(payload):
            await full.wait_for_room()

    async def _finish(self) -> None:
        errors: list[Exception] = []
        for batch_stream in self._batch_streams:
            try:
                await batch_stream.finish()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _stored(self, stored: StoredRange) -> None:
        self._sent += stored.count
        if self._on_stored is not None:
            self._on_stored(stored)
        if self._on_sent is not None:
            self._on_sent(self._sent)


class RecordPipeline:
    """As BatchPipeline, for records with keys and attributes of their own: whole messages."""

    def __init__(
        self,
        producers: Sequence[TopicProducer],
        choose: Callable[[OutgoingRecord], int],
        encoded: Callable[[int, OutgoingRecord], bytes],
        *,
        on_sent: OnSent | None,
        on_stored: OnStored | None,
    ) -> None:
        """`encoded` makes the message for the producer at an index."""
        self._choose = choose
        self._encoded = encoded
        self._batches = BatchPipeline(
            producers, lambda: self._next, None, on_sent=on_sent, on_stored=on_stored, are_whole=True
        )
        self._next = 0

    async def open(self) -> None:
        """As `BatchPipeline.open`."""
        await self._batches.open()

    async def run(self, records: Records) -> int:
        """As `BatchPipeline.run`."""
        if isinstance(records, AsyncIterable):
            return await self._batches.run(self._whole(record) async for record in records)
        return await self._batches.run(self._whole(record) for record in records)

    def _whole(self, record: OutgoingRecord) -> bytes:
        """The encoded message; the pipeline asks for its partition right after it has it."""
        self._next = self._choose(record)
        return self._encoded(self._next, record)


class SendPipeline(Generic[Item]):
    """Sends payloads one by one, in order, each as soon as fewer than `in_flight_max` are unanswered.

    The first failure ends it: nothing further is read from the source, and calls under way are waited for.
    """

    def __init__(
        self, send: Callable[[Item], Awaitable[int]], in_flight_max: int, on_sent: OnSent | None = None
    ) -> None:
        self._send = send
        self._in_flight_max = in_flight_max
        self._on_sent = on_sent
        self._scope = TaskScope("send_many")
        self._workers: list[asyncio.Task[None]] = []
        self._reading = asyncio.Lock()
        self._ended = False
        self._error: Exception | None = None
        self._sent = 0

    async def run(self, payloads: Iterable[Item] | AsyncIterable[Item]) -> int:
        """Send them all and answer how many. Raises what the first failing send, or the source, raised."""
        source = payloads if isinstance(payloads, AsyncIterable) else _each(payloads)
        try:
            self._add_worker(aiter(source))
            for worker in self._workers:
                await worker
        finally:
            await self._scope.close()
        if self._error is not None:
            raise self._error
        return self._sent

    def _add_worker(self, payloads: AsyncIterator[Item]) -> None:
        if len(self._workers) < self._in_flight_max:
            self._workers.append(self._scope.spawn(self._work(payloads), f"sender-{len(self._workers)}"))

    async def _work(self, payloads: AsyncIterator[Item]) -> None:
        try:
            while (payload := await self._next(payloads)) is not None:
                await self._send(payload)
                self._count()
        except Exception as error:
            self._error = self._error or error  # raised by `run`
            self._ended = True

    async def _next(self, payloads: AsyncIterator[Item]) -> Item | None:
        """One worker at a time, and it starts its send before the next one reads: that keeps the order."""
        async with self._reading:
            if self._ended:
                return None
            try:
                payload = await anext(payloads)
            except StopAsyncIteration:
                self._ended = True
                return None
            self._add_worker(payloads)
            return payload

    def _count(self) -> None:
        self._sent += 1
        if self._on_sent is not None:
            self._on_sent(self._sent)


async def _each(payloads: Iterable[Item]) -> AsyncIterator[Item]:
    for payload in payloads:
        yield payload

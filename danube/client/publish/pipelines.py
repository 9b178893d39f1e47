"""Pipelines of `send_many`: in batches where the broker takes them, else one call for each message."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from danube.client.publish.sender import BatchStream, OnStored, StoredRange
from danube.client.publish.topic_producer import TopicProducer
from danube.model.calls.client import NO_ATTRIBUTES
from danube.runtime.tasks import TaskScope


class OutgoingRecord(NamedTuple):
    """A message with what is its own."""

    data: Any
    """Bytes, or with a schema a value that follows it."""
    routing_key: str | None = None
    attributes: Mapping[str, str] = NO_ATTRIBUTES


Item = TypeVar("Item")
Source = Iterable[Item] | AsyncIterable[Item]
Records = Source[OutgoingRecord]
OnSent = Callable[[int], None]
"""Gets the number of messages that the broker has by now."""


class BatchPipeline(Generic[Item]):
    """Adds records, in order, to the batches of one topic or of the partitions of one."""

    def __init__(
        self,
        producers: Sequence[TopicProducer],
        place: Callable[[Item], tuple[int, bytes]],
        attributes: Mapping[str, str],
        *,
        on_sent: OnSent | None,
        on_stored: OnStored | None,
        are_whole: bool,
    ) -> None:
        """`place` answers the index in `producers` for an item, and its record: a payload with `attributes`, or, where
        records `are_whole`, an encoded message. What it raises ends the pipeline.
        """
        self._place = place
        self._on_sent = on_sent
        self._on_stored = on_stored
        self._sent = 0
        self._scope = TaskScope("send_many")
        self._batch_streams = [
            producer.batch_stream(attributes, self._stored, are_whole=are_whole, is_counted=True)
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

    async def run(self, items: Source[Item]) -> int:
        """Send them all and answer how many. Raises what the first failing batch, or the source, raised.

        After a failure of the source the items read before it are sent all the same.
        """
        try:
            try:
                if isinstance(items, AsyncIterable):
                    async for item in items:
                        if (full := self._add(item)) is not None:
                            await self._add_later(*full)
                else:
                    for item in items:
                        if (full := self._add(item)) is not None:
                            await self._add_later(*full)
            finally:
                await self._finish()
        finally:
            await self._scope.close()
        return self._sent

    def _add(self, item: Item) -> tuple[BatchStream, bytes] | None:
        """Add to a batch; answers the stream whose batch is full, None as a rule: no coroutine for each message."""
        index, record = self._place(item)
        batch_stream = self._batch_streams[index]
        return None if batch_stream.append(record) else (batch_stream, record)

    @staticmethod
    async def _add_later(full: BatchStream, record: bytes) -> None:
        await full.wait_for_room()
        while not full.append(record):
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


async def send_each(
    send: Callable[[Item], Awaitable[object]], items: Source[Item], in_flight_max: int, on_sent: OnSent | None
) -> int:
    """Send items one by one, in order, each as soon as fewer than `in_flight_max` are unanswered; answers how many.

    Raises what the first failing send, or the source, raised: nothing further is read from the source then, and calls
    under way are waited for.
    """
    scope, room = TaskScope("send_many"), asyncio.Semaphore(in_flight_max)
    errors: list[Exception] = []
    tasks: set[asyncio.Task[None]] = set()
    sent = 0

    async def work(item: Item) -> None:
        nonlocal sent
        try:
            await send(item)
            sent += 1
            if on_sent is not None:
                on_sent(sent)
        except Exception as error:
            errors.append(error)
        finally:
            room.release()

    try:
        source = aiter(items if isinstance(items, AsyncIterable) else _each(items))
        while True:
            await room.acquire()
            if errors:
                break
            try:
                item = await anext(source)
            except StopAsyncIteration:
                break
            except Exception as error:
                errors.append(error)
                break
            tasks.add(task := scope.spawn(work(item), "send"))
            task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks)
    finally:
        await scope.close()
    if errors:
        raise errors[0]
    return sent


async def _each(items: Iterable[Item]) -> AsyncIterator[Item]:
    for item in items:
        yield item

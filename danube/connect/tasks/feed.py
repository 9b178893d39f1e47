"""Feed of a topic: one exclusive send that stays open and stores one batch after the other."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from danube.client import Producer, StoredRange
from danube.client.publish.pipelines import OutgoingRecord
from danube.model.errors import UnavailableError
from danube.runtime.tasks import TaskScope, resolve


class Feed:
    """Stores batches by an exclusive producer. While it is open no other exclusive producer gets the topic."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._scope = TaskScope("connector's feed")
        self._batches: asyncio.Queue[Sequence[OutgoingRecord] | None] = asyncio.Queue(1)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stored: asyncio.Future[None] | None = None
        self._left = 0
        self._error: Exception | None = None
        self._sending: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Get the topic for this producer alone. Raises TopicHeldError, DanubeError."""
        self._sending = self._scope.spawn(self._send(), "send")
        await self._or_end(self._begun)

    async def store(self, records: Sequence[OutgoingRecord]) -> None:
        """Store records in order; they are durable on return. Raises ProducerFencedError, DanubeError."""
        if not records:
            return
        self._left = len(records)
        self._stored = asyncio.get_running_loop().create_future()
        await self._batches.put(records)
        await self._or_end(self._stored)

    async def close(self) -> None:
        """Give the topic up."""
        if self._sending is not None and not self._sending.done() and self._batches.empty():
            self._batches.put_nowait(None)
            await asyncio.wait([self._sending], timeout=1.0)
        await self._scope.close()

    async def _or_end(self, done: "asyncio.Future[None]") -> None:
        """Wait for an event of the send, or for its end."""
        if self._sending is not None:
            await asyncio.wait([done, self._sending], return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise self._error or UnavailableError("the send to the topic has ended: it begins anew")

    async def _send(self) -> None:
        try:
            await self._producer.send_records(self._records(), on_stored=self._on_stored)
        except Exception as error:
            self._error = error  # raised where the next event of the send is waited for

    async def _records(self) -> AsyncGenerator[OutgoingRecord, None]:
        resolve(self._begun, None)
        while (batch := await self._batches.get()) is not None:
            for record in batch:
                yield record

    def _on_stored(self, stored: StoredRange) -> None:
        self._left -= stored.count
        if self._left <= 0:
            resolve(self._stored, None)

"""Sending many messages with a bounded number of them on their way."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable

from danube.runtime.tasks import TaskScope

Send = Callable[[bytes], Awaitable[int]]
OnSent = Callable[[int], None]


class SendPipeline:
    """Takes payloads in order, each as soon as fewer than `in_flight_max` are unanswered.

    The first failure ends it: nothing further is taken, and what is on its way is waited for.
    """

    def __init__(self, send: Send, in_flight_max: int, on_sent: OnSent | None = None) -> None:
        self._send = send
        self._in_flight_max = in_flight_max
        self._on_sent = on_sent
        self._scope = TaskScope("send_many")
        self._workers: list[asyncio.Task[None]] = []
        self._taking = asyncio.Lock()
        self._ended = False
        self._error: Exception | None = None
        self._sent = 0

    async def run(self, payloads: Iterable[bytes] | AsyncIterable[bytes]) -> int:
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

    def _add_worker(self, payloads: AsyncIterator[bytes]) -> None:
        if len(self._workers) < self._in_flight_max:
            self._workers.append(self._scope.spawn(self._work(payloads), f"sender-{len(self._workers)}"))

    async def _work(self, payloads: AsyncIterator[bytes]) -> None:
        try:
            while (payload := await self._take(payloads)) is not None:
                await self._send(payload)
                self._count()
        except Exception as error:
            self._error = self._error or error  # handed over to `run`
            self._ended = True

    async def _take(self, payloads: AsyncIterator[bytes]) -> bytes | None:
        """One worker at a time, and it starts its send before the next takes: that keeps the order."""
        async with self._taking:
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


async def _each(payloads: Iterable[bytes]) -> AsyncIterator[bytes]:
    for payload in payloads:
        yield payload

"""A carrier between brokers whose calls that carry logs can be held, failed and changed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from danube.model.calls.carry import ReadSegment
from danube.rpc.carrier import Carrier, CarrierServer, Channel, ClientStream, Service
from danube.testing.patience import PATIENCE_S
from danube.wire import control_messages

Answer = Callable[[], Awaitable[bytes]]
Meddle = Callable[[str, bytes, Answer], Awaitable[bytes]]


class Meddled:
    """A carrier whose calls that carry logs can be held, failed and changed."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self.meddle: Meddle | None = None
        self.reads: list[ReadSegment] = []

    async def serve(self, address: str, services: Sequence[Service]) -> CarrierServer:
        return await self._carrier.serve(address, services)

    def connect(self, address: str) -> Channel:
        return MeddledChannel(self._carrier.connect(address), self)

    def hold_reads(self, after: int) -> "Hold":
        """Hold the read that comes after so many, and those after it, until they are let go."""
        hold, count = Hold(), 0

        async def meddle(path: str, _request: bytes, answer: Answer) -> bytes:
            nonlocal count
            if path.endswith("/ReadSegment"):
                count += 1
                if count > after:
                    hold.reached.set()
                    await hold.free.wait()
            return await answer()

        self.meddle = meddle
        return hold


class Hold:
    """A call that waits."""

    def __init__(self) -> None:
        self.reached, self.free = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.reached.wait()


class MeddledChannel:
    """A channel of a `Meddled` carrier."""

    def __init__(self, channel: Channel, carrier: Meddled) -> None:
        self._channel = channel
        self._carrier = carrier

    async def call(self, path: str, request: bytes, **options: Any) -> bytes:
        if path.endswith("/ReadSegment"):
            self._carrier.reads.append(control_messages.READ_SEGMENT.decode(request))

        async def answer() -> bytes:
            return await self._channel.call(path, request, **options)

        if "danube.control.Carry" not in path or self._carrier.meddle is None:
            return await answer()
        return await self._carrier.meddle(path, request, answer)

    def stream(self, path: str, **options: Any) -> ClientStream:
        return self._channel.stream(path, **options)

    def server_stream(self, path: str, request: bytes, **options: Any) -> ClientStream:
        return self._channel.server_stream(path, request, **options)

    async def close(self, lost: str | None = None) -> None:
        await self._channel.close(lost)

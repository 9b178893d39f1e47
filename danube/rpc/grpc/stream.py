"""One stream at a gRPC server.

The coroutine that grpc.aio runs for it is the writer's pump; a stream with messages both ways has a task that reads.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from grpc import aio

from danube.rpc.carrier import StreamFactory, StreamHandler
from danube.rpc.grpc.context import (
    EOF,
    HALF_CLOSE_WAIT_S,
    AbortError,
    Context,
    ServerSide,
    abort,
    caller_of,
    receive_request,
    without_frames,
)
from danube.rpc.stream import AnsweringStream
from danube.runtime.clock import sleep_for
from danube.runtime.tasks import Wakeup

_CANCEL_NOTICE_S = 5.0
"""A write fails a moment before gRPC cancels the call's coroutine; longer than this is not waited for it."""


class GrpcServerStream(AnsweringStream):
    """The answering end of one stream over gRPC."""

    def __init__(self, path: str, context: Context, side: ServerSide, *, both_ways: bool) -> None:
        super().__init__(path, caller_of(context, side), side.options, side.memory, both_ways=both_ways)
        self._context = context
        self._side = side
        self._changed = Wakeup()
        self._opened = False

    def advance(self) -> None:
        self._changed.notify()

    async def answer(self, factory: StreamFactory, request: bytes) -> None:
        """Carry a server stream from its request to its end."""
        handler = self._start(factory)
        if handler is not None:
            self._tell(handler.on_message, request)
            self._tell(handler.on_half_close)
        await self._pump_to_end(handler)

    async def converse(self, factory: StreamFactory) -> None:
        """Carry a stream with messages both ways to its end."""
        handler = self._start(factory)
        if handler is None:
            await self._pump_to_end(None)
            return
        reader = self._side.tasks.spawn(self._read(handler), self._path)
        try:
            await self._pump_to_end(handler)
        finally:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader

    def _start(self, factory: StreamFactory) -> StreamHandler | None:
        try:
            return factory(self)
        except Exception as error:
            self.fail(error)
            return None

    async def _pump_to_end(self, handler: StreamHandler | None) -> None:
        try:
            await self._pump(handler)
        except asyncio.CancelledError:
            self._lose(handler)
            raise
        finally:
            self._over = True
            self._outbox.close()
            del self._context

    async def _pump(self, handler: StreamHandler | None) -> None:
        try:
            while not await self._step(handler):
                pass
        except (aio.InternalError, aio.UsageError):
            if self._failure is not None:
                raise
            self._lose(handler)
            async with asyncio.timeout(_CANCEL_NOTICE_S):
                await asyncio.get_running_loop().create_future()

    async def _step(self, handler: StreamHandler | None) -> bool:
        """Do what is due next; whether the stream has ended."""
        if self._failure is not None:
            await abort(self._context, self._failure)
        if self._open_wanted and not self._opened:
            self._opened = True
            await self._context.send_initial_metadata(())
        elif len(self._outbox):
            self._opened = True
            await self._context.write(self._outbox.head)
            if self._outbox.sent() and handler is not None:
                self._tell(handler.on_ready)
        elif self._finished:
            return True
        elif self._outbox.ready() and handler is not None:
            self._tell(handler.on_ready)
        else:
            await self._changed.wait()
        return False

    async def _read(self, handler: StreamHandler) -> None:
        with suppress(aio.AbortError, aio.InternalError, aio.UsageError):  # the first: refused while a read was waiting
            while self._answers and (message := await self._context.read()) is not EOF:
                while self._paused:
                    await self._changed.wait()
                self._tell(handler.on_message, message)
            await sleep_for(self._side.clock, HALF_CLOSE_WAIT_S)
            while self._paused:
                await self._changed.wait()
            self._tell(handler.on_half_close)

    def _lose(self, handler: StreamHandler | None) -> None:
        told = self._answers
        self._over = True
        if told and handler is not None:
            self._tell_cancelled(handler)


def stream_method(
    path: str, factory: StreamFactory, side: ServerSide, *, both_ways: bool
) -> Callable[[object, Context], Coroutine[Any, Any, None]]:
    """The coroutine function that grpc.aio runs for each stream of `factory`."""

    async def run(_requests: object, context: Context) -> None:
        side.active += 1
        try:
            if both_ways:
                await GrpcServerStream(path, context, side, both_ways=True).converse(factory)
            else:
                request = await receive_request(context, path, side)
                await GrpcServerStream(path, context, side, both_ways=False).answer(factory, request)
        except AbortError as error:
            del _requests, context
            raise without_frames(error) from None
        finally:
            side.ended()

    return run

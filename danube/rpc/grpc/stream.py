"""One stream at a gRPC server.

The coroutine that grpc.aio runs for it is the writer's pump; a stream with messages both ways has a task that reads.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from grpc import aio

from danube.model.errors import DanubeError
from danube.rpc.carrier import Caller, StreamFactory, StreamHandler
from danube.rpc.failure import log_callback_failure, status_for
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
from danube.rpc.stream_memory import Outbox
from danube.rpc.wakeup import Wakeup
from danube.runtime.clock import sleep_for
from danube.wire.status import Status

_CANCEL_NOTICE_S = 5.0
"""A write fails a moment before gRPC cancels the call's coroutine; longer than this is not waited for it."""


class GrpcServerStream:
    """The answering end of one stream over gRPC."""

    def __init__(self, path: str, context: Context, side: ServerSide, *, both_ways: bool = False) -> None:
        self._path = path
        self._context = context
        self._side = side
        self._caller = caller_of(context, side)
        self._outbox = Outbox(side.options, side.memory, self, both_ways=both_ways)
        self._changed = Wakeup()
        self._open_wanted = False
        self._opened = False
        self._paused = False
        self._finished = False
        self._failure: Status | None = None
        self._over = False

    @property
    def caller(self) -> Caller:
        return self._caller

    @property
    def room(self) -> int:
        return self._outbox.room

    def open(self) -> None:
        self._open_wanted = True
        self._changed.notify()

    def write(self, message: bytes) -> None:
        if self._answers:
            self._outbox.put(message)
            self._changed.notify()

    def finish(self) -> None:
        self._finished = True
        self._changed.notify()

    def fail(self, error: DanubeError) -> None:
        self._fail(error)

    def room_again(self) -> None:
        self._changed.notify()

    def give_way(self, error: DanubeError) -> None:
        self._fail(error)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
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

    @property
    def _answers(self) -> bool:
        return not (self._finished or self._over or self._failure is not None)

    def _start(self, factory: StreamFactory) -> StreamHandler | None:
        try:
            return factory(self)
        except Exception as error:
            self._fail(error)
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

    def _tell(self, notify: Callable[..., None], *args: bytes) -> None:
        if not self._answers:
            return
        try:
            notify(*args)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._answers:
            self._failure = status_for(error, self._path)
            self._changed.notify()

    def _lose(self, handler: StreamHandler | None) -> None:
        told = self._answers
        self._over = True
        if not told or handler is None:
            return
        try:
            handler.on_cancel()
        except Exception as error:
            log_callback_failure(error, self._path)


def server_stream_method(
    path: str, factory: StreamFactory, side: ServerSide
) -> Callable[[object, Context], Coroutine[Any, Any, None]]:
    """The coroutine function that grpc.aio runs for each server stream of `factory`."""

    async def run(_requests: object, context: Context) -> None:
        side.active += 1
        try:
            request = await receive_request(context, path, side)
            await GrpcServerStream(path, context, side).answer(factory, request)
        except AbortError as error:
            del _requests, context
            raise without_frames(error) from None
        finally:
            side.ended()

    return run


def stream_method(
    path: str, factory: StreamFactory, side: ServerSide
) -> Callable[[object, Context], Coroutine[Any, Any, None]]:
    """The coroutine function that grpc.aio runs for each stream of `factory` with messages both ways."""

    async def run(_requests: object, context: Context) -> None:
        side.active += 1
        try:
            await GrpcServerStream(path, context, side, both_ways=True).converse(factory)
        except AbortError as error:
            del _requests, context
            raise without_frames(error) from None
        finally:
            side.ended()

    return run

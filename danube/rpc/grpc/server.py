"""A listening gRPC server: generic methods on raw bytes, found by their path.

To gRPC all methods are streams both ways, so that we decide when the one message of a call is read. The coroutine that
grpc.aio runs for each is its writer's pump; a stream with messages both ways has a task that reads. Nothing keeps
grpc's context past the end of a call: the context keeps the call open in gRPC's core, and a server cannot stop while
one is.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, cast
from urllib.parse import unquote
from weakref import WeakValueDictionary

import grpc
from grpc import aio

from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.limits.broker import RPC_REQUESTS_ARRIVING_MAX
from danube.rpc.answer import log_callback_failure, status_for
from danube.rpc.carrier import Caller, CarrierOptions, ServerStream, Service, StreamFactory, StreamHandler, UnaryHandler
from danube.rpc.stream import AnsweringStream
from danube.rpc.stream_memory import StreamMemory
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.tasks import TaskScope, Wakeup
from danube.wire.status import ERROR_CODE_KEY, Status

Context: TypeAlias = aio.ServicerContext[bytes, bytes]

EOF: object = cast("Any", aio).EOF
"""Value that grpc.aio reads after the last message; its type stubs leave it out."""
_HALF_CLOSE_WAIT_S = 0.02
"""To grpc.aio a peer that left looks like one that half-closed, until a moment later."""
_CANCEL_NOTICE_S = 5.0
"""A write fails a moment before gRPC cancels the call's coroutine; longer than this is not waited for it."""
_END_WAIT_S = 5.0
"""Calls end within a moment of the server; longer than this is not waited for a handler's last coroutine."""
_LAST_TURNS_S = 0.01
"""For grpc.aio's own tasks around the coroutines; a loop that is closed under them prints tracebacks."""
_CODES = {cast("tuple[int, str]", code.value)[0]: code for code in grpc.StatusCode}


@dataclass(slots=True)
class ServerSide:
    """State that the calls of one server share."""

    clock: Clock
    options: CarrierOptions
    tasks: TaskScope
    memory: StreamMemory
    """Shared with the carrier's other servers."""
    secure: bool
    """True if peers may have shown a certificate."""
    active: int = 0
    """Calls and streams that have not ended for their handlers."""
    changed: Wakeup = field(default_factory=Wakeup)
    """Notified when a call ended and none is left."""
    turns: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = field(default_factory=WeakValueDictionary)
    """For requests on their way in, by connection and method."""

    def ended(self) -> None:
        """Count one call less."""
        self.active -= 1
        if not self.active:
            self.changed.notify()


class GrpcServer:
    """A listening grpc.aio server."""

    def __init__(self, server: aio.Server, address: str, side: ServerSide) -> None:
        self._server = server
        self.address = address
        self._side = side

    async def stop(self, grace_s: float) -> None:
        await self._server.stop(grace_s if grace_s > 0 else None)
        await self._wait_for_handlers()
        await self._side.tasks.close()

    async def _wait_for_handlers(self) -> None:
        """gRPC stops a little before its coroutines do."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_WAIT_S):
                while self._side.active:
                    await self._side.changed.wait()
        await sleep_for(self._side.clock, _LAST_TURNS_S)


class Router:
    """Finds the method of a path; a `grpc.GenericRpcHandler` in all but name."""

    def __init__(self, services: Iterable[Service], side: ServerSide) -> None:
        self._side = side
        self._methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
        for service in services:
            for name, handler in service.unary.items():
                self._add(f"/{service.name}/{name}", _unary(handler), has_request=True, both_ways=True)
            for name, factory in service.server_streams.items():
                self._add(f"/{service.name}/{name}", factory, has_request=True, both_ways=False)
            for name, factory in service.streams.items():
                self._add(f"/{service.name}/{name}", factory, has_request=False, both_ways=True)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._methods.get(handler_call_details.method)

    def _add(self, path: str, factory: StreamFactory, *, has_request: bool, both_ways: bool) -> None:
        side = self._side

        async def run(_requests: object, context: Context) -> None:
            side.active += 1
            try:
                request = await _receive_request(context, path, side) if has_request else None
                await GrpcServerStream(path, context, side, both_ways=both_ways).carry(factory, request)
            except aio.AbortError as error:
                # gRPC keeps the error with the call. The frames it went through would keep the call, its stream and
                # what is queued on that, until the garbage collector comes by.
                del _requests, context
                raise error.with_traceback(None) from None
            finally:
                side.ended()

        self._methods[path] = grpc.stream_stream_rpc_method_handler(run)


class GrpcServerStream(AnsweringStream):
    """The answering end of one call over gRPC."""

    def __init__(self, path: str, context: Context, side: ServerSide, *, both_ways: bool) -> None:
        super().__init__(path, _caller_of(context, side), side.options, side.memory, both_ways=both_ways)
        self._context = context
        self._side = side
        self._changed = Wakeup()
        self._opened = False

    def advance(self) -> None:
        self._changed.notify()

    async def carry(self, factory: StreamFactory, request: bytes | None) -> None:
        """Carry the stream to its end; without a request, one with messages both ways."""
        handler: StreamHandler | None = None
        try:
            handler = factory(self)
        except Exception as error:
            self.fail(error)
        if handler is None or request is not None:
            if handler is not None and request is not None:
                self._tell(handler.on_message, request)
                self._tell(handler.on_half_close)
            await self._pump_to_end(handler)
            return
        reader = self._side.tasks.spawn(self._read(handler), self._path)
        try:
            await self._pump_to_end(handler)
        finally:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader

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
            await _abort(self._context, self._failure)
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
            await sleep_for(self._side.clock, _HALF_CLOSE_WAIT_S)
            while self._paused:
                await self._changed.wait()
            self._tell(handler.on_half_close)

    def _lose(self, handler: StreamHandler | None) -> None:
        is_open = self._answers
        self._over = True
        if is_open and handler is not None:
            self._tell_cancelled(handler)


class _UnaryCall:
    """One request that is owed one answer, as a stream that has one answer."""

    __slots__ = ("_callbacks", "_handler", "_lost", "_settled", "_stream")

    def __init__(self, handler: UnaryHandler, stream: ServerStream) -> None:
        self._handler = handler
        self._stream = stream
        self._callbacks: list[Callable[[], None]] = []
        self._settled = False
        self._lost = False

    # For its handler.

    @property
    def caller(self) -> Caller:
        return self._stream.caller

    def reply(self, response: bytes) -> None:
        if not self._settled:
            self._settled = True
            self._stream.write(response)
            self._stream.finish()

    def fail(self, error: DanubeError) -> None:
        if not self._settled:
            self._settled = True
            self._stream.fail(error)

    def on_cancel(self, callback: Callable[[], None] | None = None) -> None:
        """For the handler with a callback; for the stream without one, when it has ended from the other side."""
        if callback is not None and not self._lost:
            self._callbacks.append(callback)
            return
        self._lost = self._settled = True
        callbacks, self._callbacks = self._callbacks if callback is None else [callback], []
        for each in callbacks:
            try:
                each()
            except Exception as error:
                log_callback_failure(error, "a call")

    # For its stream.

    def on_message(self, message: bytes) -> None:
        response = self._handler(message, self)
        if response is not None:
            self.reply(response)

    def on_half_close(self) -> None:
        return

    def on_ready(self) -> None:
        return


def _unary(handler: UnaryHandler) -> StreamFactory:
    return lambda stream: _UnaryCall(handler, stream)


async def _abort(context: Context, status: Status) -> NoReturn:
    """End the call with a status; gRPC sends it without headers where none were sent."""
    await context.abort(_CODES[status.code], status.message, ((ERROR_CODE_KEY, status.error_code),))


async def _receive_request(context: Context, path: str, side: ServerSide) -> bytes:
    """The message of a call that has one.

    gRPC keeps as much of a message as has arrived and says of none how long it is, so only a few of one connection and
    method arrive at a time; of the others the peer can send no more than the window of a stream.
    """
    key = context.peer(), path
    turn = side.turns.get(key)
    if turn is None:
        turn = side.turns[key] = asyncio.Semaphore(RPC_REQUESTS_ARRIVING_MAX)
    async with turn:
        request = await context.read()
    if request is EOF:
        await sleep_for(side.clock, _HALF_CLOSE_WAIT_S)
        await _abort(context, status_for(InvalidRequestError("the call has no message: send one"), path))
    return request


def _caller_of(context: Context, side: ServerSide) -> Caller:
    """The caller. Only while the call is under way: gRPC's core crashes when it is asked later."""
    pairs = cast("Iterable[tuple[str, str | bytes]]", context.invocation_metadata() or ())
    metadata = {key: text for key, text in pairs if isinstance(text, str)}
    family, _, address = context.peer().partition(":")  # `ipv4:127.0.0.1:1` or `ipv6:%5B::1%5D:1`
    return Caller(
        address=unquote(address) if family in {"ipv4", "ipv6"} else context.peer(),
        user_agent=metadata.pop("user-agent", ""),
        metadata=metadata,
        certificate_name=_certificate_name(context) if side.secure else None,
    )


def _certificate_name(context: Context) -> str | None:
    identity: Mapping[str, Iterable[bytes]] = context.auth_context()
    return next((name.decode(errors="replace") for name in identity.get("x509_common_name", ())), None)

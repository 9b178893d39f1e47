"""The serving side of the gRPC carrier: handlers of bytes behind generic methods of `grpc.aio`.

grpc.aio runs one coroutine per call. Here it is the pump of its call: it asks the handler, waits for the answer where
that comes later, and writes. A call object never keeps grpc's context past its end: the context keeps the call open
in gRPC's core, and a server cannot stop while one is.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, cast
from urllib.parse import unquote

import grpc
from grpc import aio

from danube.model import errors
from danube.model.errors import DanubeError
from danube.rpc.carrier import Caller, Service, StreamFactory, StreamHandler, UnaryHandler
from danube.rpc.failure import log_callback_failure, status_for
from danube.rpc.options import CarrierOptions
from danube.rpc.outbox import Outbox
from danube.rpc.pending_answer import PendingAnswer
from danube.rpc.wakeup import Wakeup
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope
from danube.wire.status import ERROR_CODE_KEY, Status, status_of

Context: TypeAlias = aio.ServicerContext[bytes, bytes]

_EOF: object = cast("Any", aio).EOF
_CODES = {cast("tuple[int, str]", code.value)[0]: code for code in grpc.StatusCode}
_PEER_GONE = status_of(errors.CancelledError("the peer left"))
_UNKNOWN_CALLER = Caller(address="unknown")
_CANCEL_NOTICE_S = 5.0
"""A write fails a moment before gRPC cancels the call's coroutine; longer than this is not waited for it."""

_HALF_CLOSE_WAIT_S = 0.005
"""To grpc.aio a peer that left looks like one that half-closed, until a moment later."""


@dataclass(frozen=True, slots=True)
class ServerSide:
    """What the calls of one server share."""

    clock: Clock
    options: CarrierOptions
    tasks: TaskScope
    secure: bool
    """Whether peers may have shown a certificate."""


class Router:
    """Finds the method of a path; a `grpc.GenericRpcHandler` in all but name."""

    def __init__(self, services: Iterable[Service], side: ServerSide) -> None:
        self._methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
        for service in services:
            self._methods.update(_methods(service, side))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._methods.get(handler_call_details.method)


def _methods(service: Service, side: ServerSide) -> dict[str, "grpc.RpcMethodHandler[bytes, bytes]"]:
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
    for name, handler in service.unary.items():
        path = f"/{service.name}/{name}"
        methods[path] = grpc.unary_unary_rpc_method_handler(_unary_method(path, handler, side))
    for name, factory in service.server_streams.items():
        path = f"/{service.name}/{name}"
        methods[path] = grpc.unary_stream_rpc_method_handler(_server_stream_method(path, factory, side))
    for name, factory in service.streams.items():
        path = f"/{service.name}/{name}"
        methods[path] = grpc.stream_stream_rpc_method_handler(_stream_method(path, factory, side))
    return methods


# Unary calls


class GrpcCall(PendingAnswer):
    """One unary call over gRPC. Who calls is read from gRPC when it is asked for the first time."""

    __slots__ = ("_caller", "_context", "_side")

    def __init__(self, path: str, context: Context, side: ServerSide) -> None:
        super().__init__(path)
        self._context: Context | None = context
        self._side = side
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller:
        """Who asks; `unknown` when it is asked for the first time after the answer."""
        if self._caller is None:
            self._caller = _UNKNOWN_CALLER if self._context is None else _caller(self._context, self._side)
        return self._caller

    def detach(self, outcome: bytes | Status) -> None:
        """The call is over: take no other answer, and let gRPC's context go."""
        self.settle(outcome)
        self._context = None

    def cancel(self) -> None:
        """The peer left, or the deadline passed."""
        _ = self.caller  # callbacks may name who left
        self.lose(_PEER_GONE)
        self._context = None


def _unary_method(
    path: str, handler: UnaryHandler, side: ServerSide
) -> Callable[[bytes, Context], Coroutine[Any, Any, bytes]]:
    async def run(request: bytes, context: Context) -> bytes:
        call = GrpcCall(path, context, side)
        outcome: bytes | Status | None
        try:
            outcome = handler(request, call)
            if outcome is None:
                outcome = call.outcome
            if outcome is None:
                outcome = await call.wait()
        except asyncio.CancelledError:
            call.cancel()
            raise
        except Exception as error:
            outcome = status_for(error, path)
        call.detach(outcome)
        if isinstance(outcome, Status):
            await _abort(context, outcome)
        return outcome

    return run


# Streams


class GrpcServerStream:
    """The answering end of one stream over gRPC."""

    def __init__(self, path: str, context: Context, side: ServerSide) -> None:
        self._path = path
        self._context = context
        self._side = side
        self._caller = _caller(context, side)
        self._outbox = Outbox(side.options.queue_bytes_max, side.options.queue_messages_max)
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
        else:
            await self._changed.wait()
        return False

    async def _read(self, handler: StreamHandler) -> None:
        with suppress(aio.InternalError, aio.UsageError):
            while self._answers and (message := await self._context.read()) is not _EOF:
                while self._paused:
                    await self._changed.wait()
                self._tell(handler.on_message, message)
            await self._side.clock.sleep_until(self._side.clock.monotonic_s() + _HALF_CLOSE_WAIT_S)
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


def _server_stream_method(
    path: str, factory: StreamFactory, side: ServerSide
) -> Callable[[bytes, Context], Coroutine[Any, Any, None]]:
    async def run(request: bytes, context: Context) -> None:
        await GrpcServerStream(path, context, side).answer(factory, request)

    return run


def _stream_method(
    path: str, factory: StreamFactory, side: ServerSide
) -> Callable[[object, Context], Coroutine[Any, Any, None]]:
    async def run(_requests: object, context: Context) -> None:
        await GrpcServerStream(path, context, side).converse(factory)

    return run


# What gRPC knows of a call


async def _abort(context: Context, status: Status) -> NoReturn:
    """End the call with a status; gRPC sends it without headers where none were sent."""
    await context.abort(_CODES[status.code], status.message, ((ERROR_CODE_KEY, status.error_code),))


def _caller(context: Context, side: ServerSide) -> Caller:
    metadata = _text_metadata(context)
    remaining_s = cast("float | None", context.time_remaining())
    return Caller(
        address=_peer_address(context.peer()),
        user_agent=metadata.pop("user-agent", ""),
        metadata=metadata,
        certificate_name=_certificate_name(context) if side.secure else None,
        deadline_s=None if remaining_s is None else side.clock.monotonic_s() + remaining_s,
    )


def _text_metadata(context: Context) -> dict[str, str]:
    pairs = cast("Iterable[tuple[str, str | bytes]]", context.invocation_metadata() or ())
    return {key: text for key, text in pairs if isinstance(text, str)}


def _peer_address(peer: str) -> str:
    """`ipv4:127.0.0.1:1` or `ipv6:%5B::1%5D:1`, as gRPC says it, without the family."""
    family, _, address = peer.partition(":")
    return unquote(address) if family in {"ipv4", "ipv6"} else peer


def _certificate_name(context: Context) -> str | None:
    identity: Mapping[str, Iterable[bytes]] = context.auth_context()
    names = [name.decode(errors="replace") for name in identity.get("x509_common_name", ())]
    return names[0] if names else None

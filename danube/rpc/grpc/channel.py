"""The asking side of the gRPC carrier: one `grpc.aio` channel, bytes in and out, gRPC's failures as ours."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

import grpc
from grpc import aio

from danube.model import errors
from danube.model.errors import DanubeError
from danube.rpc.carrier import CarrierOptions, ClientStream
from danube.rpc.grpc.server import EOF
from danube.rpc.inbox import Inbox
from danube.runtime.tasks import TaskScope, is_being_cancelled
from danube.wire.status import ERROR_CODE_KEY, error_from

_StreamCall: TypeAlias = aio.UnaryStreamCall[bytes, bytes] | aio.StreamStreamCall[bytes, bytes]

_REFUSAL_WAIT_S = 0.005
"""grpc.aio tells of a refusal twice: as empty headers and, a moment later, as the status."""
_STATUS_WAIT_S = 5.0
"""Wait for the reason why a message could not be sent, which follows within a moment."""


class GrpcChannel:
    """A client's connection to one address."""

    def __init__(self, address: str, channel: aio.Channel, options: CarrierOptions) -> None:
        self.address = address
        self.options = options
        self.tasks = TaskScope(f"channel to {address}")
        self.closed = False
        self._lost: str | None = None
        self._channel = channel
        self._methods = dict[str, aio.UnaryUnaryMultiCallable[bytes, bytes]]()  # one for each method of the protos

    async def call(
        self, path: str, request: bytes, *, timeout_s: float | None = None, metadata: Sequence[tuple[str, str]] = ()
    ) -> bytes:
        self._check_open()
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = self._channel.unary_unary(path, None, None)
        try:
            return await method(request, timeout=timeout_s, metadata=tuple(metadata))
        except aio.AioRpcError as error:
            raise _error_of(error, self.address) from error
        except asyncio.CancelledError:
            if not self.closed or is_being_cancelled():
                raise
            raise self.closed_error() from None

    def stream(
        self, path: str, *, timeout_s: float | None = None, metadata: Sequence[tuple[str, str]] = ()
    ) -> ClientStream:
        self._check_open()
        call = self._channel.stream_stream(path, None, None)(None, timeout=timeout_s, metadata=tuple(metadata))
        return GrpcClientStream(self, call)

    def server_stream(
        self,
        path: str,
        request: bytes,
        *,
        timeout_s: float | None = None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> ClientStream:
        self._check_open()
        call = self._channel.unary_stream(path, None, None)(request, timeout=timeout_s, metadata=tuple(metadata))
        return GrpcClientStream(self, call)

    async def close(self, lost: str | None = None) -> None:
        self.closed = True
        self._lost = self._lost or lost
        await self._channel.close(None)
        await self.tasks.close()

    def closed_error(self) -> DanubeError:
        """The error of a call whose channel is closed under it."""
        if self._lost is not None:
            return errors.BrokerUnreachableError(self._lost)
        return errors.CancelledError(f"the channel to {self.address} was closed at this end")

    def _check_open(self) -> None:
        if self.closed:
            raise self.closed_error()


class GrpcClientStream:
    """The asking end of one stream over gRPC.

    Cancelling a read of grpc.aio's drops the call, so a task of its own reads into an inbox. It begins with the first
    `send`: of a stream that nobody reads, gRPC does not tell how it ended, and may hold up a write to it for ever.
    """

    def __init__(self, channel: GrpcChannel, call: _StreamCall) -> None:
        self._channel = channel
        self._call = call
        self._inbox = Inbox(channel.options)
        self._reads = False
        self._half_closed = isinstance(call, aio.UnaryStreamCall)

    async def send(self, message: bytes) -> None:
        if self._half_closed:
            raise errors.InvalidRequestError("the stream was half-closed: nothing more can be sent on it")
        self._start_reading()
        try:
            sent = not self._call.done() and await _send(self._call, message)
        except asyncio.CancelledError:
            self.cancel()
            raise
        if not sent:
            await self._raise_if_failed()
            raise errors.UnavailableError("the server ended the stream: open a new one")

    async def half_close(self) -> None:
        self._half_closed = True
        if isinstance(self._call, aio.StreamStreamCall):
            with suppress(aio.AioRpcError, aio.InternalError):
                await self._call.done_writing()

    async def opened(self) -> None:
        await self._call.initial_metadata()
        with suppress(TimeoutError):
            async with asyncio.timeout(_REFUSAL_WAIT_S):
                await self._call.code()
        if self._call.done():
            await self._raise_if_failed()

    async def receive(self) -> bytes | None:
        self._start_reading()
        return await self._inbox.get()

    def cancel(self) -> None:
        self._call.cancel()
        self._inbox.drop(errors.CancelledError("the stream was cancelled at this end"))

    def _start_reading(self) -> None:
        if self._reads:
            return
        self._reads = True
        if self._channel.closed:
            self._inbox.end(self._channel.closed_error())
            return
        reader = self._channel.tasks.spawn(self._read(), "stream reader")
        reader.add_done_callback(lambda _: self._inbox.end(self._channel.closed_error()))

    async def _read(self) -> None:
        try:
            while (message := await self._call.read()) is not EOF:
                self._inbox.put(cast("bytes", message))
                while self._inbox.full and not self._inbox.ended:
                    await self._inbox.changed()
            self._inbox.end(None)
        except aio.AioRpcError as error:
            self._inbox.end(_error_of(error, self._channel.address))

    async def _raise_if_failed(self) -> None:
        self._inbox.raise_if_failed()
        if self._channel.closed:
            raise self._channel.closed_error()
        async with asyncio.timeout(_STATUS_WAIT_S):
            code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            headers, trailers = await self._call.initial_metadata(), await self._call.trailing_metadata()
            raise _error(self._channel.address, code, await self._call.details(), (headers, trailers))


async def _send(call: _StreamCall, message: bytes) -> bool:
    """Write a message; False when the stream has ended, for the reason that the call's status tells.

    `call.write` would put INTERNAL in the place of the status with which the server has just ended the stream.
    """
    inner = cast("Any", call)
    await inner._metadata_sent.wait()  # noqa: SLF001 - there is no public way around the above
    try:
        await inner._cython_call.send_serialized_message(message)  # noqa: SLF001 - there is no public way around the above
    except aio.InternalError:
        return False
    return True


def _error_of(error: aio.AioRpcError, address: str) -> DanubeError:
    details, metadata = error.details(), (error.initial_metadata(), error.trailing_metadata())
    return _error(address, error.code(), details, metadata)


def _error(address: str, code: grpc.StatusCode, details: str | None, metadata: tuple[object, object]) -> DanubeError:
    """Our error for gRPC's: by the stable code where the peer sent one."""
    headers, trailers = (dict(cast("Iterable[tuple[str, str | bytes]]", pairs or ())) for pairs in metadata)
    error_code = trailers.get(ERROR_CODE_KEY)
    if isinstance(error_code, str):
        return error_from(_number(code), details or "", error_code)
    if code is grpc.StatusCode.UNAVAILABLE and not (headers or trailers):
        return errors.BrokerUnreachableError(f"cannot reach {address}: {details}")
    if code is grpc.StatusCode.CANCELLED and not (headers or trailers):
        # grpc.aio ends the calls under way so when the server stops; a call that this end cancels raises instead.
        return errors.BrokerUnreachableError(f"{address} ended the call before it answered: {details}")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.DeadlineExceededError(f"no answer from {address} in time")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        details = "it has no such call; a broker has one port for clients (6650) and one for administration (50051)"
    return error_from(_number(code), f"{address} answered {code.name}: {details}")


def _number(code: grpc.StatusCode) -> int:
    return cast("tuple[int, str]", code.value)[0]

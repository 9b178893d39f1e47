"""One unary call at a gRPC server.

grpc.aio runs a coroutine for each call: here it asks the handler, and waits only where the answer comes later. A call
object never keeps grpc's context past its end: the context keeps the call open in gRPC's core, and a server cannot stop
while one is.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from danube.model import errors
from danube.rpc.answer import PendingAnswer, status_for
from danube.rpc.carrier import Caller, UnaryHandler
from danube.rpc.grpc.context import AbortError, Context, ServerSide, abort, caller_of, receive_request, without_frames
from danube.wire.status import Status, status_of

_PEER_GONE = status_of(errors.CancelledError("the peer left"))
_UNKNOWN_CALLER = Caller(address="unknown")


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
        """The caller; `unknown` when it is asked for the first time after the answer."""
        if self._caller is None:
            self._caller = _UNKNOWN_CALLER if self._context is None else caller_of(self._context, self._side)
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


def unary_method(
    path: str, handler: UnaryHandler, side: ServerSide
) -> Callable[[object, Context], Coroutine[Any, Any, bytes]]:
    """The coroutine function that grpc.aio runs for each call of `handler`."""

    async def run(_requests: object, context: Context) -> bytes:
        try:
            return await answered(context)
        except AbortError as error:
            del _requests, context
            raise without_frames(error) from None

    async def answered(context: Context) -> bytes:
        request = await receive_request(context, path, side)
        call = GrpcCall(path, context, side)
        outcome: bytes | Status | None
        side.active += 1
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
        finally:
            side.ended()
        call.detach(outcome)
        if isinstance(outcome, Status):
            await abort(context, outcome)
        return outcome

    return run

"""The context of a gRPC call: caller, request and abort, which is all that handlers need of grpc.aio."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, cast
from urllib.parse import unquote
from weakref import WeakValueDictionary

import grpc
from grpc import aio

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import RPC_REQUESTS_ARRIVING_MAX
from danube.rpc.answer import status_for
from danube.rpc.carrier import Caller, CarrierOptions
from danube.rpc.stream_memory import StreamMemory
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.tasks import TaskScope, Wakeup
from danube.wire.status import ERROR_CODE_KEY, Status

Context: TypeAlias = aio.ServicerContext[bytes, bytes]

HALF_CLOSE_WAIT_S = 0.02
"""To grpc.aio a peer that left looks like one that half-closed, until a moment later."""
AbortError = aio.AbortError
"""Error that gRPC raises through a handler that ended its call with a failure."""
EOF: object = cast("Any", aio).EOF
"""Value that grpc.aio reads after the last message; its type stubs leave it out."""
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
    """Calls and streams whose handlers may still be told of something."""
    changed: Wakeup = field(default_factory=Wakeup)
    """Notified when a call ended and none is left."""
    turns: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = field(default_factory=WeakValueDictionary)
    """For requests on their way in, by connection and method."""

    def ended(self) -> None:
        """Count one call less."""
        self.active -= 1
        if not self.active:
            self.changed.notify()


async def abort(context: Context, status: Status) -> NoReturn:
    """End the call with a status; gRPC sends it without headers where none were sent."""
    await context.abort(_CODES[status.code], status.message, ((ERROR_CODE_KEY, status.error_code),))


def without_frames(error: AbortError) -> AbortError:
    """The error to raise on, out of a function that has deleted its context.

    gRPC keeps the error with the call. The frames it went through would keep the call, its stream and what is queued on
    that, until the garbage collector comes by.
    """
    return error.with_traceback(None)


async def receive_request(context: Context, path: str, side: ServerSide) -> bytes:
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
        await sleep_for(side.clock, HALF_CLOSE_WAIT_S)
        await abort(context, status_for(InvalidRequestError("the call has no message: send one"), path))
    return request


def caller_of(context: Context, side: ServerSide) -> Caller:
    """The caller. Only while the call is under way: gRPC's core crashes when it is asked later."""
    metadata = _text_metadata(context)
    return Caller(
        address=_peer_address(context.peer()),
        user_agent=metadata.pop("user-agent", ""),
        metadata=metadata,
        certificate_name=_certificate_name(context) if side.secure else None,
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

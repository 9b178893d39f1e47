"""The shapes that admin calls have: decode what is wanted, ask `control/`, encode what it answers."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import UnaryCall, UnaryHandler
from danube.wire import encode_admin

Wanted = TypeVar("Wanted")
Answer = TypeVar("Answer")


def answer_now(
    decode: Callable[[bytes], Wanted], ask: Callable[[Wanted], Answer], encode: Callable[[Answer], bytes]
) -> UnaryHandler:
    """A call that is answered at once, from memory."""

    def handle(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        return encode(ask(decode(request)))

    return handle


def answer_later(
    context: ServiceContext,
    decode: Callable[[bytes], Wanted],
    ask: Callable[[Wanted], Awaitable[Answer]],
    encode: Callable[[Answer], bytes],
) -> UnaryHandler:
    """A call whose answer has to be waited for; what is wanted is decoded, and refused, at once."""

    def handle(request: bytes, call: UnaryCall) -> None:
        wanted = decode(request)

        async def work() -> bytes:
            return encode(await ask(wanted))

        context.answer_later(call, "admin call", work)

    return handle


def answer_change(
    context: ServiceContext, decode: Callable[[bytes], Wanted], change: Callable[[Wanted], Awaitable[None]]
) -> UnaryHandler:
    """A call that changes something and answers that it did."""
    return answer_later(context, decode, change, lambda _: encode_admin.success())


def making_room(
    context: ServiceContext, ask: Callable[[Wanted], Awaitable[Answer]]
) -> Callable[[Wanted], Awaitable[Answer]]:
    """The same of what deletes: on a full disk it may use the room that is kept back for it."""

    async def work(wanted: Wanted) -> Answer:
        await context.make_room()
        return await ask(wanted)

    return work

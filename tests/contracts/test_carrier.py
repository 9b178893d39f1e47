"""What every carrier promises: unary calls, errors, servers and channels. Streams are in `test_carrier_streams`."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from danube.model import errors
from danube.model.errors import DanubeError
from danube.rpc.carrier import Caller, Channel, Service, UnaryCall, UnaryHandler
from danube.rpc.options import CarrierOptions
from danube.wire.status import status_of
from tests.contracts.conftest import KIB, CarrierNetwork

PATH = "/test.Things/Do"
SOON_S = 5.0


def things(handler: UnaryHandler) -> Service:
    return Service("test.Things", unary={"Do": handler})


def raising(error: Exception) -> UnaryHandler:
    def handle(request: bytes, call: UnaryCall) -> bytes | None:
        raise error

    return handle


class Held:
    """A handler that answers later: it keeps its calls and counts how often each was told of its end."""

    def __init__(self) -> None:
        self.calls: list[UnaryCall] = []
        self.arrived = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.cancellations = 0

    def __call__(self, request: bytes, call: UnaryCall) -> bytes | None:
        call.on_cancel(self._on_cancel)
        self.calls.append(call)
        self.arrived.set()
        return None

    async def call(self) -> UnaryCall:
        async with asyncio.timeout(SOON_S):
            await self.arrived.wait()
        return self.calls[0]

    async def end(self) -> None:
        async with asyncio.timeout(SOON_S):
            await self.cancelled.wait()

    def _on_cancel(self) -> None:
        self.cancellations += 1
        self.cancelled.set()


def start(channel: Channel, request: bytes = b"", timeout_s: float | None = None) -> "asyncio.Task[bytes]":
    return asyncio.create_task(ask(channel, request, timeout_s))


async def ask(channel: Channel, request: bytes = b"", timeout_s: float | None = None) -> bytes:
    async with asyncio.timeout(SOON_S):
        return await channel.call(PATH, request, timeout_s=timeout_s)


def public_errors() -> list[type[DanubeError]]:
    found, left = [], [DanubeError]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        found += [kind] if kind.public else []
    return sorted(found, key=lambda kind: kind.__name__)


# Answers


async def test_answer_returned_at_once_reaches_the_client(network: CarrierNetwork) -> None:
    channel = await network.channel_to(things(lambda request, call: request[::-1]))
    assert await ask(channel, b"abc") == b"cba"


async def test_answer_given_later_reaches_the_client(network: CarrierNetwork) -> None:
    held = Held()
    asked = start(await network.channel_to(things(held)))
    (await held.call()).reply(b"later")
    assert await asked == b"later"


async def test_answer_given_from_another_callback_reaches_the_client(network: CarrierNetwork) -> None:
    def handle(request: bytes, call: UnaryCall) -> None:
        asyncio.get_running_loop().call_soon(call.reply, b"soon")

    assert await ask(await network.channel_to(things(handle))) == b"soon"


async def test_answer_given_by_reply_before_the_handler_returns_counts(network: CarrierNetwork) -> None:
    channel = await network.channel_to(things(lambda request, call: call.reply(b"now")))
    assert await ask(channel) == b"now"


async def test_empty_request_and_empty_answer_are_messages(network: CarrierNetwork) -> None:
    requests: list[bytes] = []

    def handle(request: bytes, call: UnaryCall) -> bytes:
        requests.append(request)
        return b""

    assert (await ask(await network.channel_to(things(handle))), requests) == (b"", [b""])


async def test_empty_answer_given_later_ends_the_call(network: CarrierNetwork) -> None:
    held = Held()
    asked = start(await network.channel_to(things(held)))
    (await held.call()).reply(b"")
    assert await asked == b""


async def test_only_the_first_answer_counts(network: CarrierNetwork) -> None:
    def handle(request: bytes, call: UnaryCall) -> None:
        call.reply(b"first")
        call.reply(b"second")
        call.fail(errors.NotFoundError("third"))

    assert await ask(await network.channel_to(things(handle))) == b"first"


async def test_many_calls_at_once_get_each_its_own_answer(network: CarrierNetwork) -> None:
    held = Held()
    echoing = Service("test.Things", unary={"Do": lambda request, call: request if request[-1] % 2 else held(b"", call)})
    channel = await network.channel_to(echoing)
    asked = [start(channel, bytes([number])) for number in range(200)]
    while len(held.calls) < 100:
        held.arrived.clear()
        await held.call()
        async with asyncio.timeout(SOON_S):
            await held.arrived.wait() if len(held.calls) < 100 else None
    for call in held.calls:
        call.reply(b"even")
    assert await asyncio.gather(*asked) == [bytes([number]) if number % 2 else b"even" for number in range(200)]

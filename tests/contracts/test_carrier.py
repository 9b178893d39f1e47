"""What every carrier promises: unary calls, errors, servers and channels. Streams are in `test_carrier_streams`."""

import asyncio
import logging
from contextlib import suppress

import pytest

from danube.model import errors
from danube.model.errors import DanubeError
from danube.model.limits import broker as limits
from danube.rpc.carrier import Caller, CarrierOptions, Channel, Service, UnaryCall, UnaryHandler
from danube.testing.patience import PATIENCE_S
from tests.contracts.carrier_network import CarrierNetwork

PATH = "/test.Things/Do"
SOON_S = PATIENCE_S
DEADLINES_S = (0.1, 1.0, 10.0)
ARRIVES_S = 1.0
"""Within which a call arrives, if it left before its deadline."""


def things(handler: UnaryHandler) -> Service:
    return Service("test.Things", unary={"Do": handler})


def answering(response: bytes) -> UnaryHandler:
    def handle(request: bytes, call: UnaryCall) -> bytes:
        return response

    return handle


def noting(callers: list[Caller]) -> UnaryHandler:
    def handle(request: bytes, call: UnaryCall) -> bytes:
        callers.append(call.caller)
        return b""

    return handle


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
    """What the wire has a code for; a room's own refinement of one arrives as the one it refines."""
    found, left = [], [DanubeError]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        found += [kind] if kind.public and kind.__module__ == DanubeError.__module__ else []
    return sorted(found, key=lambda kind: kind.__name__)


# Answers


async def test_answer_returned_at_once_reaches_the_client(network: CarrierNetwork) -> None:
    channel = await network.channel_to(things(lambda request, _: request[::-1]))
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
    channel = await network.channel_to(things(lambda _, call: call.reply(b"now")))
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
    def handle(request: bytes, call: UnaryCall) -> bytes | None:
        if request[0] % 2:
            return request
        asyncio.get_running_loop().call_soon(call.reply, request)
        return None

    channel = await network.channel_to(things(handle))
    requests = [bytes([number]) for number in range(200)]
    assert await asyncio.gather(*(ask(channel, request) for request in requests)) == requests


# Who asks


async def test_caller_is_known_to_the_handler(network: CarrierNetwork) -> None:
    callers: list[Caller] = []
    channel = await network.channel_to(things(noting(callers)))
    await channel.call(PATH, b"", metadata=[("x-token", "secret"), ("x-other", "1")])
    (caller,) = callers
    assert (dict(caller.metadata), caller.certificate_name) == ({"x-token": "secret", "x-other": "1"}, None)
    assert caller.user_agent
    assert caller.address.startswith(("memory:", "127.0.0.1:"))


async def test_one_server_serves_several_services_and_methods(network: CarrierNetwork) -> None:
    first = Service("test.First", unary={"A": answering(b"1a"), "B": answering(b"1b")})
    channel = await network.channel_to(first, Service("test.Second", unary={"A": answering(b"2a")}))
    paths = ("/test.First/A", "/test.First/B", "/test.Second/A")
    assert [await channel.call(path, b"") for path in paths] == [b"1a", b"1b", b"2a"]


# Failures


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.__name__)
async def test_raised_error_keeps_its_class_and_text(network: CarrierNetwork, kind: type[DanubeError]) -> None:
    channel = await network.channel_to(things(raising(kind("no \u2014 try another"))))
    with pytest.raises(DanubeError) as caught:
        await ask(channel)
    assert (type(caught.value), caught.value.code, str(caught.value)) == (kind, kind.code, "no \u2014 try another")


async def test_error_given_later_keeps_its_class(network: CarrierNetwork) -> None:
    held = Held()
    asked = start(await network.channel_to(things(held)))
    (await held.call()).fail(errors.TopicNotServedError("moved"))
    with pytest.raises(errors.TopicNotServedError, match="moved"):
        await asked


@pytest.mark.parametrize("error", [ValueError("a secret"), errors.StorageError("a secret path")], ids=repr)
async def test_error_that_may_not_cross_is_opaque_and_logged(
    network: CarrierNetwork, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    channel = await network.channel_to(things(raising(error)))
    with pytest.raises(errors.InternalError) as caught:
        await ask(channel)
    assert "secret" not in str(caught.value)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert (record.exc_info is not None and record.exc_info[1] is error, PATH in record.getMessage()) == (True, True)


async def test_error_text_longer_than_peers_take_is_cut(network: CarrierNetwork) -> None:
    channel = await network.channel_to(things(raising(errors.NotFoundError("x" * 100_000))))
    with pytest.raises(errors.NotFoundError) as caught:
        await ask(channel)
    assert str(caught.value) == "x" * limits.RPC_STATUS_MESSAGE_CHARS_MAX


@pytest.mark.parametrize("path", ["/test.Things/Undo", "/test.Others/Do"])
async def test_unknown_method_and_service_are_unsupported(network: CarrierNetwork, path: str) -> None:
    channel = await network.channel_to(things(answering(b"")))
    with pytest.raises(errors.UnsupportedError):
        await channel.call(path, b"")


async def test_nobody_listening_is_unreachable_and_names_the_address(network: CarrierNetwork) -> None:
    server = await network.serve(things(answering(b"")))
    await server.stop(0)
    with pytest.raises(errors.BrokerUnreachableError, match=server.address):
        await ask(network.connect(server))


# Limits


async def test_request_above_the_receive_limit_fails_and_the_server_goes_on(network: CarrierNetwork) -> None:
    network.use(CarrierOptions(receive_bytes_max=10_000))
    channel = await network.channel_to(things(lambda request, _: b"%d" % len(request)))
    with pytest.raises(errors.LimitReachedError):
        await ask(channel, bytes(10_001))
    assert await ask(channel, bytes(10_000)) == b"10000"


async def test_answer_above_the_clients_receive_limit_fails_and_the_channel_goes_on(network: CarrierNetwork) -> None:
    network.use(CarrierOptions(receive_bytes_max=10_000))
    channel = await network.channel_to(things(lambda request, _: bytes(int(request))))
    with pytest.raises(errors.LimitReachedError):
        await ask(channel, b"10001")
    assert len(await ask(channel, b"10000")) == 10_000


async def test_metadata_above_the_limit_fails_and_the_server_goes_on(network: CarrierNetwork) -> None:
    channel = await network.channel_to(things(answering(b"fine")))
    with pytest.raises(errors.LimitReachedError):
        await channel.call(PATH, b"", metadata=[("x-large", "x" * limits.RPC_METADATA_BYTES_MAX)])
    assert await ask(channel) == b"fine"


async def test_call_above_the_concurrency_limit_is_refused_until_one_ends(network: CarrierNetwork) -> None:
    network.use(CarrierOptions(concurrent_calls_max=1))
    held = Held()
    server = await network.serve(things(held))
    first = start(network.connect(server))
    call = await held.call()
    with pytest.raises(errors.LimitReachedError):
        await ask(network.connect(server))
    call.reply(b"done")
    assert await first == b"done"


# Ends that come early


async def passed_deadline(held: Held, channel: Channel) -> None:
    """Have the deadline of a call pass that the handler has heard of; the shortest is over before on a slow machine."""
    for timeout_s in DEADLINES_S:
        with pytest.raises(errors.DeadlineExceededError):
            await ask(channel, timeout_s=timeout_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVES_S):
                await held.arrived.wait()
        if held.calls:
            break
    await held.end()


async def test_passed_deadline_fails_the_call_and_tells_the_handler_once(network: CarrierNetwork) -> None:
    held = Held()
    await passed_deadline(held, await network.channel_to(things(held)))
    assert held.cancellations == len(held.calls)


async def test_cancelled_call_tells_the_handler_once(network: CarrierNetwork) -> None:
    held = Held()
    asked = start(await network.channel_to(things(held)))
    await held.call()
    asked.cancel()
    await held.end()
    assert held.cancellations == 1
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_answers_after_the_end_are_ignored(network: CarrierNetwork, caplog: pytest.LogCaptureFixture) -> None:
    held = Held()
    await passed_deadline(held, await network.channel_to(things(held)))
    held.calls[0].reply(b"late")
    held.calls[0].fail(errors.NotFoundError("later"))
    assert (caplog.records, held.cancellations) == ([], len(held.calls))


async def test_callback_asked_for_after_the_peer_left_runs_at_once(network: CarrierNetwork) -> None:
    held = Held()
    asked = start(await network.channel_to(things(held)))
    call = await held.call()
    asked.cancel()
    await held.end()
    told: list[str] = []
    call.on_cancel(lambda: told.append("gone"))
    assert told == ["gone"]


async def test_answered_call_never_tells_of_a_cancel(network: CarrierNetwork) -> None:
    held = Held()
    channel = await network.channel_to(things(held))
    asked = start(channel)
    (await held.call()).reply(b"done")
    assert await asked == b"done"
    held.calls[0].on_cancel(lambda: pytest.fail("the call was answered"))
    await channel.close()
    assert held.cancellations == 0


async def test_failing_cancel_callback_is_logged_and_the_others_run(
    network: CarrierNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()

    def fail() -> None:
        raise ValueError("in the callback")

    def handle(request: bytes, call: UnaryCall) -> bytes | None:
        call.on_cancel(fail)
        return held(request, call)

    asked = start(await network.channel_to(things(handle)))
    await held.call()
    asked.cancel()
    await held.end()
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_closing_the_channel_fails_what_is_under_way_and_what_follows(network: CarrierNetwork) -> None:
    held = Held()
    channel = await network.channel_to(things(held))
    asked = start(channel)
    await held.call()
    await channel.close()
    with pytest.raises(errors.CancelledError):
        await asked
    await held.end()
    with pytest.raises(errors.CancelledError):
        await ask(channel)
    await channel.close()


# Servers


async def test_address_in_use_says_what_to_do(network: CarrierNetwork) -> None:
    server = await network.serve(things(answering(b"")))
    with pytest.raises(errors.SettingsError, match="choose another port") as caught:
        await network.serve(address=server.address)
    assert server.address in str(caught.value)


@pytest.mark.parametrize("address", ["", "nowhere", "host:", ":1", "host:x", "host:65536", "::1:80"])
async def test_malformed_address_says_what_one_looks_like(network: CarrierNetwork, address: str) -> None:
    with pytest.raises(errors.SettingsError, match=r"host:port|brackets"):
        await network.serve(address=address)


async def test_two_servers_on_port_0_get_ports_of_their_own(network: CarrierNetwork) -> None:
    first, second = await network.serve(), await network.serve()
    assert first.address != second.address
    assert not first.address.endswith(":0")


async def test_stopping_server_lets_calls_end_and_refuses_new_ones(network: CarrierNetwork) -> None:
    held = Held()
    server = await network.serve(things(held))
    asked = start(network.connect(server))
    call = await held.call()
    stopping = asyncio.create_task(server.stop(SOON_S))
    await asyncio.sleep(0)  # so that stopping has begun
    with pytest.raises(errors.UnavailableError):
        await ask(network.connect(server))
    call.reply(b"done")
    assert await asked == b"done"
    await stopping
    assert (len(held.calls), held.cancellations) == (1, 0)


async def test_stopping_server_cancels_what_outlives_the_grace(network: CarrierNetwork) -> None:
    held = Held()
    server = await network.serve(things(held))
    asked = start(network.connect(server))
    await held.call()
    await server.stop(0.05)
    await held.end()
    with pytest.raises(errors.BrokerUnreachableError):
        await asked
    assert held.cancellations == 1


async def test_stopping_without_grace_and_stopping_twice_is_fine(network: CarrierNetwork) -> None:
    held = Held()
    server = await network.serve(things(held))
    asked = start(network.connect(server))
    await held.call()
    await asyncio.gather(server.stop(0), server.stop(SOON_S))
    await server.stop(0)
    with pytest.raises(errors.UnavailableError):
        await asked
    assert held.cancellations == 1


async def test_channel_works_again_when_its_server_is_back(network: CarrierNetwork) -> None:
    server = await network.serve(things(answering(b"old")))
    channel = network.connect(server)
    assert await ask(channel) == b"old"
    await server.stop(0)
    with pytest.raises(errors.BrokerUnreachableError):
        await ask(channel)
    await network.serve(things(answering(b"new")), address=server.address)
    assert await until_reached(channel) == b"new"


async def until_reached(channel: Channel) -> bytes:
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                return await channel.call(PATH, b"")
            except errors.BrokerUnreachableError:
                continue

"""What the carrier in memory adds to the contract: simulated time, addresses of its own, the same run twice."""

import asyncio

import pytest

from danube.model.errors import DeadlineExceededError, UnavailableError
from danube.rpc.carrier import ServerStream, Service, StreamHandler, UnaryCall
from danube.rpc.memory.carrier import USER_AGENT, MemoryCarrier
from danube.runtime.clock import SystemClock
from danube.testing.simulated.clock import SimClock


def silent(request: bytes, call: UnaryCall) -> bytes | None:
    return None


SILENT = Service("test.Things", unary={"Do": silent})


async def test_port_0_gets_the_next_free_number() -> None:
    carrier = MemoryCarrier(SystemClock())
    await carrier.serve("memory:2", [])
    servers = [await carrier.serve("memory:0", []) for _ in range(2)]
    assert [server.address for server in servers] == ["memory:1", "memory:3"]


async def test_address_is_free_again_once_its_server_stopped() -> None:
    carrier = MemoryCarrier(SystemClock())
    first = await carrier.serve("memory:1", [])
    await first.stop(0)
    second = await carrier.serve("memory:1", [])
    await first.stop(0)
    assert carrier.server_at("memory:1") is second


async def test_two_carriers_do_not_see_each_other() -> None:
    server = await MemoryCarrier(SystemClock()).serve("memory:1", [])
    with pytest.raises(UnavailableError, match="nobody listens"):
        await MemoryCarrier(SystemClock()).connect(server.address).call("/test.Things/Do", b"")


async def test_deadline_passes_in_simulated_time() -> None:
    clock = SimClock()
    carrier = MemoryCarrier(clock)
    server = await carrier.serve("memory:1", [SILENT])
    asked = asyncio.create_task(carrier.connect(server.address).call("/test.Things/Do", b"", timeout_s=3600.0))
    await clock.run_for(3599.0)
    assert not asked.done()
    await clock.run_for(2.0)
    with pytest.raises(DeadlineExceededError, match="3600 s"):
        await asked


async def test_grace_passes_in_simulated_time() -> None:
    clock = SimClock()
    carrier = MemoryCarrier(clock)
    server = await carrier.serve("memory:1", [SILENT])
    asked = asyncio.create_task(carrier.connect(server.address).call("/test.Things/Do", b""))
    await clock.run_for(0.0)
    stopping = asyncio.create_task(server.stop(60.0))
    await clock.run_for(59.0)
    assert not stopping.done()
    await clock.run_for(2.0)
    await stopping
    with pytest.raises(UnavailableError):
        await asked


async def test_ended_calls_leave_no_timer_behind() -> None:
    clock = SimClock()
    carrier = MemoryCarrier(clock)
    server = await carrier.serve("memory:1", [Service("test.Things", unary={"Do": lambda request, _: request})])
    await carrier.connect(server.address).call("/test.Things/Do", b"", timeout_s=60.0)
    await server.stop(60.0)
    assert clock.next_timer_s() is None


class Noting:
    """A handler that writes into one list, whichever stream it is of."""

    def __init__(self, stream: ServerStream, notes: list[str], number: int) -> None:
        self._stream = stream
        self._notes = notes
        self._number = number

    def on_message(self, message: bytes) -> None:
        self._notes.append(f"{self._number} got {message.decode()}")
        self._stream.write(message)

    def on_half_close(self) -> None:
        self._notes.append(f"{self._number} half-closed")
        self._stream.finish()

    def on_ready(self) -> None:
        self._notes.append(f"{self._number} ready")

    def on_cancel(self) -> None:
        self._notes.append(f"{self._number} cancelled")


async def converse() -> list[str]:
    notes: list[str] = []
    numbers = iter(range(10))

    def open_stream(stream: ServerStream) -> StreamHandler:
        return Noting(stream, notes, next(numbers))

    carrier = MemoryCarrier(SimClock())
    await carrier.serve("memory:1", [Service("test.Things", streams={"Talk": open_stream})])
    streams = [carrier.connect("memory:1").stream("/test.Things/Talk") for _ in range(5)]
    for text in (b"a", b"b"):
        for stream in streams:
            await stream.send(text)
    streams[2].cancel()
    for stream in streams:
        await stream.half_close()
    for number, stream in enumerate(streams):
        if number != 2:
            notes.append(f"{number} answered {await stream.receive()!r}")
    return notes


async def test_two_runs_that_do_the_same_see_the_same_order() -> None:
    assert await converse() == await converse()


async def test_callers_name_the_carrier() -> None:
    seen: list[tuple[str, str]] = []

    def handle(request: bytes, call: UnaryCall) -> bytes:
        seen.append((call.caller.address, call.caller.user_agent))
        return b""

    carrier = MemoryCarrier(SystemClock())
    server = await carrier.serve("memory:1", [Service("test.Things", unary={"Do": handle})])
    await carrier.connect(server.address).call("/test.Things/Do", b"")
    assert seen == [("memory", USER_AGENT)]

"""Connections in memory: what they add to the contract of carriers, and what they take from sockets."""

import asyncio

import pytest

from danube.model.errors import DeadlineExceededError, UnavailableError
from danube.rpc.carrier import ServerStream, Service, StreamHandler, UnaryCall
from danube.runtime.clock import SystemClock
from danube.testing.simulated.clock import SimClock, settle
from danube.testing.simulated.network import MemoryCarrier, connect


def silent(request: bytes, call: UnaryCall) -> bytes | None:
    return None


SILENT = Service("test.Things", unary={"Do": silent})
ECHO = Service("test.Things", unary={"Do": lambda request, _: request})


async def test_port_0_gets_the_next_free_number() -> None:
    carrier = MemoryCarrier(SystemClock())
    await carrier.serve("memory:2", [])
    servers = [await carrier.serve("memory:0", []) for _ in range(2)]
    assert [server.address for server in servers] == ["memory:1", "memory:3"]


async def test_address_is_free_again_once_its_server_stopped() -> None:
    carrier = MemoryCarrier(SystemClock())
    first = await carrier.serve("memory:1", [])
    await first.stop(0)
    second = await carrier.serve("memory:1", [ECHO])
    await first.stop(0)
    assert await carrier.connect(second.address).call("/test.Things/Do", b"here") == b"here"


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


async def test_closed_network_leaves_no_timer_behind() -> None:
    clock = SimClock()
    carrier = MemoryCarrier(clock)
    server = await carrier.serve("memory:1", [ECHO])
    channel = carrier.connect(server.address)
    await channel.call("/test.Things/Do", b"", timeout_s=60.0)
    await server.stop(60.0)
    await channel.close()
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


async def test_callers_have_a_number_each() -> None:
    seen: list[str] = []

    def handle(request: bytes, call: UnaryCall) -> bytes:
        seen.append(call.caller.address)
        return b""

    carrier = MemoryCarrier(SystemClock())
    server = await carrier.serve("memory:1", [Service("test.Things", unary={"Do": handle})])
    for _ in range(2):
        await carrier.connect(server.address).call("/test.Things/Do", b"")
    assert seen == ["memory:1", "memory:2"]


class Told(asyncio.Protocol):
    """An end that notes what its transport tells it."""

    def __init__(self) -> None:
        self.transport = asyncio.Transport()
        self.read = b""
        self.told: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.read += data

    def pause_writing(self) -> None:
        self.told.append("wait")

    def resume_writing(self) -> None:
        self.told.append("write again")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("closed" if exc is None else "cut")


def pair() -> tuple[Told, Told]:
    ends = Told(), Told()
    connect(*ends, ("memory", 1))
    return ends


async def test_what_is_written_arrives_in_a_later_turn_and_also_before_a_close() -> None:
    one, other = pair()
    one.transport.write(b"first ")
    one.transport.write(b"last")
    one.transport.close()
    assert not other.read
    await settle()
    assert (other.read, one.told, other.told) == (b"first last", ["closed"], ["closed"])


async def test_cut_connection_loses_what_was_not_read_and_the_other_end_is_told() -> None:
    one, other = pair()
    one.transport.write(b"lost")
    one.transport.abort()
    await settle()
    assert (other.read, one.told, other.told) == (b"", ["closed"], ["cut"])


async def test_writer_waits_while_the_other_end_does_not_read() -> None:
    one, other = pair()
    one.transport.set_write_buffer_limits(100)
    other.transport.pause_reading()
    one.transport.write(b"a" * 101)
    await settle()
    assert (one.told, other.read) == (["wait"], b"")
    other.transport.resume_reading()
    await settle()
    assert (one.told, len(other.read)) == (["wait", "write again"], 101)

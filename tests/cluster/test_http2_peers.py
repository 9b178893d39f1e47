"""Clients of other make against the engine: grpcio (aio and sync), grpclib, curl; at length grpc-js, grpc-go, tonic,
grpc-java, nghttp2.

And `h2spec`, which knows each rule of RFC 9113 and RFC 7541. What needs a compiler or a registry is `nightly`, and is
skipped with its reason where that cannot be had.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpclib.client import Channel as GrpclibChannel
from grpclib.const import Cardinality

from danube.model import errors
from danube.model.limits import http2 as limits
from danube.rpc.address import split_address
from danube.rpc.carrier import CarrierServer, ServerStream, Service, StreamHandler, UnaryCall
from danube.rpc.http2.carrier import Http2Carrier
from danube.rpc.http2.protocol.frames import FRAME_BYTES_DEFAULT
from danube.rpc.http2.protocol.heads import RequestHead
from danube.rpc.http2.protocol.streams import Stream
from danube.rpc.http2.server.connection import ServerConnection
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

ECHO, REFUSE, COUNT, TALK, HOLD = (f"/test.Peers/{name}" for name in ("Echo", "Refuse", "Count", "Talk", "Hold"))
LARGE = bytes(range(256)) * 12_000
PROGRAMS = Path(__file__).parent / "http2_peers"
BUILD_S = 600


class Counting:
    """Answers the numbers below the request, as decimal text."""

    def __init__(self, stream: ServerStream) -> None:
        self._stream = stream
        self._left: list[bytes] = []

    def on_message(self, message: bytes) -> None:
        self._left = [b"%d" % number for number in range(int(message))]
        self.on_ready()

    def on_half_close(self) -> None:
        return None

    def on_ready(self) -> None:
        while self._left and self._stream.room > 0:
            self._stream.write(self._left.pop(0))
        if not self._left:
            self._stream.finish()

    def on_cancel(self) -> None:
        return None


class Talking:
    """Answers each message with itself, and ends after the peer."""

    def __init__(self, stream: ServerStream) -> None:
        self._stream = stream
        stream.open()

    def on_message(self, message: bytes) -> None:
        self._stream.write(message)

    def on_half_close(self) -> None:
        self._stream.finish()

    def on_ready(self) -> None:
        return None

    def on_cancel(self) -> None:
        return None


def counting(stream: ServerStream) -> StreamHandler:
    return Counting(stream)


def talking(stream: ServerStream) -> StreamHandler:
    return Talking(stream)


def refuse(request: bytes, call: UnaryCall) -> bytes:
    raise errors.NotFoundError("no such thing \u2014 look again")


def hold(request: bytes, call: UnaryCall) -> None:
    return None


SERVICE = Service(
    "test.Peers",
    unary={"Echo": lambda request, _: request, "Refuse": refuse, "Hold": hold},
    server_streams={"Count": counting},
    streams={"Talk": talking},
)


@pytest.fixture
async def server() -> AsyncIterator[CarrierServer]:
    server = await Http2Carrier(SystemClock()).serve("127.0.0.1:0", [SERVICE])
    yield server
    await server.stop(0)


async def test_grpcio_aio(server: CarrierServer) -> None:
    async with aio.insecure_channel(server.address) as channel:
        echo = channel.unary_unary(ECHO, None, None)
        assert await asyncio.gather(*(echo(b"%d" % number) for number in range(500))) == [b"%d" % n for n in range(500)]
        assert await echo(LARGE) == LARGE
        numbers = [number async for number in channel.unary_stream(COUNT, None, None)(b"3000")]
        assert numbers == [b"%d" % number for number in range(3_000)]
        talk = channel.stream_stream(TALK, None, None)(None)
        for message in (b"a", LARGE, b""):
            await talk.write(message)
            assert await talk.read() == message
        await talk.done_writing()
        assert await talk.code() is grpc.StatusCode.OK
        with pytest.raises(aio.AioRpcError) as late:
            await channel.unary_unary(HOLD, None, None)(b"", timeout=0.2)
        with pytest.raises(aio.AioRpcError, match="no such thing \u2014 look again") as refused:
            await channel.unary_unary(REFUSE, None, None)(b"")
    assert (late.value.code(), refused.value.code()) == (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.NOT_FOUND)


async def test_grpcio_sync(server: CarrierServer) -> None:
    def ask() -> tuple[bytes, int, object]:
        with grpc.insecure_channel(server.address) as channel:
            echoed = channel.unary_unary(ECHO, None, None)(b"sync", timeout=PATIENCE_S)
            counted = sum(1 for _ in channel.unary_stream(COUNT, None, None)(b"1000", timeout=PATIENCE_S))
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(REFUSE, None, None)(b"", timeout=PATIENCE_S)
            return echoed, counted, refused.value.code()

    assert await asyncio.to_thread(ask) == (b"sync", 1_000, grpc.StatusCode.NOT_FOUND)


class Raw:
    """grpclib's codec for bytes as they are."""

    __content_subtype__ = "proto"

    def encode(self, message: bytes, message_type: object) -> bytes:
        return message

    def decode(self, data: bytes, message_type: object) -> bytes:
        return data


async def test_grpclib(server: CarrierServer) -> None:
    host, port = split_address(server.address)
    channel = GrpclibChannel(host, port, codec=Raw())  # type: ignore[arg-type]  # a codec by its methods
    try:
        for path, cardinality, request in (
            (ECHO, Cardinality.UNARY_UNARY, LARGE),
            (COUNT, Cardinality.UNARY_STREAM, b"100"),
        ):
            async with channel.request(path, cardinality, bytes, bytes) as stream:
                await stream.send_message(request, end=True)
                answers = [message async for message in stream]
            assert answers == ([LARGE] if path == ECHO else [b"%d" % number for number in range(100)])
    finally:
        channel.close()


async def run(*command: str, folder: Path | None = None) -> str:
    """The output of a program that must succeed."""
    program = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(BUILD_S):
        output, _ = await program.communicate()
    assert program.returncode == 0, output.decode(errors="replace")[-3_000:]
    return output.decode(errors="replace")


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed here")
    return found


async def built(*command: str, folder: Path | None = None) -> None:
    """Run a step that fetches from a registry; without one the test is skipped."""
    program = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(program.communicate(), BUILD_S)
    if program.returncode:
        pytest.skip(f"{' '.join(command[:3])} failed here: {output.decode(errors='replace')[-300:]}")


async def test_curl_is_told_that_the_port_speaks_grpc(server: CarrierServer) -> None:
    curl = needs("curl")
    for version in ("--http2-prior-knowledge", "--http1.1"):
        assert "gRPC" in await run(curl, "-s", version, f"http://{server.address}/")


REFUSAL_S = 0.2
"""Time in which h2spec sends the frames that belong together."""


def refuse_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer requests that are no gRPC a moment later.

    h2spec sends one, and then the frame whose fault it looks for. A stream that was answered meanwhile is closed, and
    such a frame is passed over (RFC 9113, 5.1), which h2spec takes for a failure.
    """
    refuse_at_once = ServerConnection._refuse_http

    def answer(end: ServerConnection, stream: Stream, head: RequestHead) -> None:
        if end.connection.streams.get(stream.id) is stream:
            refuse_at_once(end, stream, head)
            end.flush_soon()

    def wait(end: ServerConnection, stream: Stream, head: RequestHead) -> None:
        asyncio.get_running_loop().call_later(REFUSAL_S, answer, end, stream, head)

    monkeypatch.setattr(ServerConnection, "_refuse_http", wait)


@pytest.mark.nightly
async def test_h2spec_finds_nothing(server: CarrierServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = needs("go")
    environment = ["env", f"GOBIN={tmp_path}", "GOFLAGS=-mod=mod", go]
    await built(*environment, "install", "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible")
    refuse_later(monkeypatch)
    # Its headers that are too large for a frame have 17 KiB, whatever SETTINGS_MAX_FRAME_SIZE is.
    monkeypatch.setattr(limits, "HTTP2_FRAME_BYTES_MAX", FRAME_BYTES_DEFAULT)
    host, port = split_address(server.address)
    output = await run(str(tmp_path / "h2spec"), "-h", host, "-p", str(port), "--strict", "-o", "10")
    assert "146 tests, 146 passed, 0 skipped, 0 failed" in output


@pytest.mark.nightly
async def test_h2load_and_nghttp(server: CarrierServer, tmp_path: Path) -> None:
    h2load, nghttp = needs("h2load"), needs("nghttp")
    body = tmp_path / "body"
    body.write_bytes(b"\0" + (1_024).to_bytes(4, "big") + bytes(1_024))
    grpc_headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    load = ["-n", "20000", "-c", "4", "-m", "64", "-d", str(body), *grpc_headers]
    output = await run(h2load, *load, f"http://{server.address}{ECHO}")
    assert "20000 succeeded, 0 failed, 0 errored, 0 timeout" in output
    assert "grpc-status: 0" in await run(nghttp, "-v", "-d", str(body), *grpc_headers, f"http://{server.address}{ECHO}")


@pytest.mark.nightly
async def test_grpc_js(server: CarrierServer, tmp_path: Path) -> None:
    node, npm = needs("node"), needs("npm")
    (tmp_path / "peer.js").write_text((PROGRAMS / "peer.js").read_text())
    await built(npm, "install", "--silent", "--no-audit", "@grpc/grpc-js@1", folder=tmp_path)
    assert await run(node, "peer.js", server.address, folder=tmp_path) == "2000 echoed, 1000 counted, refused with 5\n"


@pytest.mark.nightly
async def test_grpc_go(server: CarrierServer, tmp_path: Path) -> None:
    go = needs("go")
    (tmp_path / "peer.go").write_text((PROGRAMS / "peer.go").read_text())
    (tmp_path / "go.mod").write_text("module peer\n\ngo 1.22\n")
    await built(go, "get", "google.golang.org/grpc@v1.64.0", folder=tmp_path)
    await built(go, "build", "-o", "peer", ".", folder=tmp_path)
    assert await run("./peer", server.address, folder=tmp_path) == "2000 echoed, 1000 counted, refused with NotFound\n"


@pytest.mark.nightly
async def test_tonic(server: CarrierServer, tmp_path: Path) -> None:
    cargo = needs("cargo")
    shutil.copytree(PROGRAMS / "tonic", tmp_path, dirs_exist_ok=True)
    await built(cargo, "fetch", "--quiet", folder=tmp_path)
    await run(cargo, "build", "--quiet", "--offline", folder=tmp_path)
    target = Path(os.environ.get("CARGO_TARGET_DIR", tmp_path / "target"))
    told = await run(str(target / "debug" / "peer"), server.address)
    assert told == "2000 echoed, 1000 counted, refused with NotFound\n"


@pytest.mark.nightly
async def test_grpc_java(server: CarrierServer, tmp_path: Path) -> None:
    java, javac, maven = needs("java"), needs("javac"), needs("mvn")
    shutil.copytree(PROGRAMS / "grpc_java", tmp_path, dirs_exist_ok=True)
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    await built(maven, "-B", "-q", copy, "-DoutputDirectory=jars", folder=tmp_path)
    await run(javac, "-cp", "jars/*", "Peer.java", folder=tmp_path)
    told = await run(java, "-cp", "jars/*:.", "Peer", server.address, folder=tmp_path)
    assert told.endswith("2000 echoed, 1000 counted, refused with NOT_FOUND\n")


async def churned(address: str, count: int) -> None:
    """Connect, say hello and leave, so many times, in every way to leave."""
    host, port = split_address(address)
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)

    async def come_and_go(number: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write((b"", hello[:9], hello, hello + b"\0\0\1\1\4\0\0\0\1\x82")[number % 4])
        if number % 3 and number % 4:  # nobody answers who says nothing
            await reader.read(9)
        writer.transport.abort() if number % 2 else writer.close()

    for begin in range(0, count, 100):
        await asyncio.gather(*(come_and_go(number) for number in range(begin, min(count, begin + 100))))


@pytest.mark.parametrize("count", [500, pytest.param(50_000, marks=pytest.mark.nightly)])
async def test_connections_that_come_and_go_leave_nothing(server: CarrierServer, count: int) -> None:
    await churned(server.address, count)
    async with asyncio.timeout(PATIENCE_S):
        while server._side.connections:  # type: ignore[attr-defined]
            await server._side.changed.wait()  # type: ignore[attr-defined]
    side = server._side  # type: ignore[attr-defined]
    assert (side.active, side.partial.bytes, side.memory.used_bytes) == (0, 0, 0)
    async with aio.insecure_channel(server.address) as channel:
        assert await channel.unary_unary(ECHO, None, None)(b"still here") == b"still here"

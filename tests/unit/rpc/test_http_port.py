"""Ports for HTTP: what is answered there, and what is said of one that cannot be had."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from danube.model.errors import SettingsError
from danube.model.limits.faces import HTTP_CONNECTIONS_SPARE
from danube.rpc.http_port import App, HttpConnection, HttpPort, Message, Receive, Send, listen
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S

INSTEAD = "choose another with --port"


async def hello(scope: Message, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def asked(address: tuple[str, int], path: bytes = b"/") -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    with closing(writer):
        writer.write(b"GET " + path + b" HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
        return await reader.read()


@contextlib.asynccontextmanager
async def a_port(app: App, requests_max: int = 10) -> AsyncIterator[tuple[str, int]]:
    """A port with the probe /health, until the block ends."""
    tasks = TaskScope("test")
    port = HttpPort(app, requests_max=requests_max, drain_s=1, probes=frozenset({"/health"}))
    async with asyncio.timeout(PATIENCE_S):
        with listen("127.0.0.1", 0, INSTEAD) as listener:
            serving = tasks.spawn(port.serve(sockets=[listener]), "port")
            try:
                yield listener.getsockname()
            finally:
                await port.stop(serving)
                await tasks.close()


@contextlib.asynccontextmanager
async def silent(address: tuple[str, int], count: int, said: bytes = b"") -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections that say no more than this, as seen by their clients."""
    with contextlib.ExitStack() as stack:
        readers = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection(*address)
            stack.enter_context(closing(writer))
            writer.write(said)
            readers.append(reader)
        yield readers


async def ended(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionResetError):
        await reader.read()
    return True


async def test_a_port_answers_until_it_is_stopped_and_tells_nothing_of_itself() -> None:
    tasks, port = TaskScope("test"), HttpPort(hello, requests_max=10, drain_s=PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        with listen("127.0.0.1", 0, INSTEAD) as listener:
            serving = tasks.spawn(port.serve(sockets=[listener]), "port")
            answer = await asked(listener.getsockname())
            await port.stop(serving)
            assert serving.done()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"hello")
    assert b"server:" not in head.lower()


async def test_a_call_that_does_not_end_has_its_moment_and_is_then_cut_off() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(scope: Message, receive: Receive, send: Send) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tasks, port = TaskScope("test"), HttpPort(endless, requests_max=10, drain_s=1)
    async with asyncio.timeout(PATIENCE_S):
        with listen("127.0.0.1", 0, INSTEAD) as listener:
            serving = tasks.spawn(port.serve(sockets=[listener]), "port")
            asking = tasks.spawn(asked(listener.getsockname()), "asking")
            await begun.wait()
            await port.stop(serving)
            await ended.wait()
            await asyncio.wait([serving, asking])
    await tasks.close()


@pytest.mark.parametrize(
    "said", [b"", b"GET /health HT", b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nbody"]
)
async def test_a_connection_without_a_whole_request_is_ended(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpConnection, "timeout_s", 0.05)

    async def reads_all(scope: Message, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass

    async with a_port(reads_all) as address, silent(address, 1, said) as (reader,):
        assert await ended(reader)


async def test_half_a_request_after_an_answer_does_not_keep_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpConnection, "timeout_s", 0.05)
    said = b"GET / HTTP/1.1\r\nhost: test\r\n\r\nGET / HT"
    async with a_port(hello) as address, silent(address, 1, said) as (reader,):
        assert b"hello" in await reader.read()


async def test_an_answer_that_nobody_reads_does_not_keep_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpConnection, "timeout_s", 0.05)
    left = asyncio.Event()

    async def writes(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):
            await send({"type": "http.response.body", "body": bytes(2**20), "more_body": True})
        await receive()
        left.set()

    async with a_port(writes) as address:
        _, writer = await asyncio.open_connection(*address, limit=1)
        with closing(writer):
            writer.write(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n")
            await left.wait()


async def test_connections_that_say_nothing_do_not_keep_others_from_being_heard() -> None:
    async with a_port(hello, requests_max=4) as address, silent(address, 4 + HTTP_CONNECTIONS_SPARE) as held:
        answers = [await asked(address, path) for path in (b"/health", b"/", b"/health")]
        assert [answer.split(b"\r\n")[0] for answer in answers] == [b"HTTP/1.1 200 OK"] * 3
        assert await ended(held[0]), "the oldest goes first"
        assert not held[-1].at_eof()


async def test_a_probe_is_answered_while_all_requests_that_there_may_be_are_under_way() -> None:
    begun, end = asyncio.Semaphore(0), asyncio.Event()

    async def slow(scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] != "/health":
            begun.release()
            await end.wait()
        await hello(scope, receive, send)

    tasks = TaskScope("asking")
    async with a_port(slow, requests_max=4) as address:
        slow_ones = [tasks.spawn(asked(address), "slow") for _ in range(4)]
        for _ in slow_ones:
            await begun.acquire()
        assert (await asked(address)).startswith(b"HTTP/1.1 503"), "one request too many"
        assert (await asked(address, b"/health")).startswith(b"HTTP/1.1 200")
        end.set()
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in await asyncio.gather(*slow_ones))
    await tasks.close()


def test_signals_stay_with_whoever_runs_the_process() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with HttpPort(hello, requests_max=10, drain_s=1).capture_signals():
        assert signal.getsignal(signal.SIGTERM) is before


def has_ipv6() -> bool:
    try:
        listen("::1", 0, INSTEAD).close()
    except SettingsError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        pytest.param("::1", r"\[::1\]", marks=pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")),
    ],
)
def test_a_port_that_is_taken_is_one_sentence_that_says_what_to_do_instead(host: str, shown: str) -> None:
    with listen(host, 0, INSTEAD) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"^cannot listen on {shown}:{port}: .*; choose another with --port$"):
            listen(host, port, INSTEAD)


def test_what_is_written_goes_out_at_once() -> None:
    with listen("127.0.0.1", 0, INSTEAD) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

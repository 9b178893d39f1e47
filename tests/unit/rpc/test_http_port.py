"""Ports for HTTP: what is answered there, and what is said of one that cannot be had."""

import asyncio
import signal
import socket
from contextlib import closing

import pytest

from danube.model.errors import SettingsError
from danube.rpc.http_port import HttpPort, Message, Receive, Send, listen
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S

INSTEAD = "choose another with --port"


async def hello(scope: Message, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def asked(address: tuple[str, int]) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    with closing(writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
        return await reader.read()


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

"""The proxy itself: it forwards everything, and a cut lets exactly as many bytes pass as it says."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from danube.rpc.address import join_address, split_address
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.proxy import Cut, CuttingProxy, Direction

TIMEOUT_S = PATIENCE_S


class Echo(asyncio.Protocol):
    """Answers what it gets, and remembers it."""

    def __init__(self, got: bytearray) -> None:
        self._got = got

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got.extend(data)
        self._transport.write(data)


@pytest.fixture
def got() -> bytearray:
    return bytearray()


@pytest.fixture
async def proxy(got: bytearray) -> AsyncIterator[CuttingProxy]:
    server = await asyncio.get_running_loop().create_server(lambda: Echo(got), "127.0.0.1", 0)
    async with CuttingProxy() as proxy:
        proxy.target = join_address(*server.sockets[0].getsockname()[:2])
        yield proxy
    server.close()


async def exchange(proxy: CuttingProxy, sent: bytes) -> bytes:
    """Send over a new connection and answer what comes back until all is there or the connection is over."""
    reader, writer = await asyncio.open_connection(*split_address(proxy.address))
    writer.write(sent)
    back = b""
    async with asyncio.timeout(TIMEOUT_S):
        try:
            while len(back) < len(sent) and (more := await reader.read(65_536)):
                back += more
        except ConnectionError:
            pass
    writer.close()
    return back


async def test_everything_passes_while_nothing_is_cut(proxy: CuttingProxy) -> None:
    sent = bytes(range(256)) * 8_000
    assert await exchange(proxy, sent) == sent


@pytest.mark.parametrize("count", [0, 1, 999])
async def test_a_cut_lets_so_many_bytes_reach_the_broker(proxy: CuttingProxy, got: bytearray, count: int) -> None:
    proxy.cut([Cut(count)])
    assert len(await exchange(proxy, bytes(1_000))) <= count
    assert (len(got), proxy.cuts_made, proxy.cuts_left) == (count, 1, 0)


@pytest.mark.parametrize("count", [0, 1, 999])
async def test_a_cut_lets_so_many_bytes_reach_the_client(proxy: CuttingProxy, count: int) -> None:
    proxy.cut([Cut(count, Direction.TO_CLIENT)])
    assert len(await exchange(proxy, bytes(1_000))) == count


async def test_cuts_come_one_after_the_other_and_then_none(proxy: CuttingProxy) -> None:
    proxy.cut([Cut(10, Direction.TO_CLIENT), Cut(20, Direction.TO_CLIENT)])
    assert [len(await exchange(proxy, bytes(100))) for _ in range(3)] == [10, 20, 100]


async def test_a_client_is_dropped_when_nobody_listens_behind_the_proxy(proxy: CuttingProxy) -> None:
    proxy.target = "127.0.0.1:1"
    assert await exchange(proxy, b"anybody there?") == b""

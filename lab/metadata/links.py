"""Links between the nodes of a cluster that can be cut and slowed: proxies that hold back what passes.

A cut holds back all bytes, both ways, and lets the connections stand, as a network does that loses every packet. What
was held back arrives when the link is well again; a connection that was held for longer than `LOST_AFTER_S` breaks
then, as one whose peers have given it up.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from danube.rpc.address import join_address, split_address
from danube.runtime.tasks import TaskScope

LOST_AFTER_S = 1.0
CHUNK_BYTES = 64 * 1024

Dialer = Callable[[int], int | None]  # which node dials from a local port; None when that is not known


class Links:
    """All links of a cluster. Close it with `close`."""

    def __init__(self) -> None:
        self._tasks = TaskScope("metadata links")
        self._servers: list[asyncio.Server] = []
        self._carried: set[_Carried] = set()
        self._cut: dict[frozenset[int], float] = {}
        self._healed = asyncio.Event()
        self._healed.set()
        self._delay_s = 0.0

    async def to(self, node: int, target: Callable[[], str], dialer: Dialer, *, port: int = 0) -> str:
        """A further address of a node that listens at `target()`: what dials it comes by a link."""

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            carried = _Carried(node, dialer(writer.get_extra_info("peername")[1]))
            self._tasks.spawn(self._carry(carried, target(), reader, writer), "carry")

        server = await asyncio.start_server(connected, "127.0.0.1", port)
        self._servers.append(server)
        return join_address(*server.sockets[0].getsockname()[:2])

    def cut(self, node: int, other: int) -> None:
        self._cut[frozenset({node, other})] = time.monotonic()
        self._healed.clear()

    def slow(self, seconds: float) -> None:
        self._delay_s = seconds

    def heal(self) -> None:
        now_s = time.monotonic()
        lost = {pair for pair, since_s in self._cut.items() if now_s - since_s > LOST_AFTER_S}
        for carried in list(self._carried):
            if carried.pair in lost:
                carried.abort()
        self._cut.clear()
        self._delay_s = 0.0
        self._healed.set()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for carried in list(self._carried):
            carried.abort()
        await self._tasks.close()

    async def _carry(
        self, carried: "_Carried", target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        carried.writers.append(writer)
        self._carried.add(carried)
        try:
            await self._passable(carried)
            there_reader, there_writer = await asyncio.open_connection(*split_address(target))
            carried.writers.append(there_writer)
            await asyncio.gather(self._pump(carried, reader, there_writer), self._pump(carried, there_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass  # whichever end went: the other one learns it below
        finally:
            carried.abort()
            self._carried.discard(carried)

    async def _pump(self, carried: "_Carried", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._passable(carried)
            writer.write(data)
            await writer.drain()
        await self._passable(carried)
        carried.abort()

    async def _passable(self, carried: "_Carried") -> None:
        while carried.pair in self._cut:
            await self._healed.wait()


class _Carried:
    """One connection, by way of a proxy."""

    def __init__(self, node: int, dialer: int | None) -> None:
        self.pair = frozenset({node} if dialer is None else {node, dialer})
        self.writers: list[asyncio.StreamWriter] = []

    def abort(self) -> None:
        for writer in self.writers:
            with suppress(RuntimeError):  # of a loop that is closing
                writer.transport.abort()


def dialer_among(pids: Callable[[], dict[int, int]]) -> Dialer:
    """Finds out which node dials, from what the kernel knows of its sockets; `pids()` are processes by node."""

    def dialer(port: int) -> int | None:
        inode = _inode_of(port)
        return next((node for node, pid in pids().items() if inode and _has(pid, inode)), None)

    return dialer


def _inode_of(local_port: int) -> str:
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == local_port and fields[9] != "0":
            return fields[9]
    return ""


def _has(pid: int, inode: str) -> bool:
    with suppress(OSError):
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(one.readlink()) == f"socket:[{inode}]":
                    return True
    return False

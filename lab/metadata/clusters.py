"""Clusters of real processes, one kind for each store."""

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from danube.model.errors import DanubeError
from danube.runtime.blocking import BlockingThread
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.service import ServiceProcess
from lab.metadata.links import Links, dialer_among
from lab.metadata.load import Life
from lab.metadata.member import MEMBER_PROGRAM, MemberProcess
from lab.metadata.nemesis import Cluster, FaultKind
from lab.metadata.servers import SERVERS

KEY_FILE = "secret"
_POLL_S = 0.01
_SUFFIX = ".pid"
TRANSFER_TIMEOUT_S = 5.0
LOG_ENTRIES = 150  # small, so that snapshots are taken, sent and started from in every round


class ProcessCluster(Cluster):
    """A cluster of member processes, each started by a command."""

    program = MEMBER_PROGRAM  # what its members run: a module that takes the arguments of `lab.metadata.member`
    log_entries = LOG_ENTRIES  # after which a member takes a snapshot; 0 for as many as in production

    def __init__(self, folder: Path, members: int) -> None:
        self.folder = folder
        self._members = range(members)
        self._processes: dict[int, MemberProcess] = {}
        self._lives: dict[int, Life] = {}
        self._numbers = {member: itertools.count() for member in self._members}
        self._links = Links()  # between the nodes; none where there is one

    def members(self) -> Sequence[int]:
        return self._members

    def faults(self) -> Sequence[FaultKind]:
        return FaultKind.KILL, FaultKind.KILL, FaultKind.PAUSE

    def life(self, member: int) -> Life | None:
        process = self._processes.get(member)
        return self._lives.get(member) if process is not None and process.is_running else None

    async def start(self) -> None:
        end_leftovers(self.folder)  # of a soak that was killed while they were paused
        await self._start_members()

    def kill(self, node: int) -> None:
        if (process := self._node(node)) is not None:
            process.kill()

    def pause(self, node: int) -> None:
        if (process := self._node(node)) is not None:
            process.pause()

    def resume(self, node: int) -> None:
        if (process := self._node(node)) is not None:
            process.resume()

    def _node(self, node: int) -> "MemberProcess | ServiceProcess | None":
        return self._processes.get(node)

    async def restart(self, node: int) -> None:
        await self.launch(node)
        await self.wait(node)
        self._lives[node] = Life(node, next(self._numbers[node]), self._processes[node])

    async def wait(self, node: int) -> None:
        """Return when a member that was started serves. Raises UnavailableError when it does not."""
        await self._processes[node].wait()

    async def launch(self, node: int) -> None:
        """Start a member and wait for nothing; one that runs is killed first."""
        if node in self._processes:
            await self._processes[node].close()
        self._lives.pop(node, None)
        command = [sys.executable, "-m", self.program, *self._arguments(node), "--log-entries", str(self.log_entries)]
        # known before it serves: whoever watches the links asks which process dials
        process = self._processes[node] = MemberProcess(command, self.folder / f"member-{node}.log")
        await process.launch()
        note_process(self.folder, f"member-{node}", process.pid)

    async def _start_members(self) -> None:
        await asyncio.gather(*map(self.restart, self._members))

    def cut(self, node: int, other: int) -> None:
        self._links.cut(node, other)

    def slow(self, seconds: float) -> None:
        self._links.slow(seconds)

    def heal(self) -> None:
        self._links.heal()

    async def transfer(self) -> None:
        with suppress(DanubeError, TimeoutError):  # there may be no leader, or no majority
            async with asyncio.timeout(TRANSFER_TIMEOUT_S):
                leader = await self.leader()
                if leader is not None:
                    await self._processes[leader].call("transfer")

    async def close(self) -> None:
        await asyncio.gather(*(process.close() for process in self._processes.values()))
        await self._links.close()

    async def leader(self) -> int | None:
        """Which member leads; None where none does, or it is not known."""
        return None

    def process(self, node: int) -> MemberProcess:
        """The process of a member that was started."""
        return self._processes[node]

    @abstractmethod
    def _arguments(self, node: int) -> Sequence[str]:
        """Arguments of the program: the kind of the store, and what that needs."""


class AloneCluster(ProcessCluster):
    """The store of a standalone broker: one process, and its clients in another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1)

    def _arguments(self, node: int) -> Sequence[str]:
        folder = self.folder / f"member-{node}"
        folder.mkdir(exist_ok=True)
        return "alone", "--data-dir", str(folder)


class ServiceCluster(ProcessCluster):
    """Members that share a log in a service outside, each by a link of its own. The service is the last node."""

    def __init__(self, name: str, folder: Path, members: int = 3) -> None:
        super().__init__(folder, members)
        self._name = name
        self._server = SERVERS[name](folder / name)
        self._addresses: list[str] = []
        self._thread = BlockingThread("service")

    def servers(self) -> Sequence[int]:
        return (len(self._members),)

    def faults(self) -> Sequence[FaultKind]:
        return (*(kind for kind in FaultKind if kind is not FaultKind.TRANSFER), FaultKind.CUT)

    async def start(self) -> None:
        end_leftovers(self.folder)
        await self._start_server()
        for member in self._members:
            self._addresses.append(await self._link_of(member))
        await self._start_members()

    def _node(self, node: int) -> MemberProcess | ServiceProcess | None:
        return self._server if node in self.servers() else super()._node(node)

    async def restart(self, node: int) -> None:
        if node not in self.servers():
            await super().restart(node)
        elif not self._server.is_running:
            await self._start_server()

    async def close(self) -> None:
        await super().close()
        self._server.kill()
        await self._thread.aclose()

    async def _start_server(self) -> None:
        await self._thread.run(self._server.start)
        note_process(self.folder, self._name, self._server.pid)

    async def _link_of(self, member: int) -> str:
        return await self._links.to(self.servers()[0], lambda: self._server.address, lambda _: member)

    def _arguments(self, node: int) -> Sequence[str]:
        return self._name, "--address", self._addresses[node]


class RaftCluster(ProcessCluster):
    """Members that agree by Raft; each reaches the others by links. Addresses stay the same over restarts."""

    def __init__(self, folder: Path, members: int = 3) -> None:
        super().__init__(folder, members)
        self._ports = _kept_ports(folder / "ports.json", 2 * members)
        write_secret(folder)

    def faults(self) -> Sequence[FaultKind]:
        return (*FaultKind, FaultKind.KILL, FaultKind.ISOLATE)

    async def start(self) -> None:
        dialer = dialer_among(self._pids)
        for member in self._members:
            await self._links.to(member, partial(self._bound, member), dialer, port=self._ports[2 * member + 1])
        await super().start()

    async def leader(self) -> int | None:
        told = [await process.call("status") for process in self._processes.values()]
        leading = [one["leader_id"] for one in told if one["leader_id"]]
        return next((member for member, one in enumerate(told) if one["node_id"] in leading), None)

    def _pids(self) -> dict[int, int]:
        return {member: process.pid for member, process in self._processes.items() if process.is_running}

    def _bound(self, member: int) -> str:
        return f"127.0.0.1:{self._ports[2 * member]}"

    def _advertised(self, member: int) -> str:
        return f"127.0.0.1:{self._ports[2 * member + 1]}"

    def _arguments(self, node: int) -> Sequence[str]:
        seeds = [flag for member in self._members for flag in ("--seed", self._advertised(member))]
        return [
            *("raft", "--data-dir", str(self.folder / f"member-{node}"), "--bind", self._bound(node)),
            *("--advertised", self._advertised(node), "--secret-file", str(self.folder / KEY_FILE), *seeds),
        ]


def write_secret(folder: Path) -> None:
    """Write the secret that members of a group in this folder share."""
    (folder / KEY_FILE).write_bytes(b"a secret that only this test knows")


def _kept_ports(path: Path, count: int) -> list[int]:
    """As many free ports as are needed, the same ones at each start."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([free_port() for _ in range(count)]), encoding="utf-8")
    ports: list[int] = json.loads(path.read_text(encoding="utf-8"))
    return ports


CLUSTERS: dict[str, Callable[[Path], ProcessCluster]] = {
    "alone": AloneCluster,
    "etcd": partial(ServiceCluster, "etcd"),
    "zookeeper": partial(ServiceCluster, "zookeeper"),
    "raft": RaftCluster,
}
"""By the name of the store."""


# Processes that outlive a run that was killed: noted in its folder, ended when the folder is used again


def note_process(folder: Path, name: str, pid: int) -> None:
    """Write down that this process runs for the folder; the last one of a name counts."""
    (folder / f"{name}{_SUFFIX}").write_text(f"{pid} {_began(pid)}", encoding="ascii")


def end_leftovers(folder: Path) -> None:
    """`kill -9` what was noted and still runs, and wait until it is gone. A pid that is another's by now is spared."""
    for note in folder.glob(f"*{_SUFFIX}"):
        pid, _, began = note.read_text(encoding="ascii").partition(" ")
        while began and _began(int(pid)) == began:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            threading.Event().wait(_POLL_S)
        note.unlink()


def _began(pid: int) -> str:
    """When it was started, in ticks since the machine was; "" when it does not run, a zombie neither."""
    with suppress(OSError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return "" if state == "Z" else fields[18]
    return ""

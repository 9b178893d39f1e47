"""Every implementation of `MetadataStore`, opened for the contract suite beside this file.

A new one adds its opener to `STORES`.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.replication import replicated
from danube.metadata.shared_log import appender
from danube.metadata.shared_log.sequencer import open_shared_log
from danube.metadata.store import MetadataStore
from danube.model.errors import UnavailableError
from danube.runtime.rng import SystemRng
from danube.testing.alone_metadata import open_alone
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.service import ServiceProcess
from danube.testing.simulated.clock import SimClock
from lab.metadata.servers import SERVERS, backend_at, new_root
from lab.shared_log.backend import SimulatedBackend, SimulatedLog
from tests.unit.metadata.raft.local import open_group

WATCH_EVENTS_MAX = 8

Opener = Callable[[SimClock, Path], Awaitable[MetadataStore]]


async def _open_memory(clock: SimClock, _folder: Path) -> MetadataStore:
    return MemoryStore(clock, watch_events_max=WATCH_EVENTS_MAX)


async def _open_shared(clock: SimClock, _folder: Path) -> MetadataStore:
    backend = SimulatedBackend(SimulatedLog())
    return await open_shared_log(backend, clock, SystemRng(seed=1), watch_events_max=WATCH_EVENTS_MAX)


async def _open_service(name: str, clock: SimClock) -> MetadataStore:
    address = await asyncio.to_thread(_running, name)
    rng = SystemRng()
    backend = backend_at(name, address, new_root(), rng)
    return await open_shared_log(backend, clock, rng, watch_events_max=WATCH_EVENTS_MAX)


async def _open_etcd(clock: SimClock, _folder: Path) -> MetadataStore:
    return await _open_service("etcd", clock)


async def _open_zookeeper(clock: SimClock, _folder: Path) -> MetadataStore:
    return await _open_service("zookeeper", clock)


async def _open_raft(clock: SimClock, folder: Path) -> MetadataStore:
    return await open_group(folder, clock, 1, watch_events_max=WATCH_EVENTS_MAX)


async def _open_alone(clock: SimClock, folder: Path) -> MetadataStore:
    return await open_alone(folder, clock, watch_events_max=WATCH_EVENTS_MAX)


async def _open_raft_of_three(clock: SimClock, folder: Path) -> MetadataStore:
    return await open_group(folder, clock, 3, watch_events_max=WATCH_EVENTS_MAX)


def _running(name: str) -> str:
    """Where a real one serves; skips where it cannot be had, which is a failure if `CI` is set."""
    try:
        return _services.server(name).address
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


STORES: dict[str, Opener] = {
    "memory": _open_memory,
    "alone": _open_alone,
    "shared": _open_shared,
    "raft": _open_raft,
    "raft of three": _open_raft_of_three,
    "etcd": _open_etcd,
    "zookeeper": _open_zookeeper,
}

REAL_SERVICES = {"etcd", "zookeeper"}
SLOW = {"raft of three"}
"""Each of them elects a leader first."""


class SharedServers:
    """Each is started when it is first asked for. A context manager's worth of state: `close` ends them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="danube-services-")
        self._servers: dict[str, ServiceProcess] = {}

    def server(self, name: str) -> ServiceProcess:
        """The running one. Raises UnavailableError where it cannot be had."""
        server = self._servers.get(name)
        if server is None:
            server = SERVERS[name](Path(self._folder.name) / name)
            server.start()
            self._servers[name] = server
        return server

    def close(self) -> None:
        """End them, and remove what they kept."""
        for server in self._servers.values():
            server.kill()
        self._folder.cleanup()


_services = SharedServers()


@pytest.fixture(scope="session", autouse=True)
def _end_services() -> Iterator[None]:
    yield
    _services.close()


@pytest.fixture
def watch_events_max() -> int:
    """How many changes a watch of `store` keeps for a reader that does not read."""
    return WATCH_EVENTS_MAX


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture(
    params=[
        pytest.param(
            name,
            marks=[pytest.mark.cluster, pytest.mark.xdist_group(name)] * (name in REAL_SERVICES)
            + [pytest.mark.slow, pytest.mark.timeout(240)] * (name in SLOW),
        )
        for name in STORES
    ]
)
async def store(
    request: pytest.FixtureRequest, clock: SimClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MetadataStore]:
    """What a service or a group says is timed by the machine's clock, and the machine may stand still."""
    for module in (replicated, appender):
        monkeypatch.setattr(module, "METADATA_SUBMIT_TIMEOUT_S", PATIENCE_S)
    opened = await STORES[request.param](clock, tmp_path)
    yield opened
    await opened.close()

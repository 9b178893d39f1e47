"""Servers of etcd or ZooKeeper that agree among themselves."""

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from danube.model.errors import UnavailableError
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.etcd import EtcdServer
from danube.testing.processes.zookeeper import ZookeeperServer

_POLL_S = 0.02


class Ensemble:
    """Several servers of one service that agree among themselves. A context manager that kills them."""

    def __init__(self, name: str, folder: Path, count: int = 3) -> None:
        """Nothing is started yet. Raises UnavailableError where the service cannot be had."""
        self.name = name
        self.servers: Sequence[EtcdServer | ZookeeperServer] = _joined(name, folder, count)

    @property
    def addresses(self) -> Sequence[str]:
        """`host:port` of each, in the order of the servers."""
        return [server.address for server in self.servers]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start those that do not run, all at once; returns when all serve. Raises UnavailableError."""
        for server in self.servers:
            if not server.is_running:
                server.launch()
        for server in self.servers:
            server.wait_until_it_serves()

    def leader(self, *, besides: EtcdServer | ZookeeperServer | None = None) -> EtcdServer | ZookeeperServer:
        """The one that leads, as soon as one does; another one than `besides`, which is not asked.

        Raises UnavailableError when none does for too long.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            for server in self.servers:
                if server is not besides and server.is_running and server.leads():
                    return server
            time.sleep(_POLL_S)
        raise UnavailableError(f"no server of {self.name} has led for {PATIENCE_S:g} s")

    def close(self) -> None:
        for server in self.servers:
            server.kill()


def _joined(name: str, folder: Path, count: int) -> Sequence[EtcdServer | ZookeeperServer]:
    folders = [folder / f"{name}-{number}" for number in range(count)]
    if name == "etcd":
        etcds = [EtcdServer(each) for each in folders]
        for etcd in etcds:
            etcd.join(etcds)
        return etcds
    zookeepers = [ZookeeperServer(each) for each in folders]
    for zookeeper in zookeepers:
        zookeeper.join(zookeepers)
    return zookeepers

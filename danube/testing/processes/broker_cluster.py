"""Brokers in processes of their own that are one cluster: by Raft among themselves, or with an etcd that is given."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.free_ports import free_port


class BrokerCluster:
    """Several `danube-broker` on loopback. A context manager that kills them.

    Over Raft they share a secret, which is made here and kept in a file that its owner alone can read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        size: int = 3,
        etcd: str | None = None,
        flags: Sequence[Sequence[str]] = (),
        raft_ports: Sequence[int] = (),
    ) -> None:
        """`etcd` is the `host:port` of one; Raft where none is given. `flags` are those of each broker."""
        ports = list(raft_ports) or [free_port() for _ in range(size)]
        own = list(flags) or [()] * size
        shared = {"meta_store_endpoints": etcd} if etcd else {"meta_store_secret_file": str(_secret(folder))}
        how = [_etcd_flags() if etcd else _raft_flags(ports, number) for number in range(size)]
        self.brokers = [
            BrokerProcess(
                folder / f"broker{number + 1}",
                flags=[*how[number], *own[number]],
                settings=shared,
            )
            for number in range(size)
        ]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start all of them, and wait until each serves. Raises UnavailableError with the log of one that does not."""
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait()

    def kill(self) -> None:
        """`kill -9` for all that run."""
        for broker in self.brokers:
            broker.kill()


def _etcd_flags() -> list[str]:
    return ["--meta-store-type", "etcd"]


def _raft_flags(ports: Sequence[int], number: int) -> list[str]:
    seeds = ",".join(f"127.0.0.1:{port}" for port in ports)
    return ["--seed-nodes", seeds, "--raft-addr", f"127.0.0.1:{ports[number]}"]


def _secret(folder: Path) -> Path:
    path = folder / "raft.secret"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    return path

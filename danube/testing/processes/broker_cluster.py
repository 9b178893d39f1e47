"""Brokers in processes of their own that are one cluster: by Raft among themselves, or with a service that is given."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from danube.model.ownership import StorageMode
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.object_server import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectServer
from danube.testing.processes.service import ServiceProcess

_PLACES = {"etcd": "meta_store_endpoints", "zookeeper": "meta_store_hosts"}


class BrokerCluster:
    """Several `danube-broker` on loopback. A context manager that kills them.

    Over Raft they share a secret, which is made here and kept in a file that its owner alone can read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        size: int = 3,
        service: ServiceProcess | None = None,
        root: str = "/danube",
        mode: StorageMode = StorageMode.LOCAL,
        flags: Sequence[Sequence[str]] = (),
        launchers: Sequence[Sequence[str]] = (),
        raft_ports: Sequence[int] = (),
        settings: Mapping[str, str] | None = None,
        objects: ObjectServer | None = None,
    ) -> None:
        """`service` is an etcd or a ZooKeeper, which keeps the metadata below `root`; Raft where none is given.

        In the mode `shared_fs` all messages are in one folder below `folder`; in `object_store` they are in the bucket
        of `objects`. `flags` and `launchers` are those of each broker, and `settings`, those without a flag, of all.
        """
        ports = list(raft_ports) or [free_port() for _ in range(size)]
        own = list(flags) or [()] * size
        how = [_raft_flags(ports, number) for number in range(size)] if service is None else [()] * size
        self.brokers = [
            BrokerProcess(
                folder / f"broker{number + 1}",
                flags=[*_storage_flags(folder, mode, objects), *how[number], *own[number]],
                settings={**_metadata(folder, service, root), **_keys(objects), **(settings or {})},
                launcher=launchers[number] if launchers else (),
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


def _metadata(folder: Path, service: ServiceProcess | None, root: str) -> dict[str, str]:
    if service is None:
        return {"meta_store_secret_file": str(_secret(folder))}
    return {"meta_store_type": service.name, _PLACES[service.name]: service.address, "meta_store_root": root}


def _storage_flags(folder: Path, mode: StorageMode, objects: ObjectServer | None) -> list[str]:
    if mode is StorageMode.LOCAL:
        return []
    if mode is StorageMode.OBJECT_STORE:
        if objects is None:
            raise ValueError("the mode object_store needs the server of an object store")
        place = [f"s3://{BUCKET}/cluster", "--object-store-endpoint", objects.endpoint]
        return ["--storage-mode", mode, "--object-store-url", *place]
    shared = folder / "shared"
    shared.mkdir(parents=True, exist_ok=True)
    return ["--storage-mode", mode, "--storage-folder", str(shared)]


def _keys(objects: ObjectServer | None) -> dict[str, str]:
    if objects is None:
        return {}
    keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": REGION}
    return {f"object_store_{name}": value for name, value in keys.items()}


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

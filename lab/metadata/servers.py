"""Servers of etcd and ZooKeeper, and connections to them."""

import uuid
from collections.abc import Sequence

from danube.metadata.shared_log.etcd.client import EtcdSettings
from danube.metadata.shared_log.etcd.etcd_backend import EtcdBackend
from danube.metadata.shared_log.zookeeper.client import ZookeeperSettings
from danube.metadata.shared_log.zookeeper.zookeeper_backend import ZookeeperBackend
from danube.runtime.rng import Rng
from danube.testing.processes.etcd import EtcdServer
from danube.testing.processes.zookeeper import ZookeeperServer

SERVERS: dict[str, type[EtcdServer] | type[ZookeeperServer]] = {"etcd": EtcdServer, "zookeeper": ZookeeperServer}


def new_root() -> str:
    """A root that nobody uses."""
    return f"/danube/{uuid.uuid4().hex}"


def backend_at(name: str, address: str, root: str, rng: Rng) -> EtcdBackend | ZookeeperBackend:
    """A member's connection to the service at `address`."""
    return backend_among(name, [address], root, rng)


def backend_among(name: str, addresses: Sequence[str], root: str, rng: Rng) -> EtcdBackend | ZookeeperBackend:
    """The same to a service of several servers."""
    if name == "etcd":
        return EtcdBackend(EtcdSettings(endpoints=addresses, root=root), rng)
    return ZookeeperBackend(ZookeeperSettings(hosts=addresses, root=root), rng)

"""One etcd and one ZooKeeper for all tests of a session: each test has a root of its own in them."""

import tempfile
import uuid
from pathlib import Path

from danube.metadata.shared_log.etcd import EtcdBackend
from danube.metadata.shared_log.etcd_client import EtcdSettings
from danube.metadata.shared_log.zookeeper import ZookeeperBackend
from danube.metadata.shared_log.zookeeper_client import ZookeeperSettings
from danube.runtime.rng import Rng
from danube.testing.etcd_server import EtcdServer
from danube.testing.service_process import ServiceProcess
from danube.testing.zookeeper_server import ZookeeperServer

SERVERS: dict[str, type[EtcdServer] | type[ZookeeperServer]] = {"etcd": EtcdServer, "zookeeper": ZookeeperServer}


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


def new_root() -> str:
    """A root that nobody uses."""
    return f"/danube/{uuid.uuid4().hex}"


def backend_at(name: str, address: str, root: str, rng: Rng) -> EtcdBackend | ZookeeperBackend:
    """A member's connection to the service at `address`."""
    if name == "etcd":
        return EtcdBackend(EtcdSettings(endpoints=[address], root=root), rng)
    return ZookeeperBackend(ZookeeperSettings(hosts=[address], root=root), rng)

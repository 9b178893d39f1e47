"""A real Prometheus that scrapes brokers: the machine's own."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.testing.processes.service import ServiceProcess, ask


class PrometheusServer(ServiceProcess):
    """One Prometheus, which scrapes its targets every second."""

    name = "prometheus"

    def __init__(self, folder: Path, targets: Sequence[str]) -> None:
        """Scrape these `host:port`. Raises UnavailableError where there is no Prometheus."""
        super().__init__(folder)
        self._binary = find_prometheus()
        self._targets = targets

    def _command(self) -> Sequence[str]:
        config = self.folder / "prometheus.yml"
        scrape = f"{{job_name: danube, static_configs: [{{targets: {list(self._targets)}}}]}}"
        config.write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs: [{scrape}]\n")
        return [
            self._binary,
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--log.level=warn",
        ]

    def _serves(self) -> bool:
        return b" 200 " in ask(self.port, b"GET /-/ready HTTP/1.0\r\n\r\n")


def find_prometheus() -> str:
    """The path of Prometheus. Raises UnavailableError where there is none."""
    found = shutil.which("prometheus")
    if not found:
        raise UnavailableError("there is no prometheus: install it (Debian's package `prometheus`) to run this test")
    return found

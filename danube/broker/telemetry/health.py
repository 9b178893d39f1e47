"""Health of one broker: has it started, does it take clients, would a restart help."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from danube.broker.environment import Dependencies
from danube.broker.security.building import Credentials
from danube.runtime.tasks import TaskScope
from danube.storage.store import Storage

if TYPE_CHECKING:
    import ssl

    from danube.rpc.metrics_port import MetricsPort

_STARTING = "it starts, and serves nobody yet: its log tells what it waits for"

_INSTEAD = "choose another address for metrics with --prom-exporter"


class BrokerHealth:
    """Answers the probes; each is the problem, or None.

    None of them asks the cluster: a broker that leads nothing is ready, and one without a majority lives.
    """

    def __init__(self) -> None:
        self._storage: Storage | None = None
        self._waits: str | None = _STARTING
        self._has_started = False

    @property
    def checks(self) -> dict[str, Callable[[], str | None]]:
        """The probes by their path."""
        return {
            "/health": self.live,
            "/health/live": self.live,
            "/health/ready": lambda: self._waits or self.live(),
            "/health/startup": lambda: None if self._has_started else _STARTING,
        }

    def live(self) -> str | None:
        """A problem that a restart may solve. It does not help against a full disk, or without a majority."""
        return None if self._storage is None else self._storage.stopped

    def follow(self, storage: Storage) -> None:
        """The storage is open from now on."""
        self._storage = storage

    def started(self) -> None:
        """Clients are served from now on."""
        self._waits, self._has_started = None, True

    def ending(self) -> None:
        """The broker drains: new clients go elsewhere."""
        self._waits = "it stops: look its topics up at another broker"


async def open_health(deps: Dependencies, credentials: Credentials | None) -> tuple[BrokerHealth, "MetricsPort | None"]:
    """Answer probes on the metrics port from now on, until all other parts have stopped. Raises SettingsError."""
    health, address = BrokerHealth(), deps.settings.prom_exporter
    if address is None:
        return health, None
    from danube.rpc.metrics_port import MetricsPort  # noqa: PLC0415 - a broker without a metrics port starts without it

    tasks, tls = TaskScope("metrics"), http_tls(deps, credentials)
    deps.running.push_async_callback(tasks.close)
    server = MetricsPort(health.checks, tasks, tls=tls, facts=lambda: _facts(credentials), instead=_INSTEAD)
    await server.start(address)
    deps.running.push_async_callback(server.stop)
    return health, server


def http_tls(deps: Dependencies, credentials: Credentials | None) -> "ssl.SSLContext | None":
    """TLS of the ports that speak HTTP; None where they have none."""
    return credentials.http_certificates.context if credentials and deps.settings.auth.http_tls else None


def _facts(credentials: Credentials | None) -> dict[str, str]:
    """Expiry of the certificate, for programs that ask for the broker's health."""
    if credentials is None:
        return {}
    until = datetime.fromtimestamp(credentials.certificates.expires_s, UTC)
    return {"certificate_expires": until.isoformat(timespec="seconds")}

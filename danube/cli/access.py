"""How a command reaches its broker: the same words for every command."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from danube.model.limits.faces import CLI_CONNECT_TIMEOUT_S, CLI_RETRY_TOTAL_S

if TYPE_CHECKING:
    from danube.client import ConsumerOptions, DanubeClient, ProducerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the broker is, who asks, and for how long."""

    service_addr: str
    ca_cert: str | None = None
    token: str | None = None
    connect_timeout_s: float = CLI_CONNECT_TIMEOUT_S
    """For the first connection."""
    retry_for_s: float = CLI_RETRY_TOTAL_S
    """For a broker that was there."""

    async def connect(self) -> "DanubeClient":
        """A client. Raises SettingsError for a wrong address or an unreadable certificate."""
        from danube.client import DanubeClientBuilder  # noqa: PLC0415 - `--help` needs no gRPC

        builder = DanubeClientBuilder().service_url(self.service_addr)
        if self.ca_cert:
            builder.with_tls(self.ca_cert)
        if self.token:
            builder.with_token(self.token)
        return await builder.build()

    def producer_options(self) -> "ProducerOptions":
        """For how long a producer tries."""
        from danube.client import ProducerOptions  # noqa: PLC0415 - `--help` needs no gRPC

        return ProducerOptions(connect_total_s=self.connect_timeout_s, retry_total_s=self.retry_for_s)

    def consumer_options(self) -> "ConsumerOptions":
        """For how long a consumer tries."""
        from danube.client import ConsumerOptions  # noqa: PLC0415 - `--help` needs no gRPC

        return ConsumerOptions(connect_total_s=self.connect_timeout_s, retry_total_s=self.retry_for_s)

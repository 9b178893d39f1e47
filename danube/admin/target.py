"""Which cluster a face speaks to, and how."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from danube.admin.access import Guard
from danube.admin.gateway import AdminGateway
from danube.model.errors import SettingsError
from danube.model.limits.broker import ADMIN_CALL_TIMEOUT_S
from danube.rpc.address import is_loopback, split_address

PROGRAM = "danube-admin"
PASSED_TOKEN: ContextVar[str | None] = ContextVar("passed_token", default=None)
"""Token of who calls a face that passes tokens on; in place of the target's."""
DEFAULT_ENDPOINT = "http://127.0.0.1:50051"


class Colour(StrEnum):
    """Colours that mark clusters, so that nobody takes one for another."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    CYAN = "cyan"
    BLUE = "blue"
    MAGENTA = "magenta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Everything that is needed to reach a cluster's admin port, resolved from flags, variables and a context."""

    endpoint: str = DEFAULT_ENDPOINT
    """`http://host:port` or `https://host:port`, of any broker; of several with commas between, asked in turn."""
    context: str | None = None
    """The name of the context it came from; None when flags or variables named the endpoint."""
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_domain: str | None = None
    """The name that the broker's certificate must have, where that is not the endpoint's host."""
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    guard: Guard = field(default_factory=Guard)
    assume_yes: bool = False
    """Plans made on the command line are applied without a question."""
    timeout_s: float = ADMIN_CALL_TIMEOUT_S
    """Of one call to a broker."""
    prometheus: str | None = field(default=None, repr=False)
    """URL of a Prometheus that scrapes the brokers; may hold a password."""
    colour: Colour | None = None
    """Of the context; None where it has none."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Brokers of the cluster, in the order in which they are asked."""
        return tuple(self.endpoint.split(","))

    def passing_tokens(self) -> "Target":
        """The same without a token of its own, for a face that passes on those of its callers.

        Raises SettingsError where they would leave this machine in plain text.
        """
        hosts = [split_address(each.partition("://")[2])[0] for each in self.endpoints]
        if not self.tls and not all(map(is_loopback, hosts)):
            raise SettingsError(f"--pass-tokens needs an https:// endpoint: {self.endpoint} is in plain text")
        return replace(self, token=None)  # nobody gets the rights of who started the server


Connect = Callable[[Target], AbstractAsyncContextManager[AdminGateway]]
"""Opens a gateway and closes it; reaches nobody before the first call."""

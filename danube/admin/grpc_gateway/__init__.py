"""The way to a real cluster: `open_gateway` is what the command hands to its faces.

`gateway` makes the calls, and `broker_connection` carries them.
`plans_and_audit` has plans and audit log where the broker keeps them, and `original` where it does not; `system_topics`
reads what brokers publish about themselves.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from danube.admin.gateway import AdminGateway
from danube.admin.target import Target


@asynccontextmanager
async def open_gateway(target: Target) -> AsyncIterator[AdminGateway]:
    """A gateway to the target's cluster, closed at the end; nobody is reached before the first call.

    Raises SettingsError for a certificate that cannot be read, and for a token that would leave this machine in plain
    text.
    """
    from danube.admin.grpc_gateway.gateway import opened  # noqa: PLC0415 - `--help` needs no gRPC

    async with opened(target) as gateway:
        yield gateway
